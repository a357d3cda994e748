/**
 * The contract that every store fulfils.
 *
 * P1. One transaction per state change.
 * P2. Every write after a claim is fenced by the claim's token, and an expired token is worth nothing.
 * P3. Unique keys make repeats harmless: (instance, execution, event id), one work item per (instance, execution, operation).
 * P4. One clock decides visibility and expiry.
 * P5. An unknown commit outcome is resolved by reading again: `lastTurn` tells whether a turn landed.
 * P6. Claims are counted in the claim, and given back by a shutdown or a hold-back.
 * P7. Policy (retry, backoff, status) is computed outside; a provider stores what it is told.
 * P8. A batch is the normal case, a batch of one the simple one, and one bad item never spoils its neighbours.
 * P9. Hints are only hints: everything stays correct when all of them are dropped.
 *
 * Every clause below is shown by a case of the conformance suite in `perdure/testing`.
 */
import type { InstanceStore } from './instances.ts';
import type { OrchestrationQueue } from './orchestration-queue.ts';
import type { WorkQueue } from './work-queue.ts';

/** Something a waiting process may want to look at. A hint can come late, twice, or not at all. */
export type Hint =
  /** Instances reached a terminal state in this process. */
  | { readonly kind: 'finished'; readonly instanceIds: readonly string[] }
  /** Cancel was requested for these claimed items. */
  | { readonly kind: 'cancelRequested'; readonly lockTokens: readonly string[] }
  /** Another process changed something. */
  | { readonly kind: 'changed' };

/** A store: SQLite, PostgreSQL, or yours. */
export interface Provider extends OrchestrationQueue, WorkQueue, InstanceStore {
  /** For logs and errors, without secrets. */
  readonly name: string;

  /** Calls back on hints, after the change has committed; returns how to stop. */
  hints(listener: (hint: Hint) => void): () => void;

  /** Finishes what was begun, ends waits, releases the store. Idempotent. */
  close(): Promise<void>;
}
