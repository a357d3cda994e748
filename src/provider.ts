import './require-node.ts';

// The contract of a store. Test an implementation with `describeProvider` from `perdure/testing`.
export type * from './providers/contract/provider.ts';
export type * from './providers/contract/orchestration-queue.ts';
export type * from './providers/contract/turn.ts';
export type {
  CancelInfo as WorkItemCancel,
  FetchWorkItemsParams,
  HandBackResult,
  RenewResult,
  TurnAck,
  WorkItem,
  WorkItemAbandon,
  WorkItemAck,
  WorkItemRenewal,
  WorkItemRetry,
  WorkOutcome,
  WorkQueue,
} from './providers/contract/work-queue.ts';
export type * from './providers/contract/instances.ts';
export type * from './providers/contract/cancellation.ts';
export type * from './providers/contract/management.ts';
export type * from './providers/contract/reruns.ts';
export type * from './providers/contract/pausing.ts';
export type * from './providers/contract/processes.ts';
export type * from './providers/contract/tasks.ts';
export type * from './providers/contract/schedules.ts';
export type * from './providers/contract/sessions.ts';
export type * from './providers/contract/state.ts';
export type * from './providers/contract/streams.ts';
export type * from './providers/contract/updates.ts';
export type * from './providers/contract/unclaimed-work.ts';
export type * from './providers/contract/workers.ts';
export type * from './providers/contract/views.ts';
export type * from './providers/contract/limits.ts';
export type * from './providers/contract/series.ts';
export type * from './providers/contract/transactional.ts';
export type {
  InspectedInstance,
  InspectInstancesParams,
  InspectionStore,
  InstanceDetails,
  DebounceState,
  PendingItem,
  TurnState,
} from './providers/contract/inspection.ts';
export type { Withheld } from './providers/contract/page-bytes.ts';

// Values that the contract carries
export type { CancelRequest, CancelDetails, CancellationType } from './model/cancel.ts';
export type { Clock } from './model/clock.ts';
export type { ParentRef, Ran, StoredEvent } from './model/event.ts';
export type { StoredMessage } from './model/message.ts';
export type { ExecutionStatus, InstanceStatus, TerminalStatus } from './model/status.ts';
export type { Payload } from './model/values/payload.ts';

// Errors that a provider throws
export { LockLostError, PerdureError, ProviderError } from './model/failures/errors.ts';
export type { CancelTrigger } from './model/failures/errors.ts';
