import type { Clock } from '../../model/clock.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import type { DefinitionQueue } from '../../providers/contract/management.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { pause } from './provider-retry.ts';

/** How long a worker may drain. */
export interface DrainOptions {
  /** Maximum time in milliseconds, without the shutdown that follows. */
  readonly maxMs: number;
}

/** The outcome of a drain. */
export interface DrainResult {
  /** Whether no due work was left for this worker. */
  readonly isDrained: boolean;
}

const pollMs = 25;
const maxDefinitions = 10_000;

/** Waits until no due work is left for a worker, or until the time is up. */
export async function untilDrained(params: {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly maxMs: number;
  readonly signal: AbortSignal;
  /** Whether a definition of the worker's code. */
  readonly isOwn: (queue: DefinitionQueue) => boolean;
  readonly isWorking: () => boolean;
}): Promise<boolean> {
  const { provider, clock, maxMs, signal, isOwn, isWorking } = params;
  const deadline = clock.monotonic() + maxMs;
  while (!signal.aborted && clock.monotonic() < deadline) {
    if (!isWorking()) {
      const queues = await provider.definitionQueues({ cap: 1, limit: maxDefinitions });
      const isDue = queues.some((queue) => isOwn(queue) && hasWork(queue));
      // Work may have begun during the read.
      if (!isDue && !isWorking()) return true;
    }
    await pause(clock, Math.min(pollMs, Math.max(0, deadline - clock.monotonic())), signal);
  }
  return false;
}

/** A claimed instance may schedule more work. Activities that other workers run do not concern this one. */
function hasWork({ kind, ready, claimed }: DefinitionQueue): boolean {
  return ready > 0 || (kind === 'orchestration' && claimed > 0);
}

/** Reads and checks the options of `worker.drain()`. */
export function readDrainOptions(options: unknown): DrainOptions {
  const { maxMs } = readFields(options as DrainOptions | undefined, 'worker.drain()', ['maxMs']);
  if (typeof maxMs === 'number' && maxMs > 0 && Number.isFinite(maxMs)) return { maxMs };
  throw invalid('maxMs', maxMs, 'a positive number of milliseconds');
}
