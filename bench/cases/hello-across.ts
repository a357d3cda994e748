import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Perdure } from 'perdure';
import { check, runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { hello } from '../definitions.ts';
import { PostgresCost } from '../postgres-cost.ts';

const starts = 64;

/** Hellos started by a client process and run by worker processes, for each number of workers: rate and cost. */
export async function helloAcross({ store, quick, workers }: BenchmarkSetup): Promise<Figures> {
  await using cost = await PostgresCost.open(store);
  await using perdure = await Perdure.open(store);
  const run = async (): Promise<void> => {
    const handle = await perdure.client.start(hello, 'World');
    check((await handle.result()) === 'Hello, World!', 'hello');
  };
  const figures: Record<string, number> = {};
  for (const number of workers ?? [1, 2, 4]) {
    const processes = await startWorkers(store, number);
    const count = quick ? 500 : 2_000;
    await runInLanes(count, starts, run);
    let seconds = Number.NaN;
    const { walBytes, serverCpuMs } = await cost.measure(count, async () => {
      seconds = await runInLanes(count, starts, run);
    });
    figures[`perSecond${number}`] = count / seconds;
    figures[`walBytes${number}`] = walBytes;
    if (serverCpuMs !== undefined) figures[`serverCpuMs${number}`] = serverCpuMs;
    await Promise.all(processes.map(stop));
  }
  return figures;
}

async function startWorkers(store: string, count: number): Promise<readonly ChildProcess[]> {
  const program = join(import.meta.dirname, '..', 'worker-program.ts');
  const processes = Array.from({ length: count }, () =>
    fork(program, [store], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }),
  );
  await Promise.all(processes.map((child) => once(child, 'message')));
  return processes;
}

async function stop(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.disconnect();
  await exited;
}
