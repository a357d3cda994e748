/** The entry of the watchdog thread. Pings the workers' event loop, and acts if it does not respond. */
import { writeSync } from 'node:fs';
import { Session } from 'node:inspector';
import { setInterval, setTimeout } from 'node:timers';
import { parentPort, workerData } from 'node:worker_threads';
import type { Provider } from '../../providers/contract/provider.ts';
import {
  describeProperty,
  type BlockAction,
  type FromWatchdog,
  type HoldDescription,
  type ToWatchdog,
  type WatchedWorker,
} from './watchdog-messages.ts';
import type * as blockedClaims from './blocked-claims.ts';
import type { LoopHold } from './loop-holder.ts';

const maxIntervalMs = 1_000;
const minIntervalMs = 10;
const maxStackLines = 12;
// Maximum time for the store calls before the process is killed.
const exitSlackMs = 2_000;
// With shorter leases, two beats may be too short to load the modules of a store.
const minLazyLeaseMs = 5_000;
// With fewer sightings, the code may only share the event loop with the code that blocks it.
const minSightings = 3;

const workers = new Map<number, WatchedWorker>();
let intervalMs = maxIntervalMs;
let timer: NodeJS.Timeout | undefined;
let pingedAt: number | undefined;
let beatAt: number | undefined;
/** Shared with the worker's thread: running time of this thread, in milliseconds. */
const awake = workerData as Int32Array;
/** Time in which the process was suspended. It does not count as blocked. */
let stoppedMs = 0;
let period: BlockedPeriod | undefined;
let isLoaded = false;

function send(message: FromWatchdog): void {
  parentPort?.postMessage(message, []);
}

// Synchronous: the console of a thread is written through the blocked event loop.
function log(fields: object, message: string): void {
  try {
    writeSync(2, `perdure: warn: ${message} ${JSON.stringify(fields)}\n`);
  } catch {
    // stderr is not writable: nothing is left to report to.
  }
}

function shortestLeaseMs(): number {
  let shortest = Infinity;
  for (const { orchestrationLeaseMs, activityLeaseMs } of workers.values())
    shortest = Math.min(shortest, orchestrationLeaseMs, activityLeaseMs);
  return shortest;
}

/** Returns the time in which the process was not suspended. */
function awakeMs(): number {
  return performance.now() - stoppedMs;
}

/** Detects a late beat: the process was suspended, by a signal or with its machine. */
function noticeStop(): void {
  const now = performance.now();
  const passedMs = beatAt === undefined ? 0 : now - beatAt;
  const lateMs = passedMs - intervalMs;
  beatAt = now;
  if (lateMs >= shortestLeaseMs() / 2) stoppedMs += lateMs;
  else Atomics.add(awake, 0, Math.ceil(passedMs));
}

function restart(): void {
  clearInterval(timer);
  pingedAt = undefined;
  beatAt = undefined;
  if (workers.size === 0) return;
  intervalMs = Math.min(Math.max(shortestLeaseMs() / 12, minIntervalMs), maxIntervalMs);
  timer = setInterval(beat, intervalMs);
}

function beat(): void {
  noticeStop();
  const now = awakeMs();
  if (pingedAt === undefined) {
    pingedAt = now;
    send({ kind: 'ping' });
    return;
  }
  loadStores();
  const blockedMs = now - pingedAt;
  if (blockedMs < shortestLeaseMs() / 4) return;
  period ??= new BlockedPeriod(pingedAt);
  period.proceed(blockedMs);
}

function onPong(): void {
  if (shortestLeaseMs() < minLazyLeaseMs) loadStores();
  if (period !== undefined && pingedAt !== undefined) period.end(awakeMs() - pingedAt);
  period = undefined;
  pingedAt = undefined;
}

/** When the same code was first seen, and how often. */
interface Sightings {
  readonly since: number;
  count: number;
}

/** A period in which the event loop does not respond. */
class BlockedPeriod {
  readonly #since: number;
  /** By description of the code. A period may consist of many short turns, none of which blocks for long. */
  readonly #seen = new Map<string, Sightings>();
  #hold: LoopHold | undefined;
  #stack: string | undefined;
  #store: Promise<Provider> | undefined;
  #isIdentifying = false;
  #isLogged = false;
  #isDebugged = false;
  #renewedAt = Number.NEGATIVE_INFINITY;
  #acting: Promise<void> | undefined;
  #action: BlockAction = 'none';
  #isEnding = false;

  constructor(since: number) {
    this.#since = since;
  }

  /** Called at each beat of the period. */
  proceed(blockedMs: number): void {
    this.#identify();
    this.#renewIfDue();
    this.#exitIfDue(blockedMs);
  }

  #identify(): void {
    if (this.#isIdentifying || this.#acting !== undefined) return;
    this.#isIdentifying = true;
    identify(({ hold, stack, isDebugged }) => {
      this.#isIdentifying = false;
      this.#hold = hold;
      this.#stack = stack;
      this.#isDebugged = isDebugged;
      this.#log();
      this.#recordSighting(hold);
    });
  }

  #log(): void {
    if (this.#isLogged) return;
    this.#isLogged = true;
    const { what, instanceId } = this.#hold ?? {};
    const blockedMs = Math.round(awakeMs() - this.#since);
    log({ blockedMs, what, instanceId, stack: this.#stack }, 'event loop is blocked');
  }

  /** Acts once the same code has run for as long as its lease. */
  #recordSighting(hold: LoopHold | undefined): void {
    const worker = this.#worker;
    if (hold === undefined || worker === undefined) return;
    const isFirst = this.#seen.size === 0;
    const key = JSON.stringify(hold);
    const seen = this.#seen.get(key) ?? { since: isFirst ? this.#since : awakeMs(), count: 0 };
    seen.count += 1;
    this.#seen.set(key, seen);
    const leaseMs = leaseOf(hold, worker);
    // Time at a breakpoint does not count.
    if (period !== this || this.#isDebugged || seen.count < minSightings) return;
    const heldMs = awakeMs() - seen.since;
    if (heldMs >= leaseMs) this.#acting ??= this.#act(hold, worker, heldMs);
  }

  #renewIfDue(): void {
    const [hold, worker] = [this.#hold, this.#worker];
    if (hold === undefined || worker === undefined || this.#acting !== undefined) return;
    const now = performance.now();
    const leaseMs = leaseOf(hold, worker);
    if (now - this.#renewedAt < leaseMs / 3) return;
    this.#renewedAt = now;
    void this.#renew(hold, worker, leaseMs);
  }

  end(blockedMs: number): void {
    const [hold, stack, action] = [this.#hold, this.#stack, this.#action];
    send({ kind: 'ended', blockedMs: Math.round(blockedMs), hold, stack, action });
    const store = this.#store;
    void Promise.resolve(this.#acting)
      .then(async () => (await store)?.close())
      .catch(() => undefined);
  }

  get #worker(): WatchedWorker | undefined {
    return this.#hold?.watchdogId === undefined ? undefined : workers.get(this.#hold.watchdogId);
  }

  /** Renews the claim until the code exceeds its lease. Otherwise another worker would run the same code. */
  async #renew(hold: LoopHold, worker: WatchedWorker, leaseMs: number): Promise<void> {
    if (worker.reopening === undefined) return;
    const { activityLeaseMs } = worker;
    try {
      const [{ renewClaims }, store] = await Promise.all([
        loadClaims(),
        this.#open(worker.reopening),
      ]);
      await renewClaims(store, hold, { leaseMs, activityLeaseMs });
    } catch (error) {
      log({ error: String(error) }, 'renewing the lease of blocking code failed');
    }
  }

  /** Blocks the instance, or fails the run, whose code exceeded its lease. */
  async #act(hold: LoopHold, worker: WatchedWorker, blockedMs: number): Promise<void> {
    const { what, instanceId } = hold;
    const leaseMs = leaseOf(hold, worker);
    if (worker.reopening === undefined) {
      log(
        { what, instanceId },
        'store cannot be opened in the watchdog thread, the instance is not blocked',
      );
      return;
    }
    try {
      const [{ endClaim }, store] = await Promise.all([loadClaims(), this.#open(worker.reopening)]);
      const done = await endClaim(store, hold, worker, { blockedMs, leaseMs, stack: this.#stack });
      if (!done) return;
      this.#action = hold.kind === 'turn' ? 'blocked' : 'failed';
      const message =
        hold.kind === 'turn'
          ? 'blocked the instance whose turn blocks the event loop'
          : 'failed the run whose handler blocks the event loop';
      log({ what, instanceId, blockedMs: Math.round(blockedMs) }, message);
    } catch (error) {
      log({ what, instanceId, error: String(error) }, 'ending the claim of blocking code failed');
    }
  }

  #exitIfDue(blockedMs: number): void {
    const limits = [...workers.values()].flatMap(({ exitAfterMs }) => exitAfterMs ?? []);
    if (this.#isEnding || this.#isDebugged || blockedMs < Math.min(...limits)) return;
    this.#isEnding = true;
    const exit = (): void => {
      log(
        { blockedMs: Math.round(blockedMs) },
        'killing the process because its event loop is blocked',
      );
      // SIGKILL, because no signal or exit handler can run.
      process.kill(process.pid, 'SIGKILL');
    };
    void Promise.resolve(this.#acting).then(exit);
    setTimeout(exit, exitSlackMs);
  }

  #open(reopening: NonNullable<WatchedWorker['reopening']>): Promise<Provider> {
    this.#store ??= loadClaims().then(({ openStore }) => openStore(reopening));
    return this.#store;
  }
}

/**
 * Loads the modules that write to the store, which take 6 MB. Called when the event loop misses a beat: they are needed two beats
 * later. With a short lease, that leaves no time, and they are loaded after the first pong.
 */
function loadStores(): void {
  if (isLoaded) return;
  isLoaded = true;
  for (const { reopening } of workers.values()) {
    if (reopening === undefined) continue;
    void loadClaims()
      .then(({ loadStore }) => loadStore(reopening))
      .catch(() => undefined);
  }
}

function loadClaims(): Promise<typeof blockedClaims> {
  return import('./blocked-claims.ts');
}

function leaseOf({ kind }: LoopHold, worker: WatchedWorker): number {
  return kind === 'turn' ? worker.orchestrationLeaseMs : worker.activityLeaseMs;
}

/**
 * Identifies the code on the blocked thread. The inspector interrupts a loop; a native call responds when it returns.
 */
function identify(found: (sighting: Sighting) => void): void {
  const session = new Session();
  try {
    session.connectToMainThread();
    const expression = `(() => {
      const describe = globalThis[Symbol.for(${JSON.stringify(describeProperty)})];
      return JSON.stringify({ ...JSON.parse(describe?.() ?? '{}'), stack: new Error('').stack });
    })()`;
    session.post('Runtime.evaluate', { expression, returnByValue: true }, (error, response) => {
      session.disconnect();
      const text = (response as { result?: { value?: unknown } } | undefined)?.result?.value;
      const { hold, stack, isDebugged } = (
        error === null && typeof text === 'string' ? JSON.parse(text) : {}
      ) as Partial<HoldDescription> & { stack?: string };
      found({ hold: hold ?? undefined, stack: trim(stack), isDebugged: isDebugged === true });
    });
  } catch {
    // Node.js was built without an inspector: the code cannot be identified.
    found({ hold: undefined, stack: undefined, isDebugged: false });
  }
}

/** The code on the event loop at one time. */
interface Sighting {
  readonly hold: LoopHold | undefined;
  readonly stack: string | undefined;
  readonly isDebugged: boolean;
}

/** Returns the frames of the blocked code, without those of the query. */
function trim(stack: string | undefined): string | undefined {
  const frames = stack
    ?.split('\n')
    .slice(1)
    .filter((line) => !line.includes('<anonymous>:'));
  return frames
    ?.slice(0, maxStackLines)
    .map((line) => line.trim())
    .join('\n');
}

parentPort?.on('message', (message: ToWatchdog) => {
  if (message.kind === 'pong') onPong();
  else {
    if (message.kind === 'watch') {
      workers.set(message.worker.id, message.worker);
      isLoaded = false;
    } else workers.delete(message.id);
    restart();
  }
});
