import type Database from 'better-sqlite3';
import type { StopResult } from '../../contract/cancellation.ts';
import { formatToken } from '../../shared/lock-token.ts';
import { nextCheckAt } from '../../rules/session-rules.ts';
import type { AbandonJob } from '../../contract/sessions.ts';
import type { Scope } from '../batches/group-commit.ts';
import { taskOperation } from '../../shared/work-item-row.ts';

interface HeldRun {
  /** The index of its request. */
  readonly place: number;
  readonly instanceKey: number;
  readonly itemKey: number;
  readonly secret: string;
}

interface Stop {
  /** A JSON array. */
  readonly keys: string;
  readonly reason: string;
  readonly actor: string | null;
  readonly now: number;
}

/**
 * Abandons jobs in bulk: those whose task run a worker holds and that have emitted nothing.
 * Four statements per distinct reason take a third of the time of 1,000 single abandons. Other jobs are left unchanged.
 */
export class JobAbandons {
  readonly #select;
  readonly #stop;
  readonly #mark;
  readonly #flag;

  constructor(db: Database.Database) {
    // CROSS JOIN fixes the join order: one index search per list entry.
    this.#select = db.prepare<[{ wanted: string; now: number }], HeldRun>(
      `SELECT key AS place, instances.instance_key AS instanceKey, item_key AS itemKey, lock_token AS secret
       FROM json_each(:wanted)
         CROSS JOIN instances ON instance_id = value ->> 0 AND incarnation = value ->> 1
           AND +status = 'running' AND instances.priority IS NOT NULL
         CROSS JOIN jobs ON jobs.instance_key = instances.instance_key AND +abandoned_at IS NULL AND last_seq = 0
           AND +session_key = (SELECT session_key FROM sessions WHERE session_id = value ->> 2)
         CROSS JOIN worker_queue AS item ON item.instance_key = instances.instance_key
           AND item.execution_id = 1 AND item.operation = ${taskOperation}
           AND locked_until > :now AND point_of_no_return = 0 AND item.cancel_requested_at IS NULL`,
    );
    this.#stop = db.prepare<[Stop]>(
      `UPDATE instances
       SET status = 'canceling', cancel_requested_at = :now, cancel_reason = :reason, cancel_actor = :actor
       WHERE instance_key IN (SELECT value FROM json_each(:keys)) AND +status = 'running'`,
    );
    this.#mark = db.prepare<[{ keys: string; now: number; checkAt: number }]>(
      `UPDATE jobs SET abandoned_at = :now, check_at = :checkAt, waiting_chunks = 0, waiting_bytes = 0
       WHERE instance_key IN (SELECT value FROM json_each(:keys))`,
    );
    this.#flag = db.prepare<[Omit<Stop, 'actor'>]>(
      `UPDATE worker_queue
       SET cancel_requested = 1, cancel_requested_at = :now, cancel_trigger = 'cancel', cancel_reason = :reason
       WHERE item_key IN (SELECT value FROM json_each(:keys))`,
    );
  }

  /** Abandons the jobs that qualify. Returns their results by the index of the request. */
  abandon(scope: Scope, requests: readonly AbandonJob[]): ReadonlyMap<number, StopResult> {
    const { now } = scope;
    const rows = this.#select.all({ wanted: toWanted(requests), now });
    const byRequest = Map.groupBy(rows, ({ place }) => {
      const { reason = '', actor = null } = requests[place] ?? {};
      return JSON.stringify([reason, actor]);
    });
    for (const runs of byRequest.values()) this.#write(scope, runs, requests[runs[0]?.place ?? 0]);
    const result: StopResult = { found: true, changed: true, status: 'canceling' };
    return new Map(rows.map(({ place }) => [place, result]));
  }

  #write(
    { now, effects }: Scope,
    runs: readonly HeldRun[],
    { reason = '', actor = null }: Partial<AbandonJob> = {},
  ): void {
    const keys = JSON.stringify(runs.map(({ instanceKey }) => instanceKey));
    const itemKeys = JSON.stringify(runs.map(({ itemKey }) => itemKey));
    const changed = [
      this.#stop.run({ keys, reason, actor, now }),
      this.#mark.run({ keys, now, checkAt: nextCheckAt(now, now) }),
      this.#flag.run({ keys: itemKeys, reason, now }),
    ];
    if (changed.some(({ changes }) => changes !== runs.length)) {
      throw new Error(
        `Expected to change ${runs.length} jobs, but changed another number of rows.`,
      );
    }
    const cancel = { reason, requestedAt: now, trigger: 'cancel' } as const;
    effects.addCancelRequests(
      runs.map(({ itemKey, secret }) => ({ lockToken: formatToken(itemKey, secret), cancel })),
    );
  }
}

/** The keys of the requests as JSON. Repeated ids, and texts that JSON would change, get an empty entry. */
function toWanted(requests: readonly AbandonJob[]): string {
  const ids = new Set<string>();
  return JSON.stringify(
    requests.map(({ instanceId, incarnation, sessionId, reason }) => {
      const texts = [instanceId, incarnation, sessionId];
      const isBulk = [...texts, reason].every(
        (text) => text.isWellFormed() && !text.includes('\0'),
      );
      if (!isBulk || ids.has(instanceId)) return [];
      ids.add(instanceId);
      return texts;
    }),
  );
}
