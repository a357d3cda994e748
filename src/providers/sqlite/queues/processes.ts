import type Database from 'better-sqlite3';
import { processIdLength, type Secrets } from '../../shared/lock-token.ts';
import type { NewProcess, ProcessRecord, ProcessStore } from '../../contract/processes.ts';
import { registrationMs } from '../../rules/claims.ts';
import { queueKey } from '../../rules/pauses.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { DueItems } from './due-items.ts';

interface ProcessParts extends StoreAccess {
  readonly processes: Processes;
}

/** The parts of the store by which the claims of a process are found. */
interface Claims {
  readonly secrets: Secrets;
  readonly definitions: Definitions;
  readonly dueItems: DueItems;
}

interface HeldRange {
  readonly definitionKey: number;
  readonly suspect: 0 | 1;
  readonly now: number;
  readonly until: number;
  readonly processIds: string;
}

/** Registers processes, and takes over the claims of dead ones. */
export function createProcessStore(store: ProcessParts): ProcessStore {
  const { processes } = store;
  return {
    registerProcess: (process) =>
      store.writeOnce('registerProcess', ({ now }) => processes.register(process, now)),
    unregisterProcess: () => store.writeOnce('unregisterProcess', () => processes.unregister()),
    listProcesses: (hostId) => store.read('listProcesses', () => processes.list(hostId)),
    takeOverClaims: (processIds) =>
      store.writeOnce('takeOverClaims', (scope) => processes.takeOver(scope, processIds)),
  };
}

/** The rows of `processes`. The claims of a process are found by their tokens, in the index ranges of current leases. */
export class Processes {
  readonly #parts: Claims;
  readonly #register;
  readonly #deleteOld;
  readonly #isRegistered;
  readonly #markDead;
  readonly #list;
  readonly #longestLease;
  readonly #delete;
  readonly #endItems;
  readonly #endLocks;

  constructor(db: Database.Database, parts: Claims) {
    this.#parts = parts;
    this.#register = db.prepare<[NewProcess & { processId: string; now: number }]>(
      `INSERT INTO processes (process_id, host_id, pid, start_time, lease_ms, registered_at)
       VALUES (:processId, :hostId, :pid, :startTime, :leaseMs, :now)
       ON CONFLICT (process_id) DO UPDATE SET host_id = excluded.host_id, pid = excluded.pid,
         start_time = excluded.start_time, lease_ms = excluded.lease_ms, registered_at = excluded.registered_at`,
    );
    // The heartbeats of its workers also keep a process registered.
    this.#deleteOld = db.prepare<[{ before: number }]>(
      `DELETE FROM processes WHERE registered_at < :before AND process_id NOT IN (
         SELECT process_id FROM workers WHERE last_seen_at >= :before)`,
    );
    this.#isRegistered = db
      .prepare<[string], 1>('SELECT 1 FROM processes WHERE process_id = ?')
      .pluck();
    this.#markDead = db.prepare<[{ processIds: string; now: number }]>(
      `UPDATE workers SET died_at = :now
       WHERE died_at IS NULL AND process_id IN (SELECT value FROM json_each(:processIds))`,
    );
    this.#list = db.prepare<[string, string], ProcessRecord>(
      `SELECT process_id AS processId, pid, start_time AS startTime FROM processes
       WHERE host_id = ? AND process_id <> ?`,
    );
    const among = '(SELECT value FROM json_each(:processIds))';
    this.#longestLease = db
      .prepare<[{ processIds: string }], number | null>(
        `SELECT max(lease_ms) FROM processes WHERE process_id IN ${among}`,
      )
      .pluck();
    this.#delete = db.prepare<[{ processIds: string }]>(
      `DELETE FROM processes WHERE process_id IN ${among}`,
    );
    const held = `definition_key = :definitionKey AND (claims > 1) = :suspect AND next_at > :now AND next_at <= :until
      AND next_at IS NOT NULL AND substr(lock_token, 1, ${processIdLength}) IN ${among}`;
    this.#endItems = db.prepare<[HeldRange & { priority: number }]>(
      `UPDATE worker_queue SET locked_until = :now, next_at = :now WHERE ${held} AND priority = :priority`,
    );
    this.#endLocks = db.prepare<[HeldRange]>(
      `UPDATE instance_locks SET locked_until = :now, next_at = :now WHERE ${held}`,
    );
  }

  register(process: NewProcess, now: number): void {
    const { processId } = this.#parts.secrets;
    const leaseMs = Math.ceil(process.leaseMs);
    this.#register.run({ ...process, leaseMs, processId, now });
    this.#deleteOld.run({ before: now - registrationMs });
  }

  unregister(): void {
    this.#delete.run({ processIds: JSON.stringify([this.#parts.secrets.processId]) });
  }

  /** Whether the process of this provider is registered. */
  isRegistered(): boolean {
    return this.#isRegistered.get(this.#parts.secrets.processId) !== undefined;
  }

  list(hostId: string): readonly ProcessRecord[] {
    return this.#list.all(hostId, this.#parts.secrets.processId);
  }

  /** Expires the leases of processes, deletes their registrations and marks their workers. Returns the number of leases. */
  takeOver({ now, effects }: Scope, processIds: readonly string[]): number {
    const { definitions, dueItems } = this.#parts;
    const ids = JSON.stringify(processIds);
    const leaseMs = this.#longestLease.get({ processIds: ids }) ?? null;
    if (leaseMs === null) return 0;
    let ended = 0;
    for (const suspect of [0, 1] as const) {
      const range = { suspect, now, until: now + leaseMs, processIds: ids };
      for (const definitionKey of ofPausedToo(definitions.keysOf(['orchestration']))) {
        ended += this.#endLocks.run({ ...range, definitionKey }).changes;
      }
      for (const definitionKey of ofPausedToo(definitions.keysOf(['activity', 'task']))) {
        for (const priority of dueItems.priorities(definitionKey, suspect)) {
          ended += this.#endItems.run({ ...range, definitionKey, priority }).changes;
        }
      }
    }
    this.#delete.run({ processIds: ids });
    this.#markDead.run({ processIds: ids, now });
    if (ended > 0) {
      effects.due('orchestrations', now);
      effects.due('work', now);
    }
    return ended;
  }
}

/** The keys of queue rows with these definitions, including rows of paused instances. */
function ofPausedToo(definitionKeys: readonly number[]): readonly number[] {
  return definitionKeys.flatMap((key) => [key, queueKey(key, true)]);
}
