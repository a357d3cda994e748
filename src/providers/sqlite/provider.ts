import { basename, resolve } from 'node:path';
import { systemClock, type Clock } from '../../model/clock.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import type { Provider, Reopening } from '../contract/provider.ts';
import { createCancellationStore } from './stopping/cancellation.ts';
import { openConnection, whenNotBusy } from './driver/connection.ts';
import { assertMigrated, migrate } from './migrations/migrate.ts';
import { createInspectionStore } from './reading/inspection.ts';
import { createInstanceStore } from './instances/instances.ts';
import { createManagementStore } from './reading/management.ts';
import { createOrchestrationQueue } from './queues/orchestration-queue.ts';
import { createPauseStore } from './pausing/pausing.ts';
import { createProcessStore } from './queues/processes.ts';
import { createRerunStore } from './reruns/reruns.ts';
import { createScheduleStore } from './schedules/schedules.ts';
import { createLimitStore } from './limits/limits.ts';
import { createSeriesStore } from './queues/series.ts';
import { createSessionStore } from './jobs/sessions.ts';
import { prepareOnUse } from './driver/lazy-statements.ts';
import { toProviderError } from './driver/sqlite-errors.ts';
import { Store, type StoreOptions } from './store.ts';
import { createStreamStore } from './jobs/streams.ts';
import { createTransactionStore } from './queues/transactions.ts';
import { createTaskStore } from './tasks/task-runs.ts';
import { createUpdateStore } from './instances/updates.ts';
import { createUnclaimedWorkStore } from './reading/unclaimed-work.ts';
import { createStateStore } from './reading/states.ts';
import { createViewStore } from './reading/views.ts';
import { createWorkQueue } from './queues/work-queue.ts';
import { createWorkerStore } from './queues/workers.ts';

/** Options of `openSqlite`. */
export interface SqliteOptions {
  /** A file, created if it does not exist, or `':memory:'`. */
  readonly path: string;
  /** `full` (default): commits survive a power loss. `normal`: the most recent commits can be lost; the file stays consistent. */
  readonly synchronous?: 'full' | 'normal';
  /** The clock for visibility and expiry. Default: the system clock. */
  readonly clock?: Clock;
  /** Polling interval for commits of other processes, in milliseconds. Default: 5. */
  readonly pollMs?: number;
  /** How long an operation waits for locks of other processes, in milliseconds. Default: 30,000. */
  readonly busyTimeoutMs?: number;
  /**
   * How long a closure of `ctx.transaction` may hold the write lock, in milliseconds. All other writes wait for it, so keep
   * it well below the leases of the workers. Default: 5,000.
   */
  readonly transactionTimeoutMs?: number;
  /** Applies missing migrations. Default: true. If false, a file that does not exist or lacks one throws. */
  readonly migrate?: boolean;
}

/** Opens a SQLite store. Several processes can open the same file. */
export async function openSqlite(options: SqliteOptions): Promise<Provider> {
  const { path, synchronous = 'full', clock = systemClock } = options;
  const { pollMs = 5, busyTimeoutMs = 30_000, migrate: mayMigrate = true } = options;
  const { transactionTimeoutMs = 5_000 } = options;
  const isPath = typeof path === 'string' && path !== '' && !path.includes('\0');
  check(isPath, { path }, `a file path or ':memory:'`);
  check(synchronous === 'full' || synchronous === 'normal', { synchronous }, `'full' or 'normal'`);
  check(pollMs >= 1, { pollMs }, '1 or more');
  check(busyTimeoutMs >= 0, { busyTimeoutMs }, '0 or more');
  check(transactionTimeoutMs >= 1, { transactionTimeoutMs }, '1 or more');
  check(typeof mayMigrate === 'boolean', { migrate: mayMigrate }, 'true or false');
  const db = await openConnection({
    path,
    synchronous,
    clock,
    busyTimeoutMs,
    migrate: mayMigrate ? migrate : (opened) => assertMigrated(opened),
    mayCreate: mayMigrate,
  });
  const store = await prepare({ db, clock, pollMs, busyTimeoutMs, transactionTimeoutMs });
  return {
    name: path === ':memory:' ? 'sqlite in memory' : `sqlite ${basename(path)}`,
    clock: store.clock,
    ...(path !== ':memory:' && clock === systemClock && { reopening: reopeningOf(options) }),
    ...createOrchestrationQueue(store),
    ...createWorkQueue(store),
    ...createInstanceStore(store),
    ...createCancellationStore(store),
    ...createManagementStore(store),
    ...createPauseStore(store),
    ...createProcessStore(store),
    ...createWorkerStore(store),
    ...createTaskStore(store),
    ...createScheduleStore(store),
    ...createSessionStore(store),
    ...createStreamStore(store),
    ...createUpdateStore(store),
    ...createUnclaimedWorkStore(store),
    ...createRerunStore(store),
    ...createStateStore(store),
    ...createInspectionStore(store),
    ...createViewStore(store),
    ...createSeriesStore(store),
    ...createLimitStore(store),
    ...createTransactionStore(store),
    hints(listener) {
      store.assertOpen('hints');
      return store.wakeUps.listen(listener);
    },
    close: () => store.close(),
  };
}

function reopeningOf({ path, synchronous, busyTimeoutMs }: SqliteOptions): Reopening {
  const options = { path: resolve(path), synchronous, busyTimeoutMs };
  return { module: import.meta.url, exportName: 'openSqlite', options };
}

async function prepare(options: StoreOptions): Promise<Store> {
  prepareOnUse(options.db);
  try {
    const deadline = performance.now() + options.busyTimeoutMs;
    return await whenNotBusy(deadline, () => new Store(options));
  } catch (error) {
    options.db.close();
    throw toProviderError('open', error);
  }
}

function check(isValid: boolean, option: Readonly<Record<string, unknown>>, wanted: string): void {
  if (isValid) return;
  const [[name, value] = ['', undefined]] = Object.entries(option);
  const message = `Invalid \`${name}\` ${JSON.stringify(value) ?? 'undefined'} for openSqlite(): must be ${wanted}.`;
  throw new PerdureError('INVALID_OPTION', message);
}
