import type { WorkerRecord } from '../../../src/providers/contract/workers.ts';
import type { BrokenProvider } from './broken-provider.ts';

/** Changes the records that `listWorkers` returns. */
function editing(
  fault: string,
  rejectedBy: string,
  edit: (worker: WorkerRecord, nowMs: number) => WorkerRecord,
): BrokenProvider {
  return {
    fault,
    rejectedBy,
    override: ({ provider }) => ({
      async listWorkers() {
        const { nowMs, workers } = await provider.listWorkers();
        return { nowMs, workers: workers.map((worker) => edit(worker, nowMs)) };
      },
    }),
  };
}

const hourMs = 3_600_000;

export const brokenWorkers: readonly BrokenProvider[] = [
  editing(
    'the leaked handlers of a worker are not stored',
    'worker/is-listed-with-its-values',
    (worker) => ({ ...worker, leaked: 0 }),
  ),
  {
    fault: 'heartbeats are timed by a worker whose clock is an hour ahead',
    rejectedBy: 'worker/times-are-those-of-the-store',
    override: ({ provider, db, clock }) => ({
      async renewWorkers(params) {
        const result = await provider.renewWorkers(params);
        db.prepare('UPDATE workers SET last_seen_at = ?').run(clock.now() + hourMs);
        return result;
      },
    }),
  },
  {
    fault: 'the start of a worker is that of its own clock',
    rejectedBy: 'worker/times-are-those-of-the-store',
    override: ({ provider, db, clock }) => ({
      async registerWorkers(workers) {
        await provider.registerWorkers(workers);
        db.prepare('UPDATE workers SET started_at = ?').run(clock.now() - hourMs);
      },
    }),
  },
  {
    fault: 'the age of a heartbeat is computed with the clock of the reader',
    rejectedBy: 'worker/age-is-that-of-the-store',
    override: ({ provider, clock }) => ({
      async listWorkers() {
        const list = await provider.listWorkers();
        return { ...list, nowMs: clock.now() - hourMs };
      },
    }),
  },
  {
    fault: 'a worker replaces another with the same name',
    rejectedBy: 'worker/equal-names-are-two-workers',
    override: ({ provider, db }) => ({
      async registerWorkers(workers) {
        for (const { name } of workers) db.prepare('DELETE FROM workers WHERE name = ?').run(name);
        await provider.registerWorkers(workers);
      },
    }),
  },
  {
    fault: 'names of workers are trimmed',
    rejectedBy: 'worker/names-are-only-text',
    override: ({ provider }) => ({
      registerWorkers: (workers) =>
        provider.registerWorkers(
          workers.map((worker) => ({ ...worker, name: worker.name.replaceAll('\0', '') })),
        ),
    }),
  },
  {
    fault: 'listWorkers() returns the workers unordered',
    rejectedBy: 'worker/is-listed-in-order',
    override: ({ provider }) => ({
      async listWorkers() {
        const { nowMs, workers } = await provider.listWorkers();
        return { nowMs, workers: workers.toReversed() };
      },
    }),
  },
  {
    fault: 'workers that were not seen for a day are kept',
    rejectedBy: 'worker/is-forgotten-after-a-day',
    override: ({ provider, db, clock }) => ({
      async registerWorkers(workers) {
        const before = clock.now() - 86_400_000;
        db.prepare('UPDATE workers SET last_seen_at = max(last_seen_at, ?)').run(before);
        await provider.registerWorkers(workers);
      },
    }),
  },
  {
    fault: 'live workers are deleted when there are more than 1,000',
    rejectedBy: 'worker/stale-workers-are-bounded',
    override: ({ provider, db }) => ({
      async registerWorkers(workers) {
        await provider.registerWorkers(workers);
        db.exec(`DELETE FROM workers WHERE worker_id IN (
          SELECT worker_id FROM workers ORDER BY last_seen_at DESC LIMIT -1 OFFSET 1000)`);
      },
    }),
  },
  {
    fault: 'a heartbeat renews every worker of the store',
    rejectedBy: 'worker/a-heartbeat-is-recorded',
    override: ({ provider, db, clock }) => ({
      async renewWorkers(params) {
        const result = await provider.renewWorkers(params);
        db.prepare('UPDATE workers SET last_seen_at = ?').run(clock.now());
        return result;
      },
    }),
  },
  {
    fault: 'a heartbeat of an unknown worker is accepted',
    rejectedBy: 'worker/unknown-workers-are-returned',
    override: ({ provider }) => ({
      renewWorkers: async (params) => ({ ...(await provider.renewWorkers(params)), unknown: [] }),
    }),
  },
  {
    fault: 'a heartbeat does not detect that its process is not registered',
    rejectedBy: 'worker/a-lost-process-is-returned',
    override: ({ provider }) => ({
      async renewWorkers(params) {
        const { unknown } = await provider.renewWorkers({ ...params, hostId: null });
        return { ...(await provider.renewWorkers(params)), unknown };
      },
    }),
  },
  {
    fault: 'a heartbeat lists the own process, which would be taken over',
    rejectedBy: 'worker/a-heartbeat-lists-processes',
    override: ({ provider, db }) => ({
      async renewWorkers(params) {
        const processes = db
          .prepare<
            [string | null],
            { readonly processId: string; readonly pid: number; readonly startTime: string }
          >(
            'SELECT process_id AS processId, pid, start_time AS startTime FROM processes WHERE host_id = ?',
          )
          .all(params.hostId);
        return { ...(await provider.renewWorkers(params)), processes };
      },
    }),
  },
  {
    fault: 'unregisterWorkers() keeps the row until it is stale',
    rejectedBy: 'worker/leaves-at-once',
    override: () => ({ unregisterWorkers: async () => undefined }),
  },
  {
    fault: 'unregisterWorkers() removes workers of other processes',
    rejectedBy: 'worker/removes-only-its-own',
    override: ({ db }) => ({
      async unregisterWorkers(workerIds) {
        for (const id of workerIds) db.prepare('DELETE FROM workers WHERE worker_id = ?').run(id);
      },
    }),
  },
  editing(
    'a worker that is silent is listed as live',
    'worker/a-silent-worker-becomes-stale',
    (worker, nowMs) => ({ ...worker, lastSeenAt: nowMs }),
  ),
  editing(
    'a worker is judged by the heartbeat of another',
    'worker/a-silent-worker-becomes-stale',
    (worker) => ({ ...worker, heartbeatMs: 10_000 }),
  ),
  editing(
    'the workers of a dead process are live until they miss their heartbeats',
    'worker/a-takeover-marks-the-dead',
    (worker) => ({ ...worker, diedAt: null }),
  ),
  {
    fault: 'a takeover marks the workers of live processes as dead',
    rejectedBy: 'worker/a-takeover-marks-the-dead',
    override: ({ provider, db, clock }) => ({
      async takeOverClaims(processIds) {
        const ended = await provider.takeOverClaims(processIds);
        db.prepare('UPDATE workers SET died_at = ?').run(clock.now());
        return ended;
      },
    }),
  },
  {
    fault: 'a worker that was marked as dead stays so',
    rejectedBy: 'worker/a-heartbeat-revives',
    override: ({ provider, db, clock }) => ({
      async renewWorkers(params) {
        const result = await provider.renewWorkers(params);
        db.prepare('UPDATE workers SET died_at = ?').run(clock.now());
        return result;
      },
    }),
  },
  {
    fault: 'a process is deleted after a day although its workers send heartbeats',
    rejectedBy: 'process/is-kept-by-its-workers',
    override: ({ provider, db, clock }) => ({
      async registerProcess(process) {
        db.prepare('DELETE FROM processes WHERE registered_at < ?').run(clock.now() - 86_400_000);
        await provider.registerProcess(process);
      },
    }),
  },
];
