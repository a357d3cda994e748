import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../model/clock.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { Hint } from '../../providers/contract/provider.ts';
import type { StreamStore } from '../../providers/contract/streams.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import { withRetries } from '../maintenance/provider-retry.ts';
import type { ResolvedOptions } from '../options.ts';
import type { RunningActivityContext } from './running-context.ts';

export interface EmitterParams {
  readonly item: WorkItem;
  readonly context: Pick<RunningActivityContext, 'signal' | 'throwIfCanceled'>;
  readonly store: StreamStore;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly backpressure: StreamBackpressure;
  /** Asks the store what became of the claim, and tells the handler. */
  readonly renewNow: () => Promise<void>;
}

interface Emitted {
  readonly payload: Payload;
  readonly resolve: (isRead: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** What may wait for the reader of a stream. */
const limits = { maxChunks: 256, maxBytes: 4 * 1024 * 1024 };

// What a handler emits without waiting shares a call to the store, up to here.
const maxBatchChunks = 64;
const maxBatchLength = 1024 * 1024;

const firstWaitMs = 50;
const maxWaitMs = 1_000;

/** Brings the chunks of one handler to the store, in order; while the stream is full they wait here. */
export class Emitter {
  readonly #params: EmitterParams;
  #queue: Emitted[] = [];
  #isPumping = false;
  #wasRead = false;
  #isUnread = false;

  constructor(params: EmitterParams) {
    this.#params = params;
  }

  /** Resolves once the chunk is stored, with `false` when nobody will read it. */
  emit(payload: Payload): Promise<boolean> {
    if (this.#isUnread) return this.#resolveUnread();
    const emitted = new Promise<boolean>((resolve, reject) => {
      this.#queue.push({ payload, resolve, reject });
    });
    if (!this.#isPumping) void this.#pump();
    return emitted;
  }

  // A handler that emits on and on would keep its cancel, and everything else, from being heard.
  async #resolveUnread(): Promise<boolean> {
    await nextTurn();
    this.#params.context.throwIfCanceled();
    return false;
  }

  async #pump(): Promise<void> {
    this.#isPumping = true;
    try {
      while (this.#queue.length > 0) await this.#sendSome();
    } catch (error) {
      for (const { reject } of this.#queue.splice(0)) reject(error);
    }
    this.#isPumping = false;
  }

  /** Stores the next chunks, all that were emitted so far if they fit, else one. */
  async #sendSome(): Promise<void> {
    const { context, renewNow } = this.#params;
    const sent = (await this.#trySend(this.#batchSize())) ?? (await this.#sendOne());
    if (sent === 'appended') return;
    // Of a claim that is lost, or a caller that has gone meanwhile, the renewal tells why.
    if (sent === 'lost' || this.#wasRead) {
      await renewNow();
      context.throwIfCanceled();
    }
    this.#isUnread = true;
    for (const { resolve } of this.#queue.splice(0)) resolve(false);
  }

  #batchSize(): number {
    let length = 0;
    const next = this.#queue.slice(0, maxBatchChunks);
    const tooMany = next.findIndex(({ payload }) => (length += payload.length) > maxBatchLength);
    return tooMany === -1 ? next.length : Math.max(tooMany, 1);
  }

  async #sendOne(): Promise<Sent> {
    const { context, item, backpressure: room } = this.#params;
    for (let waitMs = firstWaitMs; ; waitMs = Math.min(2 * waitMs, maxWaitMs)) {
      const sent = await this.#trySend(1);
      if (sent !== undefined) return sent;
      await room.wait(item.instanceId, waitMs, context.signal);
    }
  }

  /** Stores at most so many chunks; `undefined` when they do not fit. */
  async #trySend(most: number): Promise<Sent | undefined> {
    const { item, context, store, clock, options } = this.#params;
    context.throwIfCanceled();
    const some = this.#queue.slice(0, most);
    const { lockToken } = item;
    const request = { lockToken, chunks: some.map(({ payload }) => payload), ...limits };
    const retry = {
      clock,
      logger: options.logger,
      deadline: clock.monotonic() + options.activityLeaseMs,
    };
    const [result = 'lost'] = await withRetries(retry, () => store.appendChunks([request]));
    if (result === 'full') return undefined;
    if (result === 'appended') {
      this.#wasRead = true;
      this.#queue = this.#queue.slice(some.length);
      for (const { resolve } of some) resolve(true);
    }
    return result;
  }
}

type Sent = 'appended' | 'unread' | 'lost';

/** Lets handlers wait until the reader of their stream has read on. */
export class StreamBackpressure {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the stream of a run may have room, after a time at the latest, or when the signal aborts. */
  wait(instanceId: string, ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(instanceId) ?? new Set();
      const wake = (): void => {
        waiting.delete(wake);
        if (waiting.size === 0) this.#waiting.delete(instanceId);
        cancelAlarm();
        signal.removeEventListener('abort', wake);
        resolve();
      };
      const cancelAlarm = this.#clock.setTimer(ms, wake);
      signal.addEventListener('abort', wake, { once: true });
      waiting.add(wake);
      this.#waiting.set(instanceId, waiting);
    });
  }

  onHint(hint: Hint): void {
    if (this.#waiting.size === 0) return;
    if (hint.kind === 'emitted') for (const id of hint.instanceIds) this.#wake(id);
    if (hint.kind === 'changed') for (const id of this.#waiting.keys()) this.#wake(id);
  }

  #wake(instanceId: string): void {
    for (const wake of this.#waiting.get(instanceId) ?? []) wake();
  }
}
