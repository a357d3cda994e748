import { operations as remoteOperations } from '../../../remote/operations.ts';
import type { RequestOf, ResponseOf, RouteShape } from '../../../server/routes/route.ts';
import type { Routes } from '../../../server/routes/table.ts';

type Place<Shape extends RouteShape> = `${Shape['method']} ${Shape['path']}`;

/** The routes that the dashboard calls: those of the remote client, and some for viewers. Checked by type only. */
export const operations = {
  ...remoteOperations,
  me: 'GET /v1/me',
  watchChanges: 'GET /v1/changes',
  listFlows: 'GET /v1/flows',
  startFlow: 'POST /v1/flows/{name}/runs',
  getFlowRun: 'GET /v1/flow-runs/{id}',
  getFlowGraph: 'GET /v1/flow-runs/{id}/graph',
  listFlowItems: 'GET /v1/flow-runs/{id}/items',
  signalFlow: 'POST /v1/flow-runs/{id}/signals',
} as const satisfies { readonly [Name in keyof Routes]?: Place<Routes[Name]> };

export type Operation = keyof typeof operations;
export type Request<Name extends Operation> = RequestOf<Routes[Name]>;
export type ResponseBody<Name extends Operation> = ResponseOf<Routes[Name]>;
