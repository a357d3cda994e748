import type Database from 'better-sqlite3';
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
import type { StoreAccess } from '../batches/group-commit.ts';
import type { Processes } from './processes.ts';

interface WorkerParts extends StoreAccess {
  readonly workers: Workers;
}

/** The registry of workers. */
export function createWorkerStore(store: WorkerParts): WorkerStore {
  const { workers } = store;
  return {
    async registerWorkers(list) {
      await store.writeOnce('registerWorkers', ({ now }) => workers.register(list, now));
    },
    renewWorkers: (params) =>
      store.writeOnce('renewWorkers', ({ now }) => workers.renew(params, now)),
    async unregisterWorkers(workerIds) {
      await store.write('unregisterWorkers', workerIds, (_, id) => workers.unregister(id));
    },
    listWorkers: () => store.read('listWorkers', () => workers.list(store.now())),
  };
}

/** The rows of `workers`. */
export class Workers {
  readonly #secrets: Secrets;
  readonly #processes: Processes;
  readonly #register;
  readonly #renew;
  readonly #unregister;
  readonly #deleteOld;
  readonly #list;

  constructor(
    db: Database.Database,
    parts: { readonly secrets: Secrets; readonly processes: Processes },
  ) {
    this.#secrets = parts.secrets;
    this.#processes = parts.processes;
    this.#register = db.prepare<[WorkerRow]>(
      `INSERT OR REPLACE INTO workers (worker_id, process_id, name, host, pid, build_id, activity_slots,
         orchestration_slots, in_use, leaked, heartbeat_ms, started_at, last_seen_at, died_at, definitions)
       VALUES (:workerId, :processId, :name, :host, :pid, :buildId, :activitySlots,
         :orchestrationSlots, :inUse, :leaked, :heartbeatMs, :startedAt, :lastSeenAt, :diedAt, :definitions)`,
    );
    this.#renew = db.prepare<[WorkerHeartbeat & { readonly now: number }]>(
      `UPDATE workers SET last_seen_at = :now, in_use = :inUse, leaked = :leaked, died_at = NULL
       WHERE worker_id = :workerId`,
    );
    this.#unregister = db.prepare<[string, string]>(
      'DELETE FROM workers WHERE worker_id = ? AND process_id = ?',
    );
    this.#deleteOld = db.prepare<[{ readonly now: number }]>(
      `DELETE FROM workers WHERE last_seen_at < :now - ${keepWorkersMs} OR worker_id IN (
         SELECT worker_id FROM workers WHERE last_seen_at < :now - ${liveHeartbeats} * heartbeat_ms OR died_at IS NOT NULL
         ORDER BY last_seen_at DESC, worker_id LIMIT -1 OFFSET ${maxStaleWorkers})`,
    );
    this.#list = db.prepare<[number], WorkerRow>(
      `SELECT ${workerColumns} FROM workers WHERE last_seen_at >= ? ORDER BY name, worker_id`,
    );
  }

  register(workers: readonly NewWorker[], now: number): void {
    const { processId } = this.#secrets;
    for (const worker of workers) this.#register.run(toRow(worker, processId, now));
    this.#deleteOld.run({ now });
  }

  renew(params: Parameters<WorkerStore['renewWorkers']>[0], now: number): HeartbeatResult {
    const { workers, hostId } = params;
    const isKnown = workers.map(
      ({ workerId, inUse, leaked }) =>
        this.#renew.run({ workerId, inUse, leaked, now }).changes > 0,
    );
    const isLost = hostId !== null && !this.#processes.isRegistered();
    return {
      unknown: workers
        .filter((_, index) => isLost || isKnown[index] !== true)
        .map(({ workerId }) => workerId),
      processes: hostId === null ? [] : this.#processes.list(hostId),
    };
  }

  unregister(workerId: string): void {
    this.#unregister.run(workerId, this.#secrets.processId);
  }

  list(nowMs: number): WorkerList {
    return { nowMs, workers: this.#list.all(nowMs - keepWorkersMs).map(toWorkerRecord) };
  }
}

function toRow(worker: NewWorker, processId: string, now: number): WorkerRow {
  const { workerId, name, host, pid, buildId, slots, leaked, heartbeatMs, runningMs } = worker;
  return {
    workerId,
    processId,
    name,
    host,
    pid,
    buildId,
    activitySlots: slots.activities,
    orchestrationSlots: slots.orchestrations,
    inUse: slots.inUse,
    leaked,
    heartbeatMs: Math.ceil(heartbeatMs),
    startedAt: Math.floor(now - runningMs),
    lastSeenAt: now,
    diedAt: null,
    definitions: encodeDefinitions(worker),
  };
}
