import type { LocalClient } from '../client/local-client.ts';
import type { Handle } from '../client/handle.ts';
import { OpenOperations, type OpenOperation } from '../client/explaining/open-operations.ts';
import type { HistoryEvent } from '../model/event.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { Perdure, type StartWorkerOptions } from '../perdure.ts';
import { openSqlite } from '../providers/sqlite/provider.ts';
import { testOptions, type TestOptions } from '../runtime/test-options.ts';
import { FakeClock } from './fake-clock.ts';
import { watchClaims, type WatchedProvider } from './watch-claims.ts';

/** Options of a test environment: the options of a worker, without `pollInterval`. */
export interface TestEnvironmentOptions
  extends Omit<StartWorkerOptions, 'pollInterval'>, TestOptions {
  /** The start time of the clock. Default: 2030-01-01T00:00:00Z. */
  readonly startAt?: Date | number;
}

// A poll would be an alarm of an idle worker, so it is later than any timer that a test can wait for.
const pollIntervalMs = toMs('36500d');
const horizonMs = toMs('30000d');

// A wake-up leads to a claim within about six turns of the event loop.
const quietRounds = 20;

const { setImmediate: realSetImmediate } = globalThis;

/**
 * A worker on an in-memory store whose clock skips time. Time passes only in `result` and `advance`, and only while the
 * worker is idle: an activity that awaits real I/O completes first.
 */
export class TestEnvironment {
  readonly clock: FakeClock;
  readonly #perdure: Perdure;
  readonly #watched: WatchedProvider;
  #lastSkip: Promise<unknown> = Promise.resolve();

  constructor(parts: {
    readonly clock: FakeClock;
    readonly perdure: Perdure;
    readonly watched: WatchedProvider;
  }) {
    this.clock = parts.clock;
    this.#perdure = parts.perdure;
    this.#watched = parts.watched;
  }

  get client(): LocalClient {
    return this.#perdure.client;
  }

  /** Waits until the worker is idle: no activity runs, and no work can start without time passing. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < quietRounds; quiet += 1) {
      await new Promise<void>((resolve) => void realSetImmediate(resolve));
      if (!this.#watched.isBusy()) continue;
      await this.#watched.whenQuiet();
      quiet = 0;
    }
  }

  /** Skips time until the instance has ended. Resolves with its output, or rejects like `handle.result()`. */
  async result<Output>(handle: Handle<Output>): Promise<Output> {
    const end = { isThere: false };
    const result = handle.result();
    const note = (): void => void (end.isThere = true);
    result.then(note, note);
    while (!end.isThere) {
      const skipped = await this.#skip(this.clock.now() + horizonMs, () => end.isThere);
      if (!skipped && !end.isThere) throw await this.#stuck(handle.id);
    }
    return await result;
  }

  /** Advances the clock by a duration. Fires every timer on the way, and waits until the worker is idle after each. */
  async advance(duration: Duration): Promise<void> {
    const until = this.clock.now() + toMs(duration);
    let skipped: boolean;
    do skipped = await this.#skip(until);
    while (skipped);
    if (until > this.clock.now()) await this.clock.advanceTo(until);
    await this.settle();
  }

  /** Stops the worker and closes the store. */
  async close(): Promise<void> {
    await this.#perdure.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Advances the clock to the next alarm up to `until`. Returns whether there was one. Skips never overlap. */
  #skip(until: number, isNeedless = (): boolean => false): Promise<boolean> {
    const skip = this.#skipAfter(this.#lastSkip, until, isNeedless);
    this.#lastSkip = skip.catch(() => undefined);
    return skip;
  }

  async #skipAfter(
    earlier: Promise<unknown>,
    until: number,
    isNeedless: () => boolean,
  ): Promise<boolean> {
    await earlier;
    await this.settle();
    const next = this.clock.nextAlarmAt;
    if (isNeedless() || next === undefined || next > until) return false;
    await this.clock.advanceTo(Math.max(next, this.clock.now()));
    return true;
  }

  async #stuck(instanceId: string): Promise<PerdureError> {
    const { events } = await this.client.exportHistory(instanceId);
    const waitsFor = outstandingOperations(events);
    return new PerdureError(
      'TIMEOUT',
      `Instance ${JSON.stringify(instanceId)} can never end: the queues are empty, no timer is set, and it waits for ${waitsFor.join(', ') || 'a worker that can run it'}. ` +
        'Raise the event before you wait for the result, or register the missing definition.',
    );
  }
}

/** Opens an in-memory store and starts a worker on it, with a clock that skips time. */
export async function createTestEnvironment(
  options: TestEnvironmentOptions,
): Promise<TestEnvironment> {
  const { startAt, alwaysReplay = true, fastPaths, ...workerOptions } = options;
  const clock = new FakeClock(startAt === undefined ? {} : { startAt: Number(startAt) });
  const watched = watchClaims(await openSqlite({ path: ':memory:', clock }));
  const perdure = await Perdure.open(watched.provider, { clock });
  try {
    await perdure.startWorker({
      // Fails the test if the code is nondeterministic.
      onNondeterminism: 'fail',
      onUnawaited: 'fail',
      // The clock does not advance during `close`, so a grace would never end.
      shutdownGrace: 0,
      ...workerOptions,
      ...testOptions({ alwaysReplay, fastPaths }),
      pollInterval: pollIntervalMs,
    });
  } catch (error) {
    await perdure.close();
    throw error;
  }
  return new TestEnvironment({ clock, perdure, watched });
}

/** Describes the pending operations of a history, for error messages. */
export function outstandingOperations(history: readonly HistoryEvent[]): readonly string[] {
  const operations = new OpenOperations();
  for (const [index, event] of history.entries()) operations.add(event, index + 1);
  return operations.all.map(
    (one) => `${describe(one)}${one.isStopping === true ? ' to stop' : ''}`,
  );
}

function describe({ kind, name = '', childId = '', fireAt = 0 }: OpenOperation): string {
  switch (kind) {
    case 'activity':
      return `activity ${JSON.stringify(name)}`;
    case 'timer':
      return `a timer for ${new Date(fireAt).toISOString()}`;
    case 'child':
      return `child ${JSON.stringify(childId)}`;
    case 'detached':
      return `the start of ${JSON.stringify(childId)}`;
    case 'event':
      return `event ${JSON.stringify(name)}`;
    case 'awakeable':
      return 'the answer to an awakeable';
  }
}
