import type { Provider, Reopening } from '../provider.ts';
import { createCancellationStore } from './cancellation.ts';
import { Connections } from './connection.ts';
import { createInstanceStore } from './instances.ts';
import { createManagementStore } from './management.ts';
import { prepareSchema } from './migrate.ts';
import { resolveOptions, type PostgresOptions, type ResolvedOptions } from './options.ts';
import { createOrchestrationQueue } from './orchestration-queue.ts';
import { createScheduleStore } from './schedules.ts';
import { createSessionStore } from './sessions.ts';
import { StoreClock } from './store-clock.ts';
import { Store } from './store.ts';
import { createStreamStore } from './streams.ts';
import { createTaskStore } from './tasks.ts';
import { createTransactionalWrites } from './transactional-writes.ts';
import { WakeUps } from './wake-ups.ts';
import { createWorkQueue } from './work-queue.ts';

/** Opens a PostgreSQL store; any number of processes may open the same database. */
export async function openPostgres(options: PostgresOptions): Promise<Provider> {
  const resolved = resolveOptions(options);
  const storeClock = new StoreClock();
  storeClock.observe(await prepareSchema(resolved));
  const store = newStore(resolved, storeClock);
  await store.wakeUps.start();
  return {
    name: resolved.name,
    clock: resolved.clock ?? storeClock,
    ...(options.clock === undefined && { reopening: reopeningOf(options) }),
    ...createOrchestrationQueue(store),
    ...createWorkQueue(store),
    ...createInstanceStore(store),
    ...createCancellationStore(store),
    ...createManagementStore(store),
    ...createTaskStore(store),
    ...createScheduleStore(store),
    ...createSessionStore(store),
    ...createStreamStore(store),
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
  const { client, connectTimeoutMs } = connection;
  return new Store({
    connections: new Connections(connection),
    wakeUps: (look) =>
      new WakeUps({
        clock: clock ?? storeClock,
        pollMs,
        look,
        ...(listen && { notifications: { client, connectTimeoutMs, channel: channelOf(schema) } }),
      }),
    storeClock,
    quotedSchema,
    clock,
    pollMs,
  });
}

function channelOf(schema: string): string {
  return `perdure_${schema}`;
}
