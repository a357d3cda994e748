/** A seed that failed once, and what it found. CI runs it with every push. */
interface RegressionSeed {
  readonly seed: number;
  /** Its shrunk decisions. Absent: all decisions of the seed. */
  readonly decisions?: readonly string[];
  /** The bug that it found. */
  readonly found: string;
}

/** Add a seed with the fix of its bug: `npm run sim -- --seed <seed> --shrink` prints the decisions. */
export const regressionSeeds: readonly RegressionSeed[] = [
  {
    seed: 1303,
    decisions: [
      'start:t0#1',
      'start:t1#1',
      'start:t3#1',
      'kill:w0#11',
      'wakeLost:w1#24',
      'slow:w1 fetchWorkItems#56',
      'slow:w4 getInstances#1',
      'stop:w4#102',
    ],
    found:
      'an onFail handler started after its lease had ended, because its run was read after the check',
  },
];
