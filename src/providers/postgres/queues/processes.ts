import { processIdLength, type Secrets } from '../../shared/lock-token.ts';
import { registrationMs } from '../../rules/claims.ts';
import type { NewProcess, ProcessRecord, ProcessStore } from '../../contract/processes.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import { one, prepare, strings } from '../driver/columns.ts';
import { nowSql, type Scope } from '../driver/scope.ts';

/** Implements the registry of worker processes, and the takeover of claims of dead ones. */
export function createProcessStore(
  store: StoreAccess & { readonly processes: Processes },
): ProcessStore {
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

interface ProcessParts extends Pick<StoreAccess, 'statement' | 'nowParameter'> {
  readonly secrets: Secrets;
  readonly schema: string;
  readonly wakeUps: { announceProcess(): void };
}

/**
 * Reads and writes `processes`. The claims of a process are found by their lock tokens in a scan of the whole queue:
 * claimed items keep their due times, so no index selects them. It runs once per process that died.
 */
export class Processes {
  readonly #store: ProcessParts;
  readonly #statements: ReturnType<typeof statements>;

  constructor(store: ProcessParts) {
    this.#store = store;
    this.#statements = statements(store.schema);
  }

  async register({ hostId, pid, startTime, leaseMs }: NewProcess): Promise<void> {
    const { nowParameter: now, secrets } = this.#store;
    const register = this.#statements.register({
      now,
      processId: secrets.processId,
      hostId,
      pid,
      startTime,
      leaseMs: Math.ceil(leaseMs),
    });
    await this.#store.statement('registerProcess', ...register);
    this.#store.wakeUps.announceProcess();
  }

  async unregister(): Promise<void> {
    const { processId } = this.#store.secrets;
    await this.#store.statement('unregisterProcess', ...this.#statements.unregister({ processId }));
  }

  list(hostId: string): Promise<readonly ProcessRecord[]> {
    const { processId } = this.#store.secrets;
    const list = this.#statements.list({ hostId, processId });
    return this.#store.statement<ProcessRecord>('listProcesses', ...list);
  }

  /** Expires all leases of the processes, deletes their rows and marks their workers. Returns the number of leases. */
  async takeOver(scope: Scope, processIds: readonly string[]): Promise<number> {
    await scope.begin();
    const { tx, now, effects } = scope;
    const { endItems, endLocks, forget, markDead } = this.#statements;
    const values = { at: now, processIds };
    const [items, locks] = await Promise.all([
      tx.execute(...endItems(values)),
      tx.execute(...endLocks(values)),
      tx.execute(...forget(values)),
      tx.execute(...markDead(values)),
    ]);
    if (items > 0) effects.due('work', now);
    if (locks > 0) effects.due('orchestrations', now);
    return items + locks;
  }
}

function statements(schema: string) {
  const table = `${schema}.processes`;
  const workers = `${schema}.workers`;
  const takeOver = { at: one<number>('bigint'), processIds: strings() };
  // The lock token of a task run starts with a mark, before the process id.
  const isHeld = (at: string, processIds: string) =>
    `locked_until > ${at} AND (left(lock_token, ${processIdLength}) = ANY (${processIds})
      OR substr(lock_token, 2, ${processIdLength}) = ANY (${processIds}))`;
  // Skips locked rows. The process then stays in the table, and the next call ends them.
  const end = (name: string, queue: string, key: string) =>
    prepare(
      name,
      takeOver,
      ({ at, processIds }) => `WITH held AS MATERIALIZED (
        SELECT ${key} FROM ${schema}.${queue} WHERE ${isHeld(at, processIds)} ORDER BY ${key} FOR UPDATE SKIP LOCKED)
      UPDATE ${schema}.${queue} SET locked_until = ${at}, next_at = ${at}
      WHERE ${key} = ANY (ARRAY(SELECT ${key} FROM held))`,
    );
  return {
    register: prepare(
      'perdure_register_process',
      {
        now: one<number | null>('bigint'),
        processId: one<string>('text'),
        hostId: one<string>('text'),
        pid: one<number>('int'),
        startTime: one<string>('text'),
        leaseMs: one<number>('bigint'),
      },
      ({ processId, hostId, pid, startTime, leaseMs }) =>
        // The heartbeats of its workers also keep a process registered. Skips rows that another process deletes.
        `WITH old AS (DELETE FROM ${table} WHERE process_id = ANY (ARRAY(
          SELECT process_id FROM ${table} WHERE registered_at < ${nowSql} - ${registrationMs}
            AND process_id <> ALL (ARRAY(SELECT process_id FROM ${workers} WHERE last_seen_at >= ${nowSql} - ${registrationMs}))
          FOR UPDATE SKIP LOCKED)))
        INSERT INTO ${table} (process_id, host_id, pid, start_time, lease_ms, registered_at)
        VALUES (${processId}, ${hostId}, ${pid}, ${startTime}, ${leaseMs}, ${nowSql})
        ON CONFLICT (process_id) DO UPDATE SET host_id = excluded.host_id, pid = excluded.pid,
          start_time = excluded.start_time, lease_ms = excluded.lease_ms, registered_at = excluded.registered_at`,
    ),
    unregister: prepare(
      'perdure_unregister_process',
      { processId: one<string>('text') },
      ({ processId }) => `DELETE FROM ${table} WHERE process_id = ${processId}`,
    ),
    list: prepare(
      'perdure_list_processes',
      { hostId: one<string>('text'), processId: one<string>('text') },
      ({ hostId, processId }) =>
        `SELECT process_id AS "processId", pid, start_time AS "startTime" FROM ${table}
        WHERE host_id = ${hostId} AND process_id <> ${processId}`,
    ),
    endItems: end('perdure_end_items_of_processes', 'worker_queue', 'item_key'),
    endLocks: end('perdure_end_locks_of_processes', 'instance_locks', 'instance_key'),
    markDead: prepare(
      'perdure_mark_dead_workers',
      takeOver,
      ({ at, processIds }) => `WITH dead AS MATERIALIZED (
        SELECT worker_id FROM ${workers} WHERE process_id = ANY (${processIds}) AND died_at IS NULL
        ORDER BY worker_id FOR UPDATE)
      UPDATE ${workers} SET died_at = ${at} WHERE worker_id = ANY (ARRAY(SELECT worker_id FROM dead))`,
    ),
    forget: prepare('perdure_forget_processes', takeOver, ({ at, processIds }) => {
      const exists = (queue: string): string =>
        `EXISTS (SELECT FROM ${schema}.${queue} WHERE ${isHeld(at, processIds)})`;
      return `DELETE FROM ${table} WHERE process_id = ANY (${processIds})
        AND NOT ${exists('worker_queue')} AND NOT ${exists('instance_locks')}`;
    }),
  };
}
