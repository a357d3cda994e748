import { hash } from 'node:crypto';
import type { StopResult } from '../contract/cancellation.ts';
import { repeatWindowMs, type DeletedStart } from './deleted-starts.ts';

/**
 * Cancels and terminations with a key. A client repeats one whose response was lost. The instance may have been retried, replaced
 * or deleted since, so the repeat must not stop what runs now.
 *
 * S1. A request with a key that changes its instance is recorded for ten minutes, in the same transaction.
 * S2. A request whose key was recorded changes nothing. It is `found` and `changed`, as the first one was.
 * S3. A request that changed nothing is not recorded: its repeat is a new request.
 * S4. A cancel and a termination with the same key are two requests.
 *
 * The records are rows of `deleted_starts`, whose keys are hashes of JSON arrays of another length.
 */
interface KeyedStop {
  readonly instanceId: string;
  readonly key?: string;
}

/** The kind of a request. */
export type StopAction = 'cancel' | 'terminate';

/** The key under which a request is recorded. `undefined`: it has none. */
export function stopKey(action: StopAction, { instanceId, key }: KeyedStop): string | undefined {
  if (key === undefined) return undefined;
  return hash('sha256', JSON.stringify([action, instanceId, key]), 'base64url');
}

/** The records of requests that changed their instances. */
export function recordedStops(
  action: StopAction,
  requests: readonly KeyedStop[],
  now: number,
): DeletedStart[] {
  return requests.flatMap((request) => {
    const startKey = stopKey(action, request);
    return startKey === undefined ? [] : [{ startKey, expiresAt: now + repeatWindowMs }];
  });
}

/** The result of a repeat. */
export function repeatedStop(status: StopResult['status'] | undefined): StopResult {
  return { found: true, changed: true, status: status ?? null };
}
