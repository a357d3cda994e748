/** The status of an instance. The first terminal status that is committed is final. */
export type InstanceStatus = 'pending' | 'running' | 'canceling' | TerminalStatus;

/** A final status. Only task runs can be `skipped` or `expired`. */
export type TerminalStatus =
  | 'completed'
  | 'failed'
  | 'canceled'
  | 'terminated'
  | 'skipped'
  | 'expired';

/** The status of one execution of an instance. */
export type ExecutionStatus =
  | 'pending'
  | 'running'
  | 'canceling'
  | TerminalStatus
  | 'continuedAsNew';

export const instanceStatuses: readonly InstanceStatus[] = [
  'pending',
  'running',
  'canceling',
  'completed',
  'failed',
  'canceled',
  'terminated',
  'skipped',
  'expired',
];

const terminal: ReadonlySet<string> = new Set<TerminalStatus>([
  'completed',
  'failed',
  'canceled',
  'terminated',
  'skipped',
  'expired',
]);

const retryable: ReadonlySet<string> = new Set<TerminalStatus>([
  'failed',
  'canceled',
  'terminated',
  'expired',
]);

/** Whether an instance or execution with this status can be run again. */
export function isRetryable(status: ExecutionStatus): boolean {
  return retryable.has(status);
}

/** Whether a status is final. */
export function isTerminal(status: InstanceStatus | ExecutionStatus): status is TerminalStatus {
  return terminal.has(status);
}
