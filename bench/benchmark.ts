/** The setup of a case: a separate store, in a separate process. */
export interface BenchmarkSetup {
  readonly store: string;
  /** Smaller numbers, for a quick run. */
  readonly quick: boolean;
  /** Numbers of worker processes to measure with, in sequence. Default: 1, 2, 4. */
  readonly workers?: readonly number[];
  /** Instances in the store of the dashboard. Default: 100,000. */
  readonly rows?: number;
}

/** The results of a case, by name; names contain the unit. */
export type Figures = Readonly<Record<string, number>>;

export type Benchmark = (setup: BenchmarkSetup) => Promise<Figures> | Figures;

/** The percentile of sorted values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Runs a task many times with the given concurrency. Returns the total seconds. */
export async function runInLanes(
  count: number,
  lanes: number,
  task: () => Promise<void>,
): Promise<number> {
  let left = count;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await task();
    }
  };
  const begun = performance.now();
  await Promise.all(Array.from({ length: lanes }, lane));
  return (performance.now() - begun) / 1_000;
}

/** Seconds of the cold phase, of the warm-up, and of the measurement. */
export function phases(quick: boolean): { cold: number; warmUp: number; measured: number } {
  return quick ? { cold: 0.5, warmUp: 0.5, measured: 0.5 } : { cold: 1, warmUp: 5, measured: 3 };
}

/** Runs a task repeatedly with the given concurrency. Returns the rate per second. */
async function rateOf(seconds: number, lanes: number, task: () => Promise<void>): Promise<number> {
  const begun = performance.now();
  let done = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() - begun < seconds * 1_000) {
      await task();
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return (done * 1_000) / (performance.now() - begun);
}

/** Completions per second with the given concurrency: cold, and after a warm-up that is the same for every program. */
export async function measureRate(
  quick: boolean,
  lanes: number,
  task: () => Promise<void>,
): Promise<{ readonly perSecond: number; readonly coldPerSecond: number }> {
  const { cold, warmUp, measured } = phases(quick);
  const coldPerSecond = await rateOf(cold, lanes, task);
  await rateOf(warmUp, lanes, task);
  return { perSecond: await rateOf(measured, lanes, task), coldPerSecond };
}

/** Throws if a result is wrong: a fast wrong result is not a measurement. */
export function check(isRight: boolean, what: string): void {
  if (!isRight) throw new Error(`Wrong result: ${what}`);
}
