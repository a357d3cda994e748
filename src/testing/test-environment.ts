import type { LocalClient } from '../client/local-client.ts';
import type { Handle } from '../client/handle.ts';
import { OpenOperations, type OpenOperation } from '../client/explaining/open-operations.ts';
import type { HistoryEvent } from '../model/event.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { Perdure, type StartWorkerOptions } from '../perdure.ts';
import { openSqlite } from '../providers/sqlite/provider.ts';
import { testOptions, type TestOptions } from '../runtime/test-options.ts';
import type { OrchestrationRef } from '../model/definition.ts';
import type { StartArguments } from '../client/starting/start-request.ts';
import { isTerminal } from '../model/status.ts';
import {
  runAtEveryPlace,
  type EveryPlaceOptions,
  type Fault,
  type FaultyRun,
} from './every-place.ts';
import { CrashingWorker } from './crashing-worker.ts';
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
  readonly #options: TestEnvironmentOptions;
  #lastSkip: Promise<unknown> = Promise.resolve();

  constructor(parts: {
    readonly clock: FakeClock;
    readonly perdure: Perdure;
    readonly watched: WatchedProvider;
    readonly options: TestEnvironmentOptions;
  }) {
    this.#options = parts.options;
    this.clock = parts.clock;
    this.#perdure = parts.perdure;
    this.#watched = parts.watched;
  }

  get client(): LocalClient {
    return this.#perdure.client;
  }

  /** Starts an instance, as `client.start()` does, and waits until the worker is idle. */
  async start<Input, Output>(
    definition: OrchestrationRef<Input, Output>,
    ...args: StartArguments<Input>
  ): Promise<Handle<Output>> {
    const handle = await this.client.start(definition, ...args);
    await this.settle();
    return handle;
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

  /**
   * Runs an orchestration once per commit of its worker, each time on a new store, and cancels the instance there. Checks
   * `expect` after each run. Returns the number of runs.
   */
  cancelAtEveryAwait<Input>(
    orchestration: OrchestrationRef<Input>,
    input: NoInfer<Input>,
    options: EveryPlaceOptions<TestEnvironment, Handle>,
  ): Promise<number> {
    const run = { start: startOf(orchestration, input), drive: options.drive };
    return runAtEveryPlace({
      method: 'cancelAtEveryAwait()',
      what: 'a cancel',
      moments: ['afterCommit'],
      options,
      run: (fault) =>
        runWithFault(this.#options, { ...run, fault }, (env) =>
          env.client.cancel(faultyId, { reason: 'cancelAtEveryAwait()' }),
        ),
    });
  }

  /**
   * Runs an orchestration twice per commit of its worker, each time on a new store: the worker dies before the commit, and
   * after it. Another worker then takes over. Checks `expect` after each run. Returns the number of runs. Handlers that run at
   * the crash run to their end, and run again: as after a crash right before their ack.
   */
  crashAtEveryEvent<Input>(
    orchestration: OrchestrationRef<Input>,
    input: NoInfer<Input>,
    options: EveryPlaceOptions<TestEnvironment, Handle>,
  ): Promise<number> {
    const run = { start: startOf(orchestration, input), drive: options.drive };
    return runAtEveryPlace({
      method: 'crashAtEveryEvent()',
      what: 'a crash',
      moments: ['beforeCommit', 'afterCommit'],
      options,
      run: (fault) => runWithFault(this.#options, { ...run, fault }, (_env, crash) => crash()),
    });
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
  const clock = newClock(options);
  const watched = watchClaims(await openSqlite({ path: ':memory:', clock }));
  const perdure = await Perdure.open(watched.provider, { clock });
  try {
    await perdure.startWorker(toWorkerOptions(options));
  } catch (error) {
    await perdure.close();
    throw error;
  }
  return new TestEnvironment({ clock, perdure, watched, options });
}

function newClock({ startAt }: TestEnvironmentOptions): FakeClock {
  return new FakeClock(startAt === undefined ? {} : { startAt: Number(startAt) });
}

function toWorkerOptions(options: TestEnvironmentOptions): StartWorkerOptions {
  const { startAt: _startAt, alwaysReplay = true, fastPaths, ...workerOptions } = options;
  return {
    // Fails the test if the code is nondeterministic.
    onNondeterminism: 'fail',
    onUnawaited: 'fail',
    // The clock does not advance during `close`, so a grace would never end.
    shutdownGrace: 0,
    ...workerOptions,
    ...testOptions({ alwaysReplay, fastPaths }),
    pollInterval: pollIntervalMs,
  };
}

const faultyId = 'instance';
const driveStepMs = 1_000;
const maxDriveMs = 3_600_000;

function startOf<Input>(orchestration: OrchestrationRef<Input>, input: NoInfer<Input>) {
  const args = [input, { id: faultyId }] as unknown as StartArguments<Input>;
  return (client: LocalClient): Promise<Handle> => client.start(orchestration, ...args);
}

interface FaultyStart {
  readonly start: (client: LocalClient) => Promise<Handle>;
  readonly drive: EveryPlaceOptions<TestEnvironment, Handle>['drive'];
  readonly fault: Fault;
}

/** Starts an instance on a new store, applies the fault at its place, and waits until the instance has ended. */
async function runWithFault(
  options: TestEnvironmentOptions,
  { start, drive, fault }: FaultyStart,
  apply: (env: TestEnvironment, crash: () => void) => unknown,
): Promise<FaultyRun> {
  const clock = newClock(options);
  const store = await openSqlite({ path: ':memory:', clock });
  const worker = new CrashingWorker(store, clock, toWorkerOptions(options));
  const outside = watchClaims(store);
  // The client is another process, which survives the fault.
  const perdure = await Perdure.open(outside.provider, { clock });
  const watched = bothOf(outside, worker);
  const env = new TestEnvironment({ clock, perdure, watched, options });
  let [writes, reached] = [0, false];
  const happened = Promise.withResolvers<void>();
  worker.onWrite = async (moment) => {
    if (moment === 'beforeCommit') writes += 1;
    if (reached || moment !== fault.moment || writes !== fault.write) return;
    const [record] = await store.getInstances([faultyId]);
    if (record === undefined || isTerminal(record.status)) return;
    reached = true;
    happened.resolve();
    await apply(env, () => worker.crash());
  };
  try {
    await worker.start();
    const handle = await start(env.client);
    const driving = drive?.(env, handle).catch((error: unknown) => {
      if (!reached) throw error;
    });
    if (driving !== undefined) await passTimeFor(driving, env, happened.promise);
    const output = await env.result(handle).catch((error: unknown) => {
      if (!hasEnded(error)) throw error;
      return undefined;
    });
    // Children may still clean up after their parent has ended.
    const { allIds } = await env.client.getInstanceTree(faultyId);
    for (const id of allIds) await env.result(env.client.handle(id)).catch(() => undefined);
    const { status } = await handle.status();
    return { id: faultyId, status, reached, ...(status === 'completed' && { output }) };
  } finally {
    await worker.stop();
    await perdure.close();
  }
}

/**
 * Waits for `drive`. After the fault, time passes while it waits, for example for the reply to an update: the next worker can
 * claim the work of a dead one only when its lease has expired.
 */
async function passTimeFor(
  driving: Promise<unknown>,
  env: TestEnvironment,
  fault: Promise<void>,
): Promise<void> {
  let isOver = false;
  const over = driving.finally(() => (isOver = true));
  await Promise.race([over, fault]);
  for (let passedMs = 0; passedMs < maxDriveMs; passedMs += driveStepMs) {
    await Promise.race([over, env.settle()]);
    if (isOver) break;
    await env.advance(driveStepMs);
  }
  await over;
}

/** Whether `result()` rejected because the instance ended as failed, canceled or terminated. */
function hasEnded(error: unknown): boolean {
  return !(error instanceof PerdureError) || error.code !== 'TIMEOUT';
}

function bothOf(client: WatchedProvider, worker: CrashingWorker): WatchedProvider {
  return {
    provider: client.provider,
    isBusy: () => client.isBusy() || worker.isBusy(),
    whenQuiet: async () => {
      await client.whenQuiet();
      await worker.whenQuiet();
    },
  };
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
    case 'step':
      return `step ${JSON.stringify(name)}`;
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
