import type { Clock } from '../../model/clock.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { encodeChunkSource } from '../../model/values/chunk-source.ts';
import type { Payload } from '../../model/values/payload.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type { Hint } from '../../providers/contract/provider.ts';
import type { AppendResult, StreamStore } from '../../providers/contract/streams.ts';
import { withRetries } from '../maintenance/provider-retry.ts';
import { reportSafely } from '../maintenance/reports.ts';
import type { ResolvedOptions } from '../options.ts';
import { nextIteration } from '../../model/platform.ts';

/** The work item of a handler, or a step with the claim on its instance. */
interface EmittingClaim {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly operation: number;
  /** The number of failed attempts. */
  readonly failures: number;
  readonly lockToken: string;
}

export interface EmitterParams {
  readonly item: EmittingClaim;
  /** What the token of `item` has claimed. Default: a work item. */
  readonly claim?: 'instance';
  readonly context: { readonly signal: AbortSignal; throwIfCanceled(): void };
  readonly store: StreamStore;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly backpressure: StreamBackpressure;
  /** Renews the claim now and delivers a cancel or a lost lease to the handler. */
  readonly renewNow: () => Promise<void>;
}

interface Emitted {
  readonly payload: Payload;
  readonly resolve: (isRead: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** Maximum unread chunks of a stream. */
const limits = { maxChunks: 256, maxBytes: 4 * 1024 * 1024 };

// Chunks that a handler emits without awaiting share one store call, up to these limits.
const maxBatchChunks = 64;
const maxBatchLength = 1024 * 1024;

// Unstored chunks of a handler that does not await its emits, with 64 bytes for each. Beyond that, `emit` rejects.
const maxQueuedBytes = 16 * 1024 * 1024;
const queuedBytes = ({ length }: Payload): number => 2 * length + 64;

const firstWaitMs = 50;
const maxWaitMs = 1_000;

/**
 * Stores the chunks of one handler or step in order: in the recorded stream of its run, or in the stream of its job. Chunks wait
 * here while the stream of a job is full.
 */
export class Emitter {
  readonly #params: EmitterParams;
  #queue: Emitted[] = [];
  #isPumping = false;
  /** Whether the stream took a chunk before, so a reader existed. */
  #hasStored = false;
  #isReaderGone = false;
  readonly #source: string;
  /** Bytes of the queue. */
  #queued = 0;
  /** The number of chunks stored. */
  #stored = 0;
  /** Set while the stream of a job is full. */
  #isFull = false;
  #hasOverflowed = false;
  #onIdle: (() => void)[] = [];

  constructor(params: EmitterParams) {
    this.#params = params;
    const { executionId, name, operation, failures } = params.item;
    const handler = { name, operation, attempt: failures + 1, runId: randomToken().slice(0, 10) };
    this.#source = encodeChunkSource({ executionId, handler });
  }

  /** Resolves with `true` once the chunk is stored, or `false` if it has no reader. */
  emit(payload: Payload): Promise<boolean> {
    if (this.#isReaderGone) return this.#resolveWithoutReader();
    if (this.#queue.length > 0 && this.#queued + queuedBytes(payload) > maxQueuedBytes)
      return this.#rejectOverflow();
    this.#queued += queuedBytes(payload);
    const emitted = new Promise<boolean>((resolve, reject) => {
      this.#queue.push({ payload, resolve, reject });
    });
    if (!this.#isPumping) void this.#pump();
    return emitted;
  }

  /** Resolves once all chunks are stored, or cannot be: the handler has ended without awaiting them. */
  drain(): Promise<void> {
    if (!this.#isPumping || this.#isFull) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  async #rejectOverflow(): Promise<boolean> {
    const { instanceId, name } = this.#params.item;
    const { logger } = this.#params.options;
    if (!this.#hasOverflowed) {
      this.#hasOverflowed = true;
      reportSafely(logger, () =>
        logger.warn({ instanceId, handler: name }, 'handler does not await emit, chunks are lost'),
      );
    }
    throw new PerdureError(
      'STREAM_OVERFLOW',
      `${JSON.stringify(name)} has emitted more than ${maxQueuedBytes} bytes of chunks that are not stored yet. Await emit().`,
    );
  }

  // Yields to the event loop: a handler that emits in a loop would otherwise block its own cancel.
  async #resolveWithoutReader(): Promise<boolean> {
    await nextIteration();
    this.#params.context.throwIfCanceled();
    return false;
  }

  async #pump(): Promise<void> {
    this.#isPumping = true;
    try {
      while (this.#queue.length > 0) await this.#sendSome();
    } catch (error) {
      for (const { reject } of this.#takeQueue()) reject(error);
    }
    this.#isPumping = false;
    this.#wakeIdle();
  }

  #takeQueue(): readonly Emitted[] {
    this.#queued = 0;
    return this.#queue.splice(0);
  }

  #wakeIdle(): void {
    for (const wake of this.#onIdle.splice(0)) wake();
  }

  /** Stores a batch of the queued chunks, or a single one if the batch does not fit. */
  async #sendSome(): Promise<void> {
    const { context, renewNow } = this.#params;
    const sent = (await this.#trySend(this.#batchSize())) ?? (await this.#sendOne());
    if (sent === 'appended' || sent === 'recorded') return;
    // The renewal reports why the claim was lost or the caller disappeared.
    if (sent === 'lost' || this.#hasStored) {
      await renewNow();
      context.throwIfCanceled();
    }
    this.#isReaderGone = true;
    for (const { resolve } of this.#takeQueue()) resolve(false);
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
      this.#isFull = sent === undefined;
      if (sent !== undefined) return sent;
      this.#wakeIdle();
      await room.wait(item.instanceId, waitMs, context.signal);
    }
  }

  /** Stores at most `most` chunks. Returns `undefined` if they do not fit. */
  async #trySend(most: number): Promise<Sent | undefined> {
    const { item, claim, context, store, clock, options } = this.#params;
    context.throwIfCanceled();
    const some = this.#queue.slice(0, most);
    const { instanceId, lockToken } = item;
    const record = {
      source: this.#source,
      firstPlace: this.#stored + 1,
      maxBytes: options.streamLimitBytes,
    };
    const chunks = some.map(({ payload }) => payload);
    const request = { instanceId, lockToken, ...(claim && { claim }), chunks, ...limits };
    let isRepeated = false;
    const retry = {
      clock,
      logger: options.logger,
      deadline:
        clock.monotonic() +
        (claim === 'instance' ? options.orchestrationLeaseMs : options.activityLeaseMs),
    };
    const [result = 'lost'] = await withRetries(retry, () => {
      const call = { ...request, record: { ...record, isRepeated } };
      // The outcome of a failed call may be unknown.
      isRepeated = true;
      return store.appendChunks([call]);
    });
    if (result === 'full') return undefined;
    if (result === 'appended' || result === 'recorded') {
      this.#hasStored = true;
      this.#stored += some.length;
      for (const { payload } of some) this.#queued -= queuedBytes(payload);
      this.#queue = this.#queue.slice(some.length);
      for (const { resolve } of some) resolve(true);
    }
    return result;
  }
}

type Sent = Exclude<AppendResult, 'full'>;

/** Lets handlers wait until the reader of their stream has consumed chunks. */
export class StreamBackpressure {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the stream may have capacity, after `ms` at the latest, or when the signal aborts. */
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
