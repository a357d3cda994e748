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
    seed: 537,
    found:
      'a claim made while a renewal had no response was neither renewed nor ended by its worker',
  },
  {
    seed: 118,
    found:
      'a turn failed because the steps of an earlier claim had evicted its instance, and the instance was blocked',
  },
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
  {
    seed: 1_024_651,
    found:
      'the checker did not know that a takeover also ends claims of processes that were taken over before',
  },
  {
    seed: 6546,
    found: 'a session that another process closed ended only at the next poll of the reaper',
  },
  {
    seed: 9768,
    found:
      'a run failed as blocked, because the simulation had no watchdog to see that its process was suspended',
  },
  {
    seed: 104_461,
    found: 'an activity failed as blocked, because the simulation had no watchdog',
  },
  {
    seed: 102_644,
    found: 'the reference model expected a timer turn to see a message that came after its time',
  },
  {
    seed: 107_249,
    found: 'the reference model expected a timer turn to see a message that came after its time',
  },
  {
    seed: 136_657,
    found:
      'a handler that blocked its process started again, because the ack of its failure was lost',
  },
  {
    seed: 138_656,
    found: 'a task that an orchestration called blocked its process, and started again',
  },
  {
    seed: 141_431,
    found:
      'the check expected that the runs of a batch that blocked its process do not start again',
  },
  {
    seed: 104_096,
    found: 'the check expected that a claim from before a terminate lasts into the next execution',
  },
  {
    seed: 1901,
    found:
      'a worker reported a deleted instance as blocked, because the check whether it was deleted failed',
  },
  {
    seed: 1761,
    found: 'the check expected that a second takeover ends claims that came after the first',
  },
  {
    seed: 1_008_537,
    found: 'a repeated start ran an instance again that had ended and been deleted',
  },
  {
    seed: 1_011_602,
    found: 'a repeated start ran an instance again that had been canceled and deleted',
  },
  {
    seed: 65,
    found:
      'a read of the worker that the store could not serve cost an onFail handler its last attempt',
  },
  {
    seed: 20_281,
    found:
      'the check expected a process to abort a handler before its other steps, when it resumed',
  },
  {
    seed: 5_003_066,
    found: 'the checker did not know that an expired clean-up limit ends the delay of a hand-back',
  },
];
