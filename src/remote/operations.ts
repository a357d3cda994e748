import type { ResponseOf, RequestOf, RouteShape } from '../server/routes/route.ts';
import type { Routes } from '../server/routes/table.ts';

type Place<Shape extends RouteShape> = `${Shape['method']} ${Shape['path']}`;

/** The routes that the client calls. Checked against the server's route table by type only, which adds no code. */
export const operations = {
  health: 'GET /v1/health',
  startInstance: 'POST /v1/instances',
  listInstances: 'GET /v1/instances',
  getInstance: 'GET /v1/instances/{id}',
  measureInstance: 'GET /v1/instances/{id}/size',
  waitForInstances: 'POST /v1/bulk/wait',
  raiseEvent: 'POST /v1/instances/{id}/events',
  getInstanceTree: 'GET /v1/instances/{id}/tree',
  getHistory: 'GET /v1/instances/{id}/history',
  exportHistory: 'GET /v1/instances/{id}/export',
  listExecutions: 'GET /v1/instances/{id}/executions',
  listRunning: 'GET /v1/instances/{id}/running',
  cancelInstance: 'POST /v1/instances/{id}/cancel',
  terminateInstance: 'POST /v1/instances/{id}/terminate',
  pauseInstance: 'POST /v1/instances/{id}/pause',
  resumeInstance: 'POST /v1/instances/{id}/resume',
  listPausedDefinitions: 'GET /v1/definitions/paused',
  pauseDefinition: 'POST /v1/definitions/pause',
  resumeDefinition: 'POST /v1/definitions/resume',
  deleteInstance: 'POST /v1/instances/{id}/delete',
  deleteInstances: 'POST /v1/bulk/delete',
  pruneExecutions: 'POST /v1/instances/{id}/prune',
  pruneExecutionsBulk: 'POST /v1/bulk/prune',
  listAudit: 'GET /v1/audit',
  queueDepths: 'GET /v1/queues',
  systemMetrics: 'GET /v1/system',
  runTask: 'POST /v1/tasks',
  runTasks: 'POST /v1/tasks/batch',
  listSchedules: 'GET /v1/schedules',
  getSchedule: 'GET /v1/schedules/{name}',
  putSchedule: 'POST /v1/schedules/{name}',
  pauseSchedule: 'POST /v1/schedules/{name}/pause',
  resumeSchedule: 'POST /v1/schedules/{name}/resume',
  deleteSchedule: 'POST /v1/schedules/{name}/delete',
  nextRuns: 'GET /v1/schedules/{name}/next',
  getRetention: 'GET /v1/retention',
  pauseRetention: 'POST /v1/retention/pause',
  resumeRetention: 'POST /v1/retention/resume',
  runRetention: 'POST /v1/retention/run',
  openSession: 'POST /v1/sessions',
  listSessions: 'GET /v1/sessions',
  getSession: 'GET /v1/sessions/{id}',
  keepAlive: 'POST /v1/sessions/{id}/keep-alive',
  shutdownSession: 'POST /v1/sessions/{id}/shutdown',
  waitForSession: 'GET /v1/sessions/{id}/wait',
  setSessionVariables: 'POST /v1/sessions/{id}/variables',
  listJobs: 'GET /v1/sessions/{id}/jobs',
  submitJobs: 'POST /v1/sessions/{id}/jobs',
  waitForJobs: 'POST /v1/sessions/{id}/jobs/wait',
  readChunks: 'POST /v1/sessions/{id}/jobs/chunks',
  takeJobs: 'POST /v1/sessions/{id}/jobs/taken',
  abandonJobs: 'POST /v1/sessions/{id}/jobs/abandon',
  cancelJobs: 'POST /v1/sessions/{id}/jobs/cancel',
  getJob: 'GET /v1/sessions/{id}/jobs/{jobId}',
} as const satisfies { readonly [Name in keyof Routes]?: Place<Routes[Name]> };

/** The name of a route. */
export type Operation = keyof typeof operations;
/** The request of a route. */
export type Request<Name extends Operation> = RequestOf<Routes[Name]>;
/** The response body of a route. */
export type ResponseBody<Name extends Operation> = ResponseOf<Routes[Name]>;
