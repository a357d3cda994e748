/** What a case is given: a file or a database of its own, in a process of its own. */
export interface BenchmarkSetup {
  readonly store: string;
  /** Smaller numbers, for a look in passing. */
  readonly quick: boolean;
  /** How many worker processes to measure with, one number after the other. Default: 1, 2, 4. */
  readonly workers?: readonly number[];
}

/** What a case measured, by name; units are in the names. */
export type Figures = Readonly<Record<string, number>>;

export type Benchmark = (setup: BenchmarkSetup) => Promise<Figures> | Figures;

/** The value below which a share of the sorted values lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Runs a task many times, a number of them at a time, and answers the seconds that all took. */
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

/** Seconds for what is not compiled yet, for everybody until it is, and for the measurement. */
export function phases(quick: boolean): { cold: number; warmUp: number; measured: number } {
  return quick ? { cold: 0.5, warmUp: 0.5, measured: 0.5 } : { cold: 1, warmUp: 5, measured: 3 };
}

/** Runs a task again and again, a number of them at a time, and answers how many end per second. */
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

/**
 * How many of a task end per second, a number of them at a time: at first, and when the compiler of the engine has seen
 * what is hot, for which every program gets the same time.
 */
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

/** Fails the benchmark when the work was not done as it should: a fast wrong answer is no figure. */
export function check(isRight: boolean, what: string): void {
  if (!isRight) throw new Error(`Wrong result: ${what}`);
}
