import { processIdLength } from '../../shared/lock-token.ts';
import { registrationMs } from '../../rules/claims.ts';
import type { NewProcess, ProcessRecord, ProcessStore } from '../../contract/processes.ts';
import { text, texts } from '../driver/arrays.ts';
import type { Statement } from '../driver/connection.ts';
import { nowSql, type Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';

/** Which processes claim work, and what becomes of the claims of the dead. */
export function createProcessStore(store: Store): ProcessStore {
  const { processes } = store;
  return {
    registerProcess: (process) => processes.register(process),
    unregisterProcess: () => processes.unregister(),
    listProcesses: (hostId) => processes.list(hostId),
    takeOverClaims: async (processIds) =>
      processIds.length === 0
        ? 0
        : store.writeOnce('takeOverClaims', (scope) => processes.takeOver(scope, processIds)),
  };
}

/**
 * The rows of `processes`. The claims of one are found by their tokens, in a walk over the queue: claimed items stand where
 * they were due, and no index tells them apart. That is for once per process that died.
 */
export class Processes {
  readonly #store: Pick<Store, 'statement' | 'nowParameter' | 'secrets'>;
  readonly #register: Statement;
  readonly #unregister: Statement;
  readonly #list: Statement;
  readonly #endItems: Statement;
  readonly #endLocks: Statement;
  readonly #forget: Statement;

  constructor(store: Pick<Store, 'statement' | 'nowParameter' | 'secrets' | 'schema'>) {
    this.#store = store;
    const { schema } = store;
    const table = `${schema}.processes`;
    this.#register = {
      name: 'perdure_register_process',
      text: `WITH old AS (DELETE FROM ${table} WHERE registered_at < ${nowSql} - ${registrationMs})
        INSERT INTO ${table} (process_id, host_id, pid, start_time, lease_ms, registered_at)
        VALUES ($2, $3, $4, $5, $6, ${nowSql})
        ON CONFLICT (process_id) DO UPDATE SET host_id = excluded.host_id, pid = excluded.pid,
          start_time = excluded.start_time, lease_ms = excluded.lease_ms, registered_at = excluded.registered_at`,
    };
    this.#unregister = {
      name: 'perdure_unregister_process',
      text: `DELETE FROM ${table} WHERE process_id = $1`,
    };
    this.#list = {
      name: 'perdure_list_processes',
      text: `SELECT process_id AS "processId", pid, start_time AS "startTime" FROM ${table}
        WHERE host_id = $1 AND process_id <> $2`,
    };
    // The secret of a task run has a mark before it.
    const isHeld = `locked_until > $1::bigint AND (left(lock_token, ${processIdLength}) = ANY ($2::text[])
      OR substr(lock_token, 2, ${processIdLength}) = ANY ($2::text[]))`;
    // A row that a transaction is just changing is left to the next call, which finds the process still in the list.
    const endText = (queue: string, key: string): string => `WITH held AS MATERIALIZED (
        SELECT ${key} FROM ${schema}.${queue} WHERE ${isHeld} ORDER BY ${key} FOR UPDATE SKIP LOCKED)
      UPDATE ${schema}.${queue} SET locked_until = $1::bigint, next_at = $1::bigint
      WHERE ${key} = ANY (ARRAY(SELECT ${key} FROM held))`;
    this.#endItems = {
      name: 'perdure_end_items_of_processes',
      text: endText('worker_queue', 'item_key'),
    };
    this.#endLocks = {
      name: 'perdure_end_locks_of_processes',
      text: endText('instance_locks', 'instance_key'),
    };
    const exists = (queue: string): string =>
      `EXISTS (SELECT FROM ${schema}.${queue} WHERE ${isHeld})`;
    this.#forget = {
      name: 'perdure_forget_processes',
      text: `DELETE FROM ${table} WHERE process_id = ANY ($2::text[])
        AND NOT ${exists('worker_queue')} AND NOT ${exists('instance_locks')}`,
    };
  }

  async register({ hostId, pid, startTime, leaseMs }: NewProcess): Promise<void> {
    const { nowParameter, secrets } = this.#store;
    await this.#store.statement('registerProcess', this.#register, [
      nowParameter,
      secrets.processId,
      text(hostId),
      pid,
      text(startTime),
      Math.ceil(leaseMs),
    ]);
  }

  async unregister(): Promise<void> {
    const { processId } = this.#store.secrets;
    await this.#store.statement('unregisterProcess', this.#unregister, [processId]);
  }

  list(hostId: string): Promise<readonly ProcessRecord[]> {
    const { processId } = this.#store.secrets;
    return this.#store.statement<ProcessRecord>('listProcesses', this.#list, [
      text(hostId),
      processId,
    ]);
  }

  /** Ends what the processes hold, and forgets them; returns how many leases that were. */
  async takeOver(scope: Scope, processIds: readonly string[]): Promise<number> {
    await scope.begin();
    const { tx, now, effects } = scope;
    const values = [now, texts(processIds)];
    const [items, locks] = await Promise.all([
      tx.execute(this.#endItems, values),
      tx.execute(this.#endLocks, values),
      tx.execute(this.#forget, values),
    ]);
    if (items > 0) effects.due('work', now);
    if (locks > 0) effects.due('orchestrations', now);
    return items + locks;
  }
}
