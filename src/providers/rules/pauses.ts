import { isTerminal, type InstanceStatus } from '../../model/status.ts';
import type { Flag } from './claims.ts';

interface Pausable {
  readonly status: InstanceStatus;
  readonly isPaused: Flag;
}

/** Whether a pause changes an instance. A canceling one is about to end and is not paused. */
export function mayPause({ status, isPaused }: Pausable): boolean {
  return !isPaused && status !== 'canceling' && !isTerminal(status);
}

/**
 * The key under which the queue rows of an instance are claimed.
 *
 * The rows of a paused instance have the negative key of their definition. Claims, due times and reports of unclaimed
 * work select rows by the keys of definitions, which are positive. So they never find these rows, and need no condition
 * for it. Everything else in a row, such as its due time, lock and attempts, is unchanged.
 */
export function queueKey(definitionKey: number, isPaused: Flag): number {
  return isPaused ? -definitionKey : definitionKey;
}
