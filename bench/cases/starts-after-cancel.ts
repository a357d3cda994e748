import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Perdure, type Client } from 'perdure';
import { check, percentile, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { sharedNow } from '../cancel-latencies.ts';
import { createComputing } from '../computing-definitions.ts';
import type { Start } from '../starts-worker-program.ts';

const batch = 100;

/**
 * The client cancels a run in one process, after a worker in another has claimed 100 handlers with synchronous work.
 * Measures how many handlers start after `cancel()` has resolved, and how late.
 */
export async function startsAfterCancel({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const worker = fork(join(import.meta.dirname, '..', 'starts-worker-program.ts'), [store], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const exited = once(worker, 'exit');
  try {
    await once(worker, 'message');
    const starts = new Starts();
    worker.on('message', (start: Start) => starts.add(start));
    await using perdure = await Perdure.open(store);
    const rounds = quick ? 10 : 40;
    const figures: Record<string, number> = {};
    for (const computeMs of [1, 5]) {
      const late: Late[] = [];
      for (let round = 0; round < rounds; round++) {
        late.push(await cancelInBatch(perdure.client, starts, computeMs));
      }
      const counts = late.map(({ count }) => count);
      const lags = late.map(({ lagMs }) => lagMs);
      figures[`late${computeMs}MsP50`] = percentile(counts, 0.5);
      figures[`late${computeMs}MsMax`] = Math.max(...counts);
      figures[`lag${computeMs}MsP50Ms`] = percentile(lags, 0.5);
      figures[`lag${computeMs}MsP99Ms`] = percentile(lags, 0.99);
    }
    return figures;
  } finally {
    worker.disconnect();
    await exited;
  }
}

interface Late {
  readonly count: number;
  /** Time from the resolved cancel to the last start; 0 if there is none. */
  readonly lagMs: number;
}

async function cancelInBatch(client: Client, starts: Starts, computeMs: number): Promise<Late> {
  const { computing } = createComputing(() => undefined);
  const handle = await client.start(computing, { count: batch, computeMs });
  await starts.first(handle.id);
  const { changed } = await handle.cancel({ reason: 'measured' });
  const resolvedAt = sharedNow();
  check(changed, 'a cancel in a batch');
  await handle.result().catch(() => undefined);
  const late = starts.take(handle.id).filter((at) => at > resolvedAt);
  return { count: late.length, lagMs: Math.max(0, ...late.map((at) => at - resolvedAt)) };
}

/** When the handlers of each run started, as reported by the worker. */
class Starts {
  readonly #moments = new Map<string, number[]>();
  readonly #waiting = new Map<string, () => void>();

  add({ instanceId, at }: Start): void {
    const moments = this.#moments.get(instanceId) ?? [];
    this.#moments.set(instanceId, [...moments, at]);
    this.#waiting.get(instanceId)?.();
  }

  async first(instanceId: string): Promise<void> {
    if (this.#moments.has(instanceId)) return;
    await new Promise<void>((resolve) => this.#waiting.set(instanceId, resolve));
  }

  take(instanceId: string): readonly number[] {
    const moments = this.#moments.get(instanceId) ?? [];
    this.#moments.delete(instanceId);
    this.#waiting.delete(instanceId);
    return moments;
  }
}
