/** The states of an instance. Exactly one terminal state ever persists: the first committed wins. */
export type InstanceStatus = 'pending' | 'running' | 'canceling' | TerminalStatus;

/** The states from which an instance never moves again; only task runs are `skipped` or `expired`. */
export type TerminalStatus =
  'completed' | 'failed' | 'canceled' | 'terminated' | 'skipped' | 'expired';

/** The states of one execution of an instance. */
export type ExecutionStatus =
  'pending' | 'running' | 'canceling' | TerminalStatus | 'continuedAsNew';

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

/** Says whether a status is one that never changes again. */
export function isTerminal(status: InstanceStatus | ExecutionStatus): status is TerminalStatus {
  return terminal.has(status);
}
