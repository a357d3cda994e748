import type { Provider } from '../contract/provider.ts';
import type { TransactionalWrites, TransactionConnection } from '../contract/transactional.ts';
import { findEntryModule } from '../shared/entry-module.ts';
import type { CreateInstances } from './batches/store-access.ts';
import { ApplicationTransactions } from './driver/application-transactions.ts';
import { CallerTransaction } from './driver/transaction.ts';
import { Connections } from './driver/connection.ts';
import { resolveOptions, type PostgresOptions, type ResolvedOptions } from './driver/options.ts';
import { toProviderError } from './driver/postgres-errors.ts';
import { Scope } from './driver/scope.ts';
import { StoreClock } from './driver/store-clock.ts';
import { enqueue } from './instances/enqueue.ts';
import { createInstanceStore, create } from './instances/instances.ts';
import { createLimitStore } from './limits/limits.ts';
import { createSeriesStore } from './queues/series.ts';
import { createSessionStore } from './jobs/sessions.ts';
import { createStreamStore } from './jobs/streams.ts';
import { prepareSchema } from './migrations/migrate.ts';
import { createOrchestrationQueue } from './queues/orchestration-queue.ts';
import { createPauseStore } from './pausing/pausing.ts';
import { createProcessStore } from './queues/processes.ts';
import { createTransactionStore } from './queues/transactions.ts';
import { createWorkQueue } from './queues/work-queue.ts';
import { createWorkerStore } from './queues/workers.ts';
import { createInspectionStore } from './reading/inspection.ts';
import { createManagementStore } from './deletion/management.ts';
import { createUpdateStore } from './instances/updates.ts';
import { createUnclaimedWorkStore } from './reading/unclaimed-work.ts';
import { createRerunStore } from './reruns/reruns.ts';
import { createStateStore } from './reading/states.ts';
import { createViewStore } from './reading/views.ts';
import { createScheduleStore } from './schedules/schedules.ts';
import { createCancellationStore, requestCancels } from './stopping/cancellation.ts';
import { Store } from './store.ts';
import { createTaskStore, createTasks } from './tasks/tasks.ts';
import { WakeUps } from './wakeups/wake-ups.ts';

/** Opens a PostgreSQL store. Any number of processes may open the same database. */
export async function openPostgres(options: PostgresOptions): Promise<Provider> {
  const resolved = resolveOptions(options);
  const storeClock = new StoreClock();
  const { nowMs, sentAt } = await prepareSchema(resolved);
  storeClock.observe(nowMs, sentAt);
  const store = newStore(resolved, storeClock);
  const {
    singleStatementTurnAcks,
    singleStatementTaskCreation,
    singleStatementTaskAcks,
    singleStatementAbandons,
    singleStatementClaims,
  } = store;
  const createInstances: CreateInstances = (scope, items) => create(store, scope, items);
  await store.wakeUps.start();
  return {
    name: resolved.name,
    clock: resolved.clock ?? storeClock,
    clockIsEstimate: true,
    ...(options.clock === undefined && reopeningOf(options)),
    ...createOrchestrationQueue(store, {
      claim: (params) => store.singleStatementInstanceClaims.claim(params, store.nowParameter),
      ack: async (acks) =>
        (await store.singleStatementKeptTurns.commit(acks, store.nowParameter)) ??
        (await store.singleStatementClaimedTurns.commit(acks, store.nowParameter)) ??
        (await store.singleStatementCanceledTurns.commit(acks, store.nowParameter)),
    }),
    ...createWorkQueue(store, {
      claim: (params) => singleStatementClaims.claim(params, store.nowParameter),
      ackItems: (acks) => singleStatementTaskAcks.settle(acks, store.nowParameter),
      ackTurns: (acks) => singleStatementTurnAcks.commit(acks, store.nowParameter),
      pipeline: (operation, work) => store.connections.pipeline(operation, work),
    }),
    ...createInstanceStore(store),
    ...createCancellationStore(store, (requests) =>
      store.singleStatementCancels.cancel(requests, store.nowParameter),
    ),
    ...createManagementStore(store),
    ...createPauseStore(store),
    ...createProcessStore(store),
    ...createWorkerStore(store),
    ...createTaskStore(store, (tasks, now) => singleStatementTaskCreation.create(tasks, now)),
    ...createScheduleStore(store, createInstances),
    ...createSessionStore(store, {
      createInstances,
      enqueue: (scope, messages) => enqueue(store, scope, messages),
      abandonInOneStatement: (requests) =>
        singleStatementAbandons.abandon(requests, store.nowParameter),
    }),
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
    within: (connection) => createTransactionalWrites(store, connection),
    close: () => store.close(),
  };
}

/** How to open the store again with one connection, opened on demand, and without LISTEN. */
function reopeningOf(given: PostgresOptions): Pick<Provider, 'reopening'> {
  const options = { ...given, poolSize: 1, listen: false, migrate: false };
  const module = findEntryModule('postgres');
  return module === undefined ? {} : { reopening: { module, exportName: 'openPostgres', options } };
}

function newStore(options: ResolvedOptions, storeClock: StoreClock): Store {
  const { connection, application, quotedSchema, schema, listen, pollMs, clock } = options;
  const { client, connectTimeoutMs, answerTimeoutMs } = connection;
  const connections = new Connections(connection, () => store.wakeUps.checkConnection());
  const store: Store = new Store({
    connections,
    applicationTransactions: new ApplicationTransactions(application, connections),
    wakeUps: (parts) =>
      new WakeUps({
        clock: clock ?? storeClock,
        pollMs,
        ...parts,
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

/** Writes within a transaction of the application. PostgreSQL notifies all processes when it commits. */
function createTransactionalWrites(
  store: Store,
  connection: TransactionConnection,
): TransactionalWrites {
  const tx = new CallerTransaction(connection);
  let last: Promise<unknown> = Promise.resolve();
  const write = <Item, Result>(
    operation: string,
    run: (scope: Scope, items: readonly Item[]) => Promise<readonly Result[]>,
  ) => {
    const writeNow = async (items: readonly Item[]): Promise<readonly Result[]> => {
      const scope = new Scope(tx, store.clock);
      try {
        const results = await run(scope, items);
        await store.wakeUps.announceWithin(tx, scope.effects);
        return results;
      } catch (error) {
        throw toProviderError(operation, error);
      }
    };
    return async (items: readonly Item[]): Promise<readonly Result[]> => {
      store.assertOpen(operation);
      if (items.length === 0) return [];
      // Serialized: row locks do not separate two writes of one transaction.
      const results = last.then(() => writeNow(items));
      last = results.catch(() => undefined);
      return results;
    };
  };
  return {
    createInstances: write('createInstances', (scope, items) => create(store, scope, items)),
    createTasks: write('createTasks', (scope, items) => createTasks(store, scope, items)),
    enqueueMessages: write('enqueueMessages', (scope, items) => enqueue(store, scope, items)),
    requestCancel: write('requestCancel', (scope, items) => requestCancels(store, scope, items)),
  };
}
