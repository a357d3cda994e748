import type { LocalClient } from '../client/local-client.ts';
import type { Handle } from '../client/handle.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { Perdure, type StartWorkerOptions } from '../perdure.ts';
import { openSqlite } from '../providers/sqlite/provider.ts';
import { FakeClock } from './fake-clock.ts';
import { outstandingOperations } from './outstanding-operations.ts';
import { watchClaims, type WatchedProvider } from './watch-claims.ts';

/** What a test environment runs; everything that a worker can be told, but for its polling. */
export interface TestEnvironmentOptions extends Omit<StartWorkerOptions, 'pollInterval'> {
  /** When the clock starts. Default: 2030-01-01T00:00:00Z. */
  readonly startAt?: Date | number;
}

// Polls would be the only alarms of an idle worker: they lie beyond every timer that a test can wait for.
const pollIntervalMs = toMs('36500d');
const horizonMs = toMs('30000d');

// A wake-up becomes a claim within about six turns of the event loop.
const quietRounds = 20;

const { setImmediate: realSetImmediate } = globalThis;

/**
 * A worker on a store in memory whose clock skips time. Time passes only in `result` and `advance`, and there only
 * while nothing is left to do: an activity that awaits real I/O is waited for, never skipped over.
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

  /** Waits until nothing is left to do without time passing: no activity runs and nothing is queued. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < quietRounds; quiet += 1) {
      await new Promise<void>((resolve) => void realSetImmediate(resolve));
      if (!this.#watched.isBusy()) continue;
      await this.#watched.whenQuiet();
      quiet = 0;
    }
  }

  /** Skips time until the instance is over and returns its output, or throws what `handle.result()` throws. */
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

  /** Lets a time pass: every timer in it fires, and what it starts is waited for before time goes on. */
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

  /** Moves the clock to the next alarm up to `until`; answers whether there was one. Skips never overlap. */
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
      `Instance '${instanceId}' will never be over: nothing is queued, no timer is set, and it waits for ${waitsFor.join(', ') || 'a worker that can run it'}. ` +
        'Raise the event before asking for the result, or register what is missing.',
    );
  }
}

/** Opens a store in memory and starts a worker on it, with a clock that skips time. */
export async function createTestEnvironment(
  options: TestEnvironmentOptions,
): Promise<TestEnvironment> {
  const { startAt, ...workerOptions } = options;
  const clock = new FakeClock(startAt === undefined ? {} : { startAt: Number(startAt) });
  const watched = watchClaims(await openSqlite({ path: ':memory:', clock }));
  const perdure = await Perdure.open(watched.provider, { clock });
  try {
    await perdure.startWorker({
      // Nondeterministic code must fail the test.
      onNondeterminism: 'fail',
      onUnawaited: 'fail',
      alwaysReplay: true,
      // Nobody moves the clock during `close`, so there is no grace to wait for.
      shutdownGrace: 0,
      ...workerOptions,
      pollInterval: pollIntervalMs,
    });
  } catch (error) {
    await perdure.close();
    throw error;
  }
  return new TestEnvironment({ clock, perdure, watched });
}
