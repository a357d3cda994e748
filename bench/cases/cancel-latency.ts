import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Perdure } from 'perdure';
import type { BenchmarkSetup, Figures } from '../benchmark.ts';
import { createHolding } from '../cancel-definitions.ts';
import { measureCancels, Reports, sharedNow } from '../cancel-latencies.ts';

/** The client and the worker share a process. */
export async function cancelLatency({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const reports = new Reports();
  const { holding, definitions } = createHolding({
    started: (instanceId) => reports.add(`started ${instanceId}`, sharedNow()),
    told: (instanceId) => reports.add(`told ${instanceId}`, sharedNow()),
  });
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const count = quick ? 300 : 1_000;
  return await measureCancels({ client: perdure.client, holding, reports, count });
}

/** The client cancels in one process, the worker runs in another, on one store. */
export async function cancelAcrossProcesses({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const reports = new Reports();
  const worker = fork(join(import.meta.dirname, '..', 'cancel-worker-program.ts'), [store], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  worker.on('message', ({ key, at }: { key: string; at: number }) => reports.add(key, at));
  const exited = once(worker, 'exit');
  try {
    await reports.take('ready');
    const { holding } = createHolding({ started: () => undefined, told: () => undefined });
    await using perdure = await Perdure.open(store);
    const count = quick ? 300 : 1_000;
    return await measureCancels({ client: perdure.client, holding, reports, count });
  } finally {
    worker.disconnect();
    await exited;
  }
}
