import { isMainThread, Worker as Thread } from 'node:worker_threads';
import { systemClock, type Clock } from '../../model/clock.ts';
import { platform } from '../../model/platform.ts';
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

/** Running time of the watchdog in milliseconds, modulo 2^32; `undefined` in a process without one. */
export function watchdogMs(): number | undefined {
  return thread === undefined ? platform.awake() : Atomics.load(awake, 0);
}

/**
 * Whether the process was suspended, and so ran for less than the lease since `begunMs`. The watchdog did not run then
 * either. Tolerates a quarter of the lease, because the watchdog counts whole intervals and may still be starting.
 */
export function wasStopped(begunMs: number | undefined, leaseMs: number): boolean {
  const nowMs = watchdogMs();
  if (begunMs === undefined || nowMs === undefined) return false;
  return ((nowMs - begunMs) | 0) < leaseMs * 0.75;
}

/**
 * Registers a worker with the watchdog, one thread per process. It detects a blocked event loop, logs the cause, and acts
 * for the worker in the store. While the loop is not blocked, it costs one ping per second.
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
    // With an injected clock, leases are unrelated to the real run time of code.
    // The inspector session reaches only the main thread.
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
    // A bundle runs without the watchdog.
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
        options.logger.warn(
          { error },
          'watchdog thread failed, blocked event loops are not detected',
        ),
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

/** Reports a blocked period to loggers and hooks after it has ended. */
function report({ blockedMs, hold, stack, action }: Blockage): void {
  const entries =
    hold?.watchdogId === undefined ? [...registered.values()] : [registered.get(hold.watchdogId)];
  for (const entry of entries) {
    if (entry === undefined) continue;
    const { logger, hooks } = entry.options;
    const fields = { blockedMs, what: hold?.what, instanceId: hold?.instanceId, action, stack };
    reportSafely(logger, () => logger.warn(fields, 'event loop was blocked'));
    if (hold?.kind !== 'turn' || action !== 'blocked') continue;
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

/** Whether the inspector listens for a debugger. A breakpoint blocks the event loop for any time. */
export function isDebugged(): boolean {
  try {
    return process.getBuiltinModule('node:inspector').url() !== undefined;
  } catch {
    // Node.js was built without an inspector.
    return false;
  }
}
