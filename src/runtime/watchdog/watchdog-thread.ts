/** The inside of the watchdog's thread: pings the event loop of the workers, and acts when no answer comes. */
import { writeSync } from 'node:fs';
import { Session } from 'node:inspector';
import { setInterval, setTimeout } from 'node:timers';
import { parentPort, workerData } from 'node:worker_threads';
import type { Provider, Reopening } from '../../providers/contract/provider.ts';
import {
  blockedFailure,
  describeBlock,
  describeProperty,
  type BlockAction,
  type FromWatchdog,
  type HoldDescription,
  type ToWatchdog,
  type WatchedWorker,
} from './watchdog-messages.ts';
import type { LoopHold } from './loop-holder.ts';

const maxIntervalMs = 1_000;
const minIntervalMs = 10;
// Until another build, or an operator: in time that no instance will see.
const blockedDelayMs = 10 * 365 * 24 * 3_600_000;
const maxStackLines = 12;
// So long may the store take to be told before a process that is to end ends.
const exitSlackMs = 2_000;
// Code that was seen less often may have shared the event loop with code that blocks it.
const minSightings = 3;

const workers = new Map<number, WatchedWorker>();
let intervalMs = maxIntervalMs;
let timer: NodeJS.Timeout | undefined;
let pingedAt: number | undefined;
let beatAt: number | undefined;
/** Tells the workers' thread for how many milliseconds this one has been running. */
const awake = workerData as Int32Array;
/** How long the process was stopped: nothing ran then, so nothing blocked. */
let stoppedMs = 0;
let blocking: Blocking | undefined;
let isLoaded = false;

function send(message: FromWatchdog): void {
  parentPort?.postMessage(message, []);
}

// Written at once: what a thread writes to its console goes through the event loop that is blocked.
function log(fields: object, message: string): void {
  try {
    writeSync(2, `perdure: warn: ${message} ${JSON.stringify(fields)}\n`);
  } catch {
    // A logger that fails cannot log its own failure.
  }
}

function shortestLeaseMs(): number {
  let shortest = Infinity;
  for (const { orchestrationLeaseMs, activityLeaseMs } of workers.values())
    shortest = Math.min(shortest, orchestrationLeaseMs, activityLeaseMs);
  return shortest;
}

/** The time in which the process ran. */
function awakeMs(): number {
  return performance.now() - stoppedMs;
}

/** A beat that comes this late shows that the process was stopped, by a signal or with its machine. */
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
  const blockedMs = now - pingedAt;
  if (blockedMs < shortestLeaseMs() / 4) return;
  blocking ??= new Blocking(pingedAt);
  blocking.proceed(blockedMs);
}

function onPong(): void {
  if (!isLoaded) loadStores();
  if (blocking !== undefined && pingedAt !== undefined) blocking.end(awakeMs() - pingedAt);
  blocking = undefined;
  pingedAt = undefined;
}

/** When the same code was first seen on the event loop, and how often. */
interface Sightings {
  readonly since: number;
  count: number;
}

/** One time in which the event loop does not answer. */
class Blocking {
  readonly #since: number;
  /** By what was seen: one blocked time may be made of many short turns, of which none is to blame. */
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

  /** Called again and again while it lasts. */
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
    log({ blockedMs, what, instanceId, stack: this.#stack }, 'the event loop is blocked');
  }

  /** Acts once the same code has been there for as long as its lease. */
  #recordSighting(hold: LoopHold | undefined): void {
    const worker = this.#worker;
    if (hold === undefined || worker === undefined) return;
    const isFirst = this.#seen.size === 0;
    const key = JSON.stringify(hold);
    const seen = this.#seen.get(key) ?? { since: isFirst ? this.#since : awakeMs(), count: 0 };
    seen.count += 1;
    this.#seen.set(key, seen);
    const leaseMs = leaseOf(hold, worker);
    // At a breakpoint, the time is that of the person who looks at it.
    if (blocking !== this || this.#isDebugged || seen.count < minSightings) return;
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
    send({ kind: 'over', blockedMs: Math.round(blockedMs), hold, stack, action });
    const store = this.#store;
    void Promise.resolve(this.#acting)
      .then(async () => (await store)?.close())
      .catch(() => undefined);
  }

  get #worker(): WatchedWorker | undefined {
    return this.#hold?.watchdogId === undefined ? undefined : workers.get(this.#hold.watchdogId);
  }

  /** Keeps the claim as long as its lease would have lasted, so that no other worker runs into the same loop. */
  async #renew(hold: LoopHold, worker: WatchedWorker, leaseMs: number): Promise<void> {
    if (worker.reopening === undefined) return;
    const items = hold.kind === 'handler' ? [hold.lockToken] : (hold.items ?? []);
    const extendMs = Math.max(leaseMs, worker.activityLeaseMs);
    const renewals = items.map((lockToken) => ({ lockToken }));
    try {
      const store = await this.#open(worker.reopening);
      if (hold.kind === 'turn' && hold.lockToken !== undefined) {
        await store.renewOrchestrationLocks([hold.lockToken], leaseMs);
      }
      if (renewals.length > 0) await store.renewWorkItemLocks(renewals, extendMs);
    } catch (error) {
      log({ error: String(error) }, 'renewing the lease of what blocks the event loop failed');
    }
  }

  /** Takes the claim away from the code that has outlasted its lease. */
  async #act(hold: LoopHold, worker: WatchedWorker, blockedMs: number): Promise<void> {
    const { what, instanceId } = hold;
    const leaseMs = leaseOf(hold, worker);
    if (worker.reopening === undefined) {
      log(
        { what, instanceId },
        'the store cannot be reached from another thread: nothing is held back',
      );
      return;
    }
    try {
      const store = await this.#open(worker.reopening);
      const done =
        hold.kind === 'turn'
          ? await blockInstance(store, hold, worker, describeBlock(what, blockedMs, leaseMs))
          : await fail(store, hold, worker, blockedFailure(what, blockedMs, leaseMs));
      if (!done) return;
      this.#action = hold.kind === 'turn' ? 'heldBack' : 'failed';
      const message =
        hold.kind === 'turn'
          ? 'held back the instance that blocks the event loop'
          : 'failed the run whose handler blocks the event loop';
      log({ what, instanceId, blockedMs: Math.round(blockedMs) }, message);
    } catch (error) {
      log(
        { what, instanceId, error: String(error) },
        'taking the claim from a blocked worker failed',
      );
    }
  }

  #exitIfDue(blockedMs: number): void {
    const limits = [...workers.values()].flatMap(({ exitAfterMs }) => exitAfterMs ?? []);
    if (this.#isEnding || this.#isDebugged || blockedMs < Math.min(...limits)) return;
    this.#isEnding = true;
    const exit = (): void => {
      log({ blockedMs: Math.round(blockedMs) }, 'ending the process: its event loop is blocked');
      // No handler of a signal can run, and no code after an exit.
      process.kill(process.pid, 'SIGKILL');
    };
    void Promise.resolve(this.#acting).then(exit);
    setTimeout(exit, exitSlackMs);
  }

  #open(reopening: Reopening): Promise<Provider> {
    this.#store ??= reopen(reopening);
    return this.#store;
  }
}

/**
 * Loads the code of the stores when the first beat is over: once a lease is running out, there is no time for that. What
 * ends earlier, as many a test does, is spared it.
 */
function loadStores(): void {
  isLoaded = true;
  for (const { reopening } of workers.values()) {
    if (reopening !== undefined) load(reopening.module).catch(() => undefined);
  }
}

function load(module: string): Promise<Record<string, (options: object) => Promise<Provider>>> {
  return import(module) as Promise<Record<string, (options: object) => Promise<Provider>>>;
}

async function reopen({ module, exportName, options }: Reopening): Promise<Provider> {
  const loaded = await load(module);
  const open = loaded[exportName];
  if (open === undefined) throw new Error(`${module} has no ${exportName}.`);
  return open(options);
}

function leaseOf({ kind }: LoopHold, worker: WatchedWorker): number {
  return kind === 'turn' ? worker.orchestrationLeaseMs : worker.activityLeaseMs;
}

async function blockInstance(
  store: Provider,
  hold: LoopHold & { kind: 'turn' },
  { buildId }: WatchedWorker,
  description: string,
): Promise<boolean> {
  const { lockToken, fences } = hold;
  const blocked = { reason: `EVENT_LOOP_BLOCKED: ${description}`, buildId };
  const how = { delayMs: blockedDelayMs, giveBackClaim: true, evenIfExpired: true, blocked };
  if (lockToken !== undefined) {
    return (await store.abandonOrchestrationItems([{ lockToken, ...how }]))[0] === true;
  }
  if (fences === undefined) return false;
  return (await store.holdInstances([{ ...fences, delayMs: blockedDelayMs, blocked }]))[0] === true;
}

async function fail(
  store: Provider,
  hold: LoopHold & { kind: 'handler' },
  { name }: WatchedWorker,
  failure: object,
): Promise<boolean> {
  const { lockToken, startedAt, onFail } = hold;
  const outcome = {
    kind: 'failed',
    failure: JSON.stringify(failure),
    ran: { worker: name, startedAt },
    ...(onFail !== undefined && { onFail }),
  } as const;
  return (await store.ackWorkItems([{ lockToken, outcome }]))[0]?.ok === true;
}

/**
 * Asks the blocked thread what it runs. The inspector interrupts a loop for that; a call into native code answers when it
 * returns.
 */
function identify(found: (sighting: Sighting) => void): void {
  const session = new Session();
  try {
    session.connectToMainThread();
    const expression = `(() => {
      const describe = globalThis[Symbol.for(${JSON.stringify(describeProperty)})];
      return JSON.stringify({ ...JSON.parse(describe?.() ?? '{}'), stack: new Error('').stack });
    })()`;
    session.post('Runtime.evaluate', { expression, returnByValue: true }, (error, answer) => {
      session.disconnect();
      const text = (answer as { result?: { value?: unknown } } | undefined)?.result?.value;
      const { hold, stack, isDebugged } = (
        error === null && typeof text === 'string' ? JSON.parse(text) : {}
      ) as Partial<HoldDescription> & { stack?: string };
      found({ hold: hold ?? undefined, stack: trim(stack), isDebugged: isDebugged === true });
    });
  } catch {
    // A Node.js without an inspector: what blocks cannot be told, only that something does.
    found({ hold: undefined, stack: undefined, isDebugged: false });
  }
}

/** What the event loop runs at one moment. */
interface Sighting {
  readonly hold: LoopHold | undefined;
  readonly stack: string | undefined;
  readonly isDebugged: boolean;
}

/** The frames of the blocked code: those of the question itself are cut off. */
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
