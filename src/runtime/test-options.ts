import type { WorkerOptions } from './options.ts';

/** Worker options for tests, which `testOptions` adds to those of `perdure.startWorker()`. */
export interface TestOptions {
  /** Use the fast path, which saves transactions. Default true; outcomes are the same without it. */
  readonly fastPaths?: boolean | undefined;
  /**
   * Replay the history with fresh code before each turn commits, to find nondeterminism. A turn whose replay disagrees is
   * discarded, and `onNondeterminism` applies. Default false; true in a test environment.
   */
  readonly alwaysReplay?: boolean | undefined;
}

// Symbols survive a spread, and are absent from the type `WorkerOptions`. Global ones: a test may load src/ and dist/.
const fastPathsKey = Symbol.for('perdure.fastPaths');
const alwaysReplayKey = Symbol.for('perdure.alwaysReplay');

interface Tested extends WorkerOptions {
  readonly [fastPathsKey]?: boolean;
  readonly [alwaysReplayKey]?: boolean;
}

/** Returns worker options to spread into others: `startWorker({ ...definitions, ...testOptions({ fastPaths: false }) })`. */
export function testOptions({ fastPaths, alwaysReplay }: TestOptions): WorkerOptions {
  const tested: Tested = {
    ...(fastPaths !== undefined && { [fastPathsKey]: fastPaths }),
    ...(alwaysReplay !== undefined && { [alwaysReplayKey]: alwaysReplay }),
  };
  return tested;
}

/** Returns the test options of a worker, with their defaults. */
export function readTestOptions(options: Tested): { fastPaths: boolean; alwaysReplay: boolean } {
  return {
    fastPaths: options[fastPathsKey] ?? true,
    alwaysReplay: options[alwaysReplayKey] ?? false,
  };
}
