import type { Provider, Reopening } from '../provider.ts';
import { createCancellationStore } from './cancellation.ts';
import { Connections } from './connection.ts';
import { createInspectionStore } from './inspection.ts';
import { createInstanceStore } from './instances.ts';
import { createManagementStore } from './management.ts';
import { prepareSchema } from './migrate.ts';
import { resolveOptions, type PostgresOptions, type ResolvedOptions } from './options.ts';
import { createOrchestrationQueue } from './orchestration-queue.ts';
import { createProcessStore } from './processes.ts';
import { createScheduleStore } from './schedules.ts';
import { createSessionStore } from './sessions.ts';
import { StoreClock } from './store-clock.ts';
import { Store } from './store.ts';
import { createStreamStore } from './streams.ts';
import { createTaskStore } from './tasks.ts';
import { createTransactionalWrites } from './transactional-writes.ts';
import { WakeUps } from './wake-ups.ts';
import { createUnclaimedWorkStore } from './unclaimed-work.ts';
import { createWorkQueue } from './work-queue.ts';

/** Opens a PostgreSQL store; any number of processes may open the same database. */
export async function openPostgres(options: PostgresOptions): Promise<Provider> {
  const resolved = resolveOptions(options);
  const storeClock = new StoreClock();
  const { nowMs, sentAt } = await prepareSchema(resolved);
  storeClock.observe(nowMs, sentAt);
  const store = newStore(resolved, storeClock);
  await store.wakeUps.start();
  return {
    name: resolved.name,
    clock: resolved.clock ?? storeClock,
    clockIsEstimate: true,
    ...(options.clock === undefined && { reopening: reopeningOf(options) }),
    ...createOrchestrationQueue(store),
    ...createWorkQueue(store),
    ...createInstanceStore(store),
    ...createCancellationStore(store),
    ...createManagementStore(store),
    ...createProcessStore(store),
    ...createTaskStore(store),
    ...createScheduleStore(store),
    ...createSessionStore(store),
    ...createStreamStore(store),
    ...createUnclaimedWorkStore(store),
    ...createInspectionStore(store),
    hints(listener) {
      store.assertOpen('hints');
      return store.wakeUps.listen(listener);
    },
    within: (connection) => createTransactionalWrites(store, connection),
    close: () => store.close(),
  };
}

/** One connection, opened when it is needed and not told of changes. */
function reopeningOf(options: PostgresOptions): Reopening {
  return {
    module: import.meta.url,
    exportName: 'openPostgres',
    options: { ...options, poolSize: 1, listen: false, migrate: false },
  };
}

function newStore(
  { connection, quotedSchema, schema, listen, pollMs, clock }: ResolvedOptions,
  storeClock: StoreClock,
): Store {
  const { client, connectTimeoutMs, answerTimeoutMs } = connection;
  const store: Store = new Store({
    connections: new Connections(connection, () => store.wakeUps.onSilence()),
    wakeUps: (look) =>
      new WakeUps({
        clock: clock ?? storeClock,
        pollMs,
        look,
        ...(listen && {
          notifications: {
            client,
            connectTimeoutMs,
            answerTimeoutMs,
            channel: channelOf(schema),
          },
        }),
      }),
    storeClock,
    quotedSchema,
    clock,
    pollMs,
  });
  return store;
}

function channelOf(schema: string): string {
  return `perdure_${schema}`;
}
