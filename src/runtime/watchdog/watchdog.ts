import { isMainThread, Worker as Thread } from 'node:worker_threads';
import { systemClock, type Clock } from '../../model/clock.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { reportSafely } from '../maintenance/reports.ts';
import type { ResolvedOptions } from '../options.ts';
import { findThreadModule } from '../thread-module.ts';
import { describeHold } from './loop-holder.ts';
import {
  describeProperty,
  type Blockage,
  type FromWatchdog,
  type HoldDescription,
  type ToWatchdog,
  type WatchedWorker,
} from './watchdog-messages.ts';

interface Entry {
  readonly worker: WatchedWorker;
  readonly options: ResolvedOptions;
}

const registered = new Map<number, Entry>();
let lastId = 0;
let thread: Thread | undefined;
const awake = new Int32Array(new SharedArrayBuffer(4));

/** For how many milliseconds the watchdog has been running, modulo 2^32; 0 before it does. */
export function watchdogMs(): number {
  return thread === undefined ? 0 : Atomics.load(awake, 0);
}

/**
 * Whether the process was stopped for the most of a time that began at `begunMs` of the watchdog: by a signal, or with its
 * machine. Then the watchdog did not run either.
 */
export function wasStopped(begunMs: number, leaseMs: number): boolean {
  return begunMs !== 0 && ((watchdogMs() - begunMs) | 0) < leaseMs / 2;
}

/**
 * A worker's place with the watchdog: a thread, one per process, that notices when the event loop is blocked, logs what
 * blocks it, and acts for the worker in the store. While nothing is blocked it costs one message to and fro per second.
 */
export class WatchdogRegistration {
  readonly id = ++lastId;
  readonly #entry: Entry;
  readonly #isReal: boolean;

  constructor(params: {
    readonly provider: Provider;
    readonly clock: Clock;
    readonly options: ResolvedOptions;
  }) {
    const { provider, clock, options } = params;
    const { name, buildId, orchestrationLeaseMs, activityLeaseMs, exitWhenBlockedMs } = options;
    // With a clock of its own, as in tests, a lease has nothing to do with how long code really takes.
    // The inspector session reaches the main thread alone.
    this.#isReal = isMainThread && (clock === systemClock || clock === provider.clock);
    const worker: WatchedWorker = {
      id: this.id,
      name,
      buildId,
      orchestrationLeaseMs,
      activityLeaseMs,
      reopening: provider.reopening,
      exitAfterMs: exitWhenBlockedMs,
    };
    this.#entry = { worker, options };
  }

  start(): void {
    if (!this.#isReal) return;
    const module = findThreadModule('watchdog/watchdog-thread');
    // A bundle does without the watchdog.
    if (module === undefined) return;
    registered.set(this.id, this.#entry);
    thread ??= startThread(module);
    send({ kind: 'watch', worker: this.#entry.worker });
  }

  stop(): void {
    if (registered.delete(this.id)) send({ kind: 'unwatch', id: this.id });
  }
}

function send(message: ToWatchdog): void {
  thread?.postMessage(message, []);
}

function startThread(module: URL): Thread {
  Object.defineProperty(globalThis, Symbol.for(describeProperty), {
    value: () => JSON.stringify(describeBlockedLoop()),
    configurable: true,
  });
  const started = new Thread(module, { name: 'perdure-watchdog', workerData: awake });
  started.on('message', (message: FromWatchdog) => {
    if (message.kind === 'ping') send({ kind: 'pong' });
    else report(message);
  });
  started.on('error', (error) => {
    for (const { options } of registered.values()) {
      reportSafely(options.logger, () =>
        options.logger.warn({ error }, 'the watchdog of the event loop has ended'),
      );
    }
  });
  started.on('exit', () => {
    if (thread === started) thread = undefined;
  });
  started.unref();
  return started;
}

function describeBlockedLoop(): HoldDescription {
  return { hold: describeHold() ?? null, isDebugged: isDebugged() };
}

/** Tells the loggers and hooks what they could not be told while it lasted. */
function report({ blockedMs, hold, stack, action }: Blockage): void {
  const entries =
    hold?.watchdogId === undefined ? [...registered.values()] : [registered.get(hold.watchdogId)];
  for (const entry of entries) {
    if (entry === undefined) continue;
    const { logger, hooks } = entry.options;
    const fields = { blockedMs, what: hold?.what, instanceId: hold?.instanceId, action, stack };
    reportSafely(logger, () => logger.warn(fields, 'the event loop was blocked'));
    if (hold?.kind !== 'turn' || action !== 'heldBack') continue;
    reportSafely(logger, () =>
      hooks.instanceBlocked?.({
        instanceId: hold.instanceId,
        orchestration: hold.orchestration ?? '',
        reason: 'EVENT_LOOP_BLOCKED',
        retryInMs: Infinity,
      }),
    );
  }
}

/** Whether the inspector listens for a debugger. A breakpoint stops the event loop for as long as a person looks at it. */
export function isDebugged(): boolean {
  try {
    return process.getBuiltinModule('node:inspector').url() !== undefined;
  } catch {
    // A Node.js without an inspector.
    return false;
  }
}
