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

/** Fails the benchmark when the work was not done as it should: a fast wrong answer is no figure. */
export function check(isRight: boolean, what: string): void {
  if (!isRight) throw new Error(`Wrong result: ${what}`);
}
