import type { NewInstance } from '../../contract/instances.ts';
import type { StopResult } from '../../contract/cancellation.ts';
import type {
  AbandonJob,
  JobKey,
  NewJob,
  SubmitJobResult,
  AbandonedResult,
  SessionStore,
  SettledResult,
} from '../../contract/sessions.ts';
import { nextCheckAt } from '../../rules/session-rules.ts';
import type { Scope } from '../batches/group-commit.ts';
import { createInstance, type InstanceParts } from '../instances/instances.ts';
import { createTask, type TaskParts } from '../tasks/task-runs.ts';
import type { JobRow, JobRows } from './job-rows.ts';
import type { SessionRows } from './session-rows.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';

/** The parts of the store that jobs use. */
export interface JobParts extends InstanceParts, TaskParts {
  readonly jobRows: JobRows;
  readonly sessionRows: SessionRows;
  readonly stops: InstanceStops;
}

interface StopRequest {
  readonly reason: string;
  readonly actor: string | null;
  readonly cleanupMs: number;
}

/** Creates one run as a job of its session. An error rolls back only this one. */
export function submitJob(store: JobParts, scope: Scope, job: NewJob): SubmitJobResult {
  const result = scope.isolate('submitJobs', () => submit(store, scope, job));
  return result.ok ? result.value : { kind: 'refused', error: result.error };
}

function submit(store: JobParts, scope: Scope, job: NewJob): SubmitJobResult {
  const run = job.kind === 'task' ? job.task : job.instance;
  const { instanceId, incarnation, name } = run;
  const existing = store.instances.find(instanceId);
  if (existing?.incarnation === incarnation) return { kind: 'exists' };
  if (store.deletedStarts.has(run)) return { kind: 'exists' };
  const session = store.sessionRows.find(job.sessionId);
  if (session?.state !== 'open') {
    return { kind: 'sessionClosed', state: session?.state ?? 'missing' };
  }
  if (existing !== undefined && run.onConflict !== 'terminateExisting') {
    return { kind: 'conflict', name: store.definitions.get(existing.definitionKey).name };
  }
  const result =
    job.kind === 'task'
      ? createTask(store, scope, job.task)
      : createInstance(store, scope, withoutTurn(job.instance));
  if (result.kind !== 'created') return result;
  store.jobRows.insert({
    instanceKey: result.instanceKey,
    sessionKey: session.sessionKey,
    isTask: job.kind === 'task',
    name,
    disposable: job.disposable,
  });
  return { kind: 'created' };
}

// A first turn may claim work for a worker, and this call cannot return the claim.
function withoutTurn(instance: NewInstance): NewInstance {
  const { firstTurn: _, ...rest } = instance;
  return rest;
}

/** Deletes a job whose caller has the reply. */
export function takeJob(store: JobParts, key: JobKey): void {
  const job = store.jobRows.find(key);
  if (job?.hasEnded === 1) store.jobRows.delete(job);
}

/** Marks a job as abandoned and cancels its run. */
export function abandonJob(store: JobParts, scope: Scope, request: AbandonJob): StopResult {
  const job = store.jobRows.find(request);
  if (job === undefined) return withoutJob(store, request);
  return { found: true, ...abandonRow(store, scope, job, request) };
}

/** A job is deleted when its reply is taken. A caller that knows the incarnation submitted it. */
function withoutJob(store: JobParts, { instanceId, incarnation }: JobKey): StopResult {
  const row = store.instances.find(instanceId);
  return row?.incarnation === incarnation && store.jobRows.get(row.instanceKey) === undefined
    ? { found: true, changed: false, status: row.status }
    : { found: false, changed: false, status: null };
}

/** Abandons a job. Returns whether that canceled its run, and the status of the run. */
export function abandonRow(
  store: JobParts,
  scope: Scope,
  job: JobRow,
  request: StopRequest,
): Pick<StopResult, 'changed' | 'status'> {
  const { instanceKey } = job;
  if (job.abandonedAt === null) {
    store.jobRows.setAbandoned(job, scope.now, nextCheckAt(scope.now, scope.now));
  }
  const row = job.hasEnded === 1 ? undefined : store.instances.getFull(instanceKey);
  const { reason, actor, cleanupMs } = request;
  const changed =
    row !== undefined && store.stops.request(scope, row, { reason, actor, cleanupMs });
  const abandoned = store.jobRows.get(instanceKey);
  if (abandoned?.hasEnded === 1) endAbandoned(store, scope, abandoned);
  return { changed, status: abandoned?.status ?? null };
}

/** Deletes an abandoned job whose run has ended, or makes its result claimable for disposal. */
export function endAbandoned(store: JobParts, { now }: Scope, job: JobRow): void {
  const isLateResult = job.disposable === 1 && job.status === 'completed';
  if (!isLateResult) store.jobRows.delete(job);
  else if (job.disposeAt === null) store.jobRows.setDispose(job.instanceKey, now);
}

/** Claims the results of completed runs whose jobs were abandoned. */
export function claimAbandoned(
  { jobRows }: JobParts,
  now: number,
  request: Parameters<SessionStore['claimAbandoned']>[0],
): readonly AbandonedResult[] {
  const { orchestrations, tasks, limit, lockMs } = request;
  const claim = { now, lockedUntil: now + Math.ceil(lockMs) };
  const rows = [...jobRows.claim({ ...claim, names: orchestrations, isTask: false, limit })];
  rows.push(...jobRows.claim({ ...claim, names: tasks, isTask: true, limit: limit - rows.length }));
  return rows.map(({ sessionId, instanceId, incarnation, isTask, name, output, attempts }) => ({
    key: { sessionId, instanceId, incarnation },
    kind: isTask === 1 ? 'task' : 'orchestration',
    name,
    output,
    attempt: attempts + 1,
  }));
}

/** Deletes a job whose result was disposed of, or schedules another attempt. */
export function settleAbandoned({ jobRows }: JobParts, now: number, settled: SettledResult): void {
  const job = jobRows.find(settled.key);
  // The caller may have taken the reply meanwhile.
  if (job === undefined || job.disposeAt === null) return;
  if (settled.retryInMs === null) jobRows.delete(job);
  else jobRows.setDispose(job.instanceKey, now + Math.ceil(settled.retryInMs));
}
