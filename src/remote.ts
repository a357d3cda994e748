// A browser entry point: no module that it reaches imports Node.js or packages.
export { connect } from './remote/connection.ts';
export type { Connection } from './remote/connection.ts';
export type { ConnectOptions } from './remote/connect-options.ts';
export type { RemoteClient } from './remote/connection.ts';
export type { Telemetry } from './model/telemetry.ts';
export type { Job } from './jobs/job.ts';
export type { Session } from './jobs/sessions.ts';
export type { Handle } from './client/handle.ts';
export type { StartedHandle } from './client/handle.ts';
export type { CustomStatus, StateEntry, StateWaitOptions } from './client/reading/state.ts';
export type { InstanceInfo } from './client/reading/instance-info.ts';
export type { SeriesDurationInfo, SeriesMinute, SeriesQuery } from './client/reading/series.ts';
export type { SeriesDepth, SeriesDepths } from './providers/contract/series.ts';
export type { UnclaimedWorkInfo, WorkerInfo } from './client/reading/workers.ts';
export {
  CanceledError,
  FailedError,
  isPerdureError,
  PerdureError,
  ProviderError,
} from './model/failures/errors.ts';
export type { ErrorCode } from './model/failures/errors.ts';
export { serialized } from './model/values/serialized.ts';
export type { Serialized } from './model/values/serialized.ts';
