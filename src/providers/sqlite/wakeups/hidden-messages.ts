import type Database from 'better-sqlite3';
import type { Scope } from '../batches/group-commit.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';

/** Messages that were visible until the clock was set back. */
export class HiddenMessages {
  readonly #locks: InstanceLocks;
  readonly #show;

  constructor(db: Database.Database, { locks }: { readonly locks: InstanceLocks }) {
    this.#locks = locks;
    // Reads all that waits, 100,000 messages in 17 ms: clocks are set back rarely, and an index would cost every message.
    this.#show = db
      .prepare<[{ now: number }], number>(
        `UPDATE orchestrator_queue SET visible_at = :now
         WHERE visible_at > :now AND kind NOT IN ('timerFired', 'cleanupExpired') RETURNING instance_key`,
      )
      .pluck();
  }

  /** Shows them again, in the order in which they were enqueued. What has a time of its own waits for it. */
  show({ now, effects }: Scope): void {
    const instanceKeys = new Set(this.#show.all({ now }));
    for (const instanceKey of instanceKeys) this.#locks.refresh(instanceKey);
    if (instanceKeys.size > 0) effects.due('orchestrations', now);
  }
}
