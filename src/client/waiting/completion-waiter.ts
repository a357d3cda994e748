import { systemClock, type Clock } from '../../model/clock.ts';
import { ProviderError, notFound } from '../../model/failures/errors.ts';
import { isTerminal } from '../../model/status.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { InstanceRecord } from '../../providers/contract/instances.ts';
import type { CompletedOutput, Hint, Provider } from '../../providers/contract/provider.ts';
import { maxPageBytes } from '../reading/instance-list.ts';
import { RecentStarts } from './recent-starts.ts';
import { clientClosed, waitTimedOut, instanceReplaced } from './instance-errors.ts';

export interface CompletionWaiterParams {
  readonly provider: Provider;
  /** Times the timeouts of waits. */
  readonly clock: Clock;
  /** Times the polls without a hint. Not the injected clock: a skipped month would poll once per second of it. */
  readonly recheckClock?: Clock;
  /** Polling interval of waits without a hint. Default 1 s. */
  readonly recheckMs?: number | undefined;
  /** Describes what an instance waits for, for the error of a timed-out wait. Never rejects. */
  readonly describeWait?: (instanceId: string) => Promise<string | undefined>;
}

interface Waiter {
  readonly timeoutMs: number | undefined;
  readonly resolve: (record: InstanceRecord) => void;
  /** Set if only the output is needed: a hint that carries it saves the read. */
  readonly resolveOutput: ((output: Payload | null) => void) | undefined;
  readonly reject: (error: Error) => void;
  /** The incarnation that is waited for, once it is known. */
  incarnation: string | undefined;
  cancelTimer: (() => void) | undefined;
  timedOut: boolean;
}

/** The waits for one instance. */
interface Waits {
  /** Replaced by each change, emptied by the last: the map may keep its entries until the next full garbage collection. */
  list: readonly Waiter[];
}

const noWaits: readonly never[] = [];

/** A completed instance, without the rest of its row. */
export interface Completion {
  readonly status: 'completed';
  readonly output: Payload | null;
}

const defaultRecheckMs = 1_000;
// Limits reads after `missed` hints, which another busy process may cause every few milliseconds, to a third of the time:
// SQLite reads 1,000 rows in 6.5 ms.
const waitsReadPerMs = 50;
// A recheck reads slices with pauses, so that many waits do not block the event loop: 2,000 rows per second.
const recheckSlice = 100;
const recheckPauseMs = 50;

/**
 * Waits for instances to end, for all waits of a client, by hints and by reading rows.
 *
 * W1. A wait starts to listen, then reads its row, so it misses no end. It skips the read if the instance was created
 *     while the client listened.
 * W2. Hints may be lost: the rows of all waits are read again every second by default. With n > 2,000 waits, every
 *     n/2,000 seconds.
 * W3. A wait that has timed out reads its row once more, so a lost hint is not reported as a timeout.
 * W4. Without waits there is no listener and no timer.
 * W5. A wait is for one incarnation of an id: it rejects when that is deleted, even if the id is reused.
 */
export class CompletionWaiter {
  /** Instances that this client creates. */
  readonly recentStarts: RecentStarts;
  readonly #provider: Provider;
  readonly #clock: Clock;
  readonly #recheckClock: Clock;
  readonly #recheckMs: number;
  readonly #describeWait: CompletionWaiterParams['describeWait'];
  readonly #reader: InstanceReader;
  readonly #waiters = new Map<string, Waits>();
  #closed = false;
  #stopListening: (() => void) | undefined;
  #cancelRecheck: (() => void) | undefined;
  #nextReadAt = Number.NEGATIVE_INFINITY;
  #cancelDelayedRead: (() => void) | undefined;

  constructor(params: CompletionWaiterParams) {
    const { provider, clock, recheckClock = systemClock, recheckMs = defaultRecheckMs } = params;
    this.#provider = provider;
    this.#clock = clock;
    this.#recheckClock = recheckClock;
    this.#recheckMs = recheckMs;
    this.#describeWait = params.describeWait;
    this.recentStarts = new RecentStarts({
      onFirst: () => this.#listen(),
      onNoneLeft: () => this.#stopIfIdle(),
    });
    this.#reader = new InstanceReader({
      provider,
      onRecord: (instanceId, record) => this.#onRecord(instanceId, record),
      onError: (instanceId, error) => this.#onError(instanceId, error),
      isWanted: (instanceId) => this.#waiters.has(instanceId),
    });
  }

  /** Resolves with the row of an instance once it has ended. Rejects with the reason of the signal if that aborts first. */
  async wait(
    instanceId: string,
    timeoutMs?: number,
    signal?: AbortSignal,
  ): Promise<InstanceRecord> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<InstanceRecord>();
    const waiter = this.#begin(instanceId, {
      timeoutMs,
      resolve,
      resolveOutput: undefined,
      reject,
    });
    return this.#untilAborted({ instanceId, waiter, promise, signal });
  }

  /**
   * Resolves once one incarnation of an id has ended, with its output alone if it completed. Rejects with
   * `INSTANCE_NOT_FOUND` if that incarnation was deleted.
   */
  async waitForIncarnation(
    { instanceId, incarnation }: { readonly instanceId: string; readonly incarnation: string },
    signal: AbortSignal,
  ): Promise<InstanceRecord | Completion> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<InstanceRecord | Completion>();
    const resolveOutput = (output: Payload | null): void =>
      resolve({ status: 'completed', output });
    const wait = { timeoutMs: undefined, resolve, resolveOutput, reject };
    const waiter = this.#begin(instanceId, wait, incarnation);
    return this.#untilAborted({ instanceId, waiter, promise, signal });
  }

  async #untilAborted<Value>(wait: {
    readonly instanceId: string;
    readonly waiter: Waiter | undefined;
    readonly promise: Promise<Value>;
    readonly signal: AbortSignal | undefined;
  }): Promise<Value> {
    const { instanceId, waiter, promise, signal } = wait;
    if (signal === undefined || waiter === undefined) return promise;
    const giveUp = (): void => {
      waiter.cancelTimer?.();
      this.#remove(instanceId, waiter);
      this.#stopIfIdle();
      waiter.reject(signal.reason as Error);
    };
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  /** Resolves with the row of an instance once it has ended, or with its output alone if it completed. */
  waitForOutput(instanceId: string, timeoutMs?: number): Promise<InstanceRecord | Completion> {
    return new Promise((resolve, reject) => {
      const resolveOutput = (output: Payload | null): void =>
        resolve({ status: 'completed', output });
      this.#begin(instanceId, { timeoutMs, resolve, resolveOutput, reject });
    });
  }

  #begin(
    instanceId: string,
    wait: Omit<Waiter, 'incarnation' | 'cancelTimer' | 'timedOut'>,
    life?: string,
  ): Waiter | undefined {
    if (this.#closed) {
      wait.reject(clientClosed());
      return undefined;
    }
    const born = this.recentStarts.liveIncarnation(instanceId);
    const incarnation = life ?? born;
    const waiter: Waiter = { ...wait, incarnation, cancelTimer: undefined, timedOut: false };
    this.#add(instanceId, waiter);
    this.#listen();
    this.#cancelRecheck ??= this.#setRecheck();
    if (wait.timeoutMs !== undefined) waiter.cancelTimer = this.#setTimeout(instanceId, waiter);
    if (born === undefined || born !== incarnation) this.#reader.request(instanceId);
    return waiter;
  }

  /** Rejects all current and later waits with `CLOSED`. */
  close(): void {
    this.#closed = true;
    for (const instanceId of this.#waiters.keys()) {
      this.#end(instanceId, ({ reject }) => reject(clientClosed()));
    }
    this.#stopIfIdle();
  }

  #listen(): void {
    // A start that was called before `close` may get here after it.
    if (this.#closed) return;
    this.#stopListening ??= this.#provider.hints((hint) => this.#onHint(hint));
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'missed') this.#readAllWaiting();
    if (hint.kind !== 'finished') return;
    this.recentStarts.markEnded(hint.instanceIds);
    for (const [instanceId, completed] of hint.outputs ?? []) this.#onOutput(instanceId, completed);
    this.#readWaiting(hint.instanceIds);
  }

  /** Resolves the waits that need only the output. */
  #onOutput(instanceId: string, { incarnation, output }: CompletedOutput): void {
    for (const waiter of this.#waitsFor(instanceId)) {
      if (waiter.resolveOutput === undefined) continue;
      if ((waiter.incarnation ?? incarnation) !== incarnation) continue;
      this.#remove(instanceId, waiter);
      waiter.cancelTimer?.();
      waiter.resolveOutput(output);
    }
    this.#stopIfIdle();
  }

  /** Reads the rows of all waits, throttled to `waitsReadPerMs`. */
  #readAllWaiting(): void {
    const nowMs = this.#recheckClock.monotonic();
    if (nowMs < this.#nextReadAt) {
      this.#cancelDelayedRead ??= this.#recheckClock.setTimer(this.#nextReadAt - nowMs, () => {
        this.#cancelDelayedRead = undefined;
        this.#readAllWaiting();
      });
      return;
    }
    this.#nextReadAt = nowMs + Math.floor(this.#waiters.size / waitsReadPerMs);
    this.#readWaiting(this.#waiters.keys());
  }

  #readWaiting(instanceIds: Iterable<string>): void {
    for (const instanceId of instanceIds) {
      if (this.#waiters.has(instanceId)) this.#reader.request(instanceId);
    }
  }

  #onRecord(instanceId: string, record: InstanceRecord | undefined): void {
    if (record === undefined) {
      this.#end(instanceId, ({ reject }) => reject(notFound(instanceId)));
      return;
    }
    this.#endReplaced(record);
    if (isTerminal(record.status)) {
      this.#end(instanceId, ({ resolve }) => resolve(record));
    } else {
      this.#endTimedOut(instanceId);
    }
  }

  /** Rejects the waits for an earlier incarnation of the id. */
  #endReplaced({ instanceId, incarnation }: InstanceRecord): void {
    for (const waiter of this.#waitsFor(instanceId)) {
      waiter.incarnation ??= incarnation;
      if (waiter.incarnation === incarnation) continue;
      waiter.cancelTimer?.();
      this.#remove(instanceId, waiter);
      waiter.reject(instanceReplaced(instanceId));
    }
    this.#stopIfIdle();
  }

  // The next recheck retries a retryable error, until the timeout of the wait.
  #onError(instanceId: string, error: Error): void {
    if (error instanceof ProviderError && error.retryable) this.#endTimedOut(instanceId, error);
    else this.#end(instanceId, ({ reject }) => reject(error));
  }

  #setRecheck(delayMs = this.#recheckMs): () => void {
    const begunAtMs = this.#recheckClock.monotonic() + delayMs;
    return this.#recheckClock.setTimer(delayMs, () =>
      this.#recheck(begunAtMs, this.#waiters.keys()),
    );
  }

  /** Reads the next slice of a recheck that began at `begunAtMs`; after the last slice, schedules the next recheck. */
  #recheck(begunAtMs: number, round: Iterator<string>): void {
    const slice: string[] = [];
    while (slice.length < recheckSlice) {
      const { value, done } = round.next();
      if (done === true) break;
      slice.push(value);
    }
    this.#readWaiting(slice);
    const passedMs = this.#recheckClock.monotonic() - begunAtMs;
    this.#cancelRecheck =
      slice.length < recheckSlice
        ? this.#setRecheck(Math.max(recheckPauseMs, this.#recheckMs - passedMs))
        : this.#recheckClock.setTimer(recheckPauseMs, () => this.#recheck(begunAtMs, round));
  }

  #setTimeout(instanceId: string, waiter: Waiter): () => void {
    return this.#clock.setTimer(waiter.timeoutMs ?? 0, () => {
      waiter.timedOut = true;
      this.#reader.request(instanceId);
    });
  }

  #add(instanceId: string, waiter: Waiter): void {
    const waits = this.#waiters.get(instanceId);
    if (waits === undefined) this.#waiters.set(instanceId, { list: [waiter] });
    else waits.list = [...waits.list, waiter];
  }

  #waitsFor(instanceId: string): readonly Waiter[] {
    return this.#waiters.get(instanceId)?.list ?? noWaits;
  }

  #endTimedOut(instanceId: string, cause?: Error): void {
    for (const waiter of this.#waitsFor(instanceId)) {
      if (!waiter.timedOut) continue;
      this.#remove(instanceId, waiter);
      void this.#rejectTimedOut(instanceId, waiter, cause);
    }
    this.#stopIfIdle();
  }

  async #rejectTimedOut(instanceId: string, waiter: Waiter, cause?: Error): Promise<void> {
    const waitsFor = cause === undefined ? await this.#describeWait?.(instanceId) : undefined;
    waiter.reject(waitTimedOut(instanceId, waiter.timeoutMs ?? 0, { cause, waitsFor }));
  }

  #end(instanceId: string, settle: (waiter: Waiter) => void): void {
    const waits = this.#waiters.get(instanceId);
    if (waits === undefined) return;
    this.#waiters.delete(instanceId);
    const { list } = waits;
    waits.list = noWaits;
    for (const waiter of list) {
      waiter.cancelTimer?.();
      settle(waiter);
    }
    this.#stopIfIdle();
  }

  #remove(instanceId: string, waiter: Waiter): void {
    const waits = this.#waiters.get(instanceId);
    if (waits === undefined) return;
    const isOnly = waits.list.length === 1 && waits.list[0] === waiter;
    waits.list = isOnly ? noWaits : waits.list.filter((one) => one !== waiter);
    if (waits.list.length === 0) this.#waiters.delete(instanceId);
  }

  /** Stops timers and the listener if they are not needed. */
  #stopIfIdle(): void {
    if (this.#waiters.size > 0) return;
    this.#cancelRecheck?.();
    this.#cancelRecheck = undefined;
    this.#cancelDelayedRead?.();
    this.#cancelDelayedRead = undefined;
    if (this.recentStarts.size > 0 && !this.#closed) return;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }
}

const maxBatch = 1_000;
// A small batch is read without a size limit: measuring costs more than it saves.
const fewRows = 4;

export interface InstanceReaderParams {
  readonly provider: Provider;
  readonly onRecord: (instanceId: string, record: InstanceRecord | undefined) => void;
  readonly onError: (instanceId: string, error: Error) => void;
  /** Whether a wait still needs the row. */
  readonly isWanted: (instanceId: string) => boolean;
}

/**
 * Reads rows, at most 1,000 and about 8 MiB at a time. Reads never overlap: requests during a read share the next one,
 * so a burst of hints costs two reads.
 */
export class InstanceReader {
  readonly #params: InstanceReaderParams;
  readonly #due = new Set<string>();
  #reading = false;

  constructor(params: InstanceReaderParams) {
    this.#params = params;
  }

  /** Schedules a read of a row that begins after this call, even if a read of it is running. */
  request(instanceId: string): void {
    this.#due.add(instanceId);
    if (this.#reading) return;
    this.#reading = true;
    // Waits that begin in the same microtask share a read.
    queueMicrotask(() => void this.#readAll());
  }

  async #readAll(): Promise<void> {
    while (this.#due.size > 0) await this.#read(this.#takeBatch());
    this.#reading = false;
  }

  #takeBatch(): readonly string[] {
    const batch: string[] = [];
    for (const instanceId of this.#due) {
      if (batch.length === maxBatch) break;
      if (this.#params.isWanted(instanceId)) batch.push(instanceId);
      this.#due.delete(instanceId);
    }
    return batch;
  }

  async #read(instanceIds: readonly string[]): Promise<void> {
    const { provider, onRecord, onError } = this.#params;
    if (instanceIds.length === 0) return;
    try {
      const hasFew = instanceIds.length <= fewRows;
      const records = await (hasFew
        ? provider.getInstances(instanceIds)
        : provider.getInstances(instanceIds, maxPageBytes));
      const count = hasFew ? instanceIds.length : Math.max(1, records.length);
      // Rows beyond the size limit are read next.
      for (const instanceId of instanceIds.slice(count)) this.#due.add(instanceId);
      for (const [index, instanceId] of instanceIds.slice(0, count).entries()) {
        onRecord(instanceId, records[index]);
      }
    } catch (error) {
      for (const instanceId of instanceIds) onError(instanceId, error as Error);
    }
  }
}
