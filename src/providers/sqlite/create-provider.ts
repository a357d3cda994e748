import type { Provider, Reopening } from '../contract/provider.ts';
import { createCancellationStore } from './stopping/cancellation.ts';
import { whenNotBusy } from './driver/connection.ts';
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
import { platform } from '../../model/platform.ts';

/** An open connection, and how the provider is named and opened again. */
interface ProviderOptions extends StoreOptions {
  readonly name: string;
  readonly reopening?: Reopening;
}

/** Creates the provider of an open connection with a current schema. */
export async function createProvider(options: ProviderOptions): Promise<Provider> {
  const { name, reopening } = options;
  const store = await prepare(options);
  return {
    name,
    clock: store.clock,
    ...(reopening !== undefined && { reopening }),
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

async function prepare(options: StoreOptions): Promise<Store> {
  prepareOnUse(options.db);
  try {
    const deadline = platform.monotonic() + options.busyTimeoutMs;
    return await whenNotBusy(deadline, () => new Store(options));
  } catch (error) {
    options.db.close();
    throw toProviderError('open', error);
  }
}
