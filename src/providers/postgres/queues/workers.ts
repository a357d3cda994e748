import type {
  HeartbeatResult,
  NewWorker,
  WorkerHeartbeat,
  WorkerList,
  WorkerStore,
} from '../../contract/workers.ts';
import { keepWorkersMs, liveHeartbeats, maxStaleWorkers } from '../../rules/workers.ts';
import type { Secrets } from '../../shared/lock-token.ts';
import {
  encodeDefinitions,
  toWorkerRecord,
  workerColumns,
  type WorkerRow,
} from '../../shared/worker-row.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import { clock, one, optional, prepare, rowIdOf, rowsOf, strings } from '../driver/columns.ts';
import { nowSql } from '../driver/scope.ts';

/** The registry of workers. */
export function createWorkerStore(store: StoreAccess & { readonly workers: Workers }): WorkerStore {
  const { workers } = store;
  return {
    registerWorkers: (list) => workers.register(list),
    renewWorkers: (params) => workers.renew(params),
    unregisterWorkers: (workerIds) => workers.unregister(workerIds),
    listWorkers: () => workers.list(),
  };
}

interface WorkerParts extends Pick<StoreAccess, 'statement' | 'nowParameter' | 'assertOpen'> {
  readonly secrets: Secrets;
  readonly schema: string;
}

/** A worker that was renewed, or a process of the host. */
interface RenewedRow {
  readonly workerId: string | null;
  readonly processId: string | null;
  readonly pid: number | null;
  readonly startTime: string | null;
}

/** Reads and writes `workers`. Each call is one statement. */
export class Workers {
  readonly #store: WorkerParts;
  readonly #statements: ReturnType<typeof statements>;

  constructor(store: WorkerParts) {
    this.#store = store;
    this.#statements = statements(store.schema);
  }

  async register(workers: readonly NewWorker[]): Promise<void> {
    this.#store.assertOpen('registerWorkers');
    if (workers.length === 0) return;
    const { nowParameter: now, secrets } = this.#store;
    const { processId } = secrets;
    const register = this.#statements.register({ now, processId, workers });
    await this.#store.statement('registerWorkers', ...register);
  }

  async renew({
    workers,
    hostId,
  }: Parameters<WorkerStore['renewWorkers']>[0]): Promise<HeartbeatResult> {
    const { nowParameter: now, secrets } = this.#store;
    const rows = await this.#store.statement<RenewedRow>(
      'renewWorkers',
      ...this.#statements.renew({ now, workers, hostId }),
    );
    const renewed = new Set(rows.map(({ workerId }) => workerId));
    const processes = rows.flatMap(({ processId, pid, startTime }) =>
      processId === null || pid === null || startTime === null ? [] : { processId, pid, startTime },
    );
    const isSelf = ({ processId }: { readonly processId: string }) =>
      processId === secrets.processId;
    const isLost = hostId !== null && !processes.some(isSelf);
    return {
      unknown: workers
        .map(({ workerId }) => workerId)
        .filter((workerId) => isLost || !renewed.has(workerId)),
      processes: processes.filter((process) => !isSelf(process)),
    };
  }

  async unregister(workerIds: readonly string[]): Promise<void> {
    this.#store.assertOpen('unregisterWorkers');
    if (workerIds.length === 0) return;
    const { processId } = this.#store.secrets;
    await this.#store.statement(
      'unregisterWorkers',
      ...this.#statements.unregister({ workerIds, processId }),
    );
  }

  async list(): Promise<WorkerList> {
    const rows = await this.#store.statement<
      { readonly nowMs: number } & { readonly [Key in keyof WorkerRow]: WorkerRow[Key] | null }
    >('listWorkers', ...this.#statements.list({ now: this.#store.nowParameter }));
    const workers = rows.flatMap(({ nowMs: _nowMs, ...row }) =>
      row.workerId === null ? [] : toWorkerRecord(row as WorkerRow),
    );
    return { nowMs: rows[0]?.nowMs ?? Number.NaN, workers };
  }
}

function statements(schema: string) {
  const table = `${schema}.workers`;
  return {
    register: prepare(
      'perdure_register_workers',
      {
        now: clock,
        processId: one<string>('text'),
        workers: rowsOf<NewWorker>()({
          worker_id: 'text',
          name: 'text',
          host: 'text',
          pid: 'int',
          build_id: 'text',
          activity_slots: ['bigint', ({ slots }) => slots.activities],
          orchestration_slots: ['bigint', ({ slots }) => slots.orchestrations],
          in_use: ['bigint', ({ slots }) => slots.inUse],
          leaked: 'bigint',
          heartbeat_ms: ['bigint', ({ heartbeatMs }) => Math.ceil(heartbeatMs)],
          running_ms: ['bigint', ({ runningMs }) => Math.ceil(runningMs)],
          definitions: ['text', encodeDefinitions],
        }),
      },
      ({ processId, workers }) => {
        const columns = `name, host, pid, build_id, activity_slots, orchestration_slots, in_use, leaked, heartbeat_ms,
          definitions`;
        const replaced = `${columns}, process_id, started_at, last_seen_at, died_at`.split(/,\s+/);
        // Skips rows that another process deletes or renews.
        return `WITH old AS (DELETE FROM ${table} WHERE worker_id = ANY (ARRAY(
          SELECT worker_id FROM ${table} WHERE last_seen_at < ${nowSql} - ${keepWorkersMs} OR worker_id = ANY (ARRAY(
            SELECT worker_id FROM ${table}
            WHERE last_seen_at < ${nowSql} - ${liveHeartbeats} * heartbeat_ms OR died_at IS NOT NULL
            ORDER BY last_seen_at DESC, worker_id OFFSET ${maxStaleWorkers}))
          FOR UPDATE SKIP LOCKED)) AND worker_id <> ALL (${workers.column('worker_id')}))
        INSERT INTO ${table} (worker_id, ${columns}, process_id, started_at, last_seen_at, died_at)
        SELECT worker_id, ${columns}, ${processId}, ${nowSql} - running_ms, ${nowSql}, NULL
        FROM ${workers.as('worker')} ORDER BY worker_id
        ON CONFLICT (worker_id) DO UPDATE SET ${replaced.map((name) => `${name} = excluded.${name}`).join(', ')}`;
      },
    ),
    // One statement for the heartbeat and the list of processes, so that an idle worker sends no second one.
    // A row that a takeover changes meanwhile is skipped: its worker then registers again.
    renew: prepare(
      'perdure_renew_workers',
      {
        now: clock,
        workers: rowsOf<WorkerHeartbeat>()({
          worker_id: 'text',
          in_use: 'bigint',
          leaked: 'bigint',
        }),
        hostId: optional(one<string>('text')),
      },
      ({ workers, hostId }) => `WITH renewed AS (
          UPDATE ${table} AS worker
          SET last_seen_at = ${nowSql}, in_use = beat.in_use, leaked = beat.leaked, died_at = NULL
          FROM ${workers.as('beat')} ${rowIdOf(table, 'one.worker_id = beat.worker_id')}
          WHERE worker.ctid = found.row_id
          RETURNING worker.worker_id)
        SELECT worker_id AS "workerId", NULL::text AS "processId", NULL::int AS pid, NULL::text AS "startTime" FROM renewed
        UNION ALL
        SELECT NULL, process_id, pid, start_time FROM ${schema}.processes WHERE host_id = ${hostId}`,
    ),
    unregister: prepare(
      'perdure_unregister_workers',
      { workerIds: strings(), processId: one<string>('text') },
      ({ workerIds, processId }) =>
        `DELETE FROM ${table} WHERE worker_id = ANY (${workerIds}) AND process_id = ${processId}`,
    ),
    // The outer join returns the time also without workers.
    list: prepare(
      'perdure_list_workers',
      { now: clock },
      () => `SELECT clock.now AS "nowMs", ${workerColumns} FROM (SELECT ${nowSql} AS now) AS clock
        LEFT JOIN ${table} ON last_seen_at >= clock.now - ${keepWorkersMs} ORDER BY name, worker_id`,
    ),
  };
}
