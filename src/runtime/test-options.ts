import type { HostProcesses } from './leases/host-processes.ts';
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
  /** The processes of its host, for takeovers. `null`: it checks none. Default: those in `/proc`. */
  readonly host?: HostProcesses | null | undefined;
}

// Symbols survive a spread, and are absent from the type `WorkerOptions`. Global ones: a test may load src/ and dist/.
const fastPathsKey = Symbol.for('perdure.fastPaths');
const alwaysReplayKey = Symbol.for('perdure.alwaysReplay');
const hostKey = Symbol.for('perdure.host');

interface Tested extends WorkerOptions {
  readonly [fastPathsKey]?: boolean;
  readonly [alwaysReplayKey]?: boolean;
  readonly [hostKey]?: HostProcesses | null;
}

/** Returns worker options to spread into others: `startWorker({ ...definitions, ...testOptions({ fastPaths: false }) })`. */
export function testOptions({ fastPaths, alwaysReplay, host }: TestOptions): WorkerOptions {
  const tested: Tested = {
    ...(fastPaths !== undefined && { [fastPathsKey]: fastPaths }),
    ...(alwaysReplay !== undefined && { [alwaysReplayKey]: alwaysReplay }),
    ...(host !== undefined && { [hostKey]: host }),
  };
  return tested;
}

/** Returns the test options of a worker, with their defaults. */
export function readTestOptions(options: Tested): {
  readonly fastPaths: boolean;
  readonly alwaysReplay: boolean;
  readonly host: HostProcesses | null | undefined;
} {
  return {
    fastPaths: options[fastPathsKey] ?? true,
    alwaysReplay: options[alwaysReplayKey] ?? false,
    host: options[hostKey],
  };
}
