import type { Provider, Reopening } from '../contract/provider.ts';
import { createCancellationStore } from './stopping/cancellation.ts';
import { Connections } from './driver/connection.ts';
import { createInspectionStore } from './reading/inspection.ts';
import { createInstanceStore } from './instances/instances.ts';
import { createManagementStore } from './reading/management.ts';
import { prepareSchema } from './migrations/migrate.ts';
import { resolveOptions, type PostgresOptions, type ResolvedOptions } from './driver/options.ts';
import { createOrchestrationQueue } from './queues/orchestration-queue.ts';
import { createProcessStore } from './queues/processes.ts';
import { createScheduleStore } from './schedules/schedules.ts';
import { createSessionStore } from './jobs/sessions.ts';
import { StoreClock } from './driver/store-clock.ts';
import { Store } from './store.ts';
import { createStreamStore } from './jobs/streams.ts';
import { createTaskStore } from './tasks/tasks.ts';
import { createTransactionalWrites } from './transactional-writes.ts';
import { WakeUps } from './wakeups/wake-ups.ts';
import { createUnclaimedWorkStore } from './reading/unclaimed-work.ts';
import { createWorkQueue } from './queues/work-queue.ts';

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
