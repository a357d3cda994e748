import { systemClock, type Clock } from '../../model/clock.ts';
import { ProviderError } from '../../model/failures/errors.ts';
import { notFound } from '../../model/failures/not-found.ts';
import { isTerminal } from '../../model/status.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { InstanceRecord } from '../../providers/contract/instances.ts';
import type { CompletedOutput, Hint, Provider } from '../../providers/contract/provider.ts';
import { maxPageBytes } from '../reading/instance-list.ts';
import { RecentStarts } from './recent-starts.ts';
import { clientClosed, waitTimedOut, instanceReplaced } from './instance-errors.ts';

export interface CompletionWaiterParams {
  readonly provider: Provider;
  /** Decides when a wait has timed out. */
  readonly clock: Clock;
  /** Decides when to read without a hint: not the injected clock, which may skip a month and would read for each second of it. */
  readonly recheckClock?: Clock;
  /** How often waits read their rows when no hint comes. Default 1 s. */
  readonly recheckMs?: number | undefined;
  /** Describes what an instance waits for, for the error of a timed-out wait. Never rejects. */
  readonly describeWait?: (instanceId: string) => Promise<string | undefined>;
}

interface Waiter {
  readonly timeoutMs: number | undefined;
  readonly resolve: (record: InstanceRecord) => void;
  /** Where the output is all that is asked for: a hint that brings it saves the read. */
  readonly resolveOutput: ((output: Payload | null) => void) | undefined;
  readonly reject: (error: Error) => void;
  /** The life of the id that is waited for, once it is known. */
  incarnation: string | undefined;
  cancelAlarm: (() => void) | undefined;
  timedOut: boolean;
}

/** The end of a completed instance, without the rest of its row. */
export interface Completion {
  readonly status: 'completed';
  readonly output: Payload | null;
}

const defaultRecheckMs = 1_000;
// Reading 1,000 rows of SQLite takes 6.5 ms, and a busy process next door makes a hint every 5: at most a third of
// the time goes into reading them again.
const waitsSweptPerMs = 50;
// A recheck reads its rows in slices with pauses, so that many waits never hold up the process: 2,000 rows a second.
const recheckSlice = 100;
const recheckPauseMs = 50;

/**
 * Waits for instances to be over, all waits of a client together, by hints and never by reading history.
 *
 * W1. A wait reads its row once it listens, so an end just before is not missed; unless the instance was born
 *     while we listened, because then an end would have been heard.
 * W2. Hints may all be lost: the rows of all waits are read again every second (by default), or every n/2,000
 *     seconds where n waits are more than 2,000.
 * W3. A wait that has timed out reads its row once more, so a lost hint is not reported as a timeout.
 * W4. When nobody waits, no listener and no timer is left.
 * W5. A wait is for one life of an id: when that is deleted it ends, though the id may be in use again.
 */
export class CompletionWaiter {
  /** Instances that are being created here. */
  readonly recentStarts: RecentStarts;
  readonly #provider: Provider;
  readonly #clock: Clock;
  readonly #recheckClock: Clock;
  readonly #recheckMs: number;
  readonly #describeWait: CompletionWaiterParams['describeWait'];
  readonly #reader: InstanceReader;
  readonly #waiters = new Map<string, Set<Waiter>>();
  #closed = false;
  #stopListening: (() => void) | undefined;
  #cancelRecheck: (() => void) | undefined;
  #nextSweepAt = Number.NEGATIVE_INFINITY;
  #cancelSweep: (() => void) | undefined;

  constructor(params: CompletionWaiterParams) {
    const { provider, clock, recheckClock = systemClock, recheckMs = defaultRecheckMs } = params;
    this.#provider = provider;
    this.#clock = clock;
    this.#recheckClock = recheckClock;
    this.#recheckMs = recheckMs;
    this.#describeWait = params.describeWait;
    this.recentStarts = new RecentStarts({
      onFirst: () => this.#listen(),
      onNoneLeft: () => this.#rest(),
    });
    this.#reader = new InstanceReader({
      provider,
      onRecord: (instanceId, record) => this.#onRecord(instanceId, record),
      onError: (instanceId, error) => this.#onError(instanceId, error),
      isWanted: (instanceId) => this.#waiters.has(instanceId),
    });
  }

  /** Resolves with the row of an instance once it is over; rejects with the reason of the signal when that aborts first. */
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
   * Resolves once one life of an id is over, with its output alone if it completed; rejects with `INSTANCE_NOT_FOUND`
   * when that is no more, whoever has the id now.
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
      waiter.cancelAlarm?.();
      this.#remove(instanceId, waiter);
      this.#rest();
      waiter.reject(signal.reason as Error);
    };
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  /** Resolves with the row of an instance once it is over, or with its output alone if it completed. */
  waitForOutput(instanceId: string, timeoutMs?: number): Promise<InstanceRecord | Completion> {
    return new Promise((resolve, reject) => {
      const resolveOutput = (output: Payload | null): void =>
        resolve({ status: 'completed', output });
      this.#begin(instanceId, { timeoutMs, resolve, resolveOutput, reject });
    });
  }

  #begin(
    instanceId: string,
    wait: Omit<Waiter, 'incarnation' | 'cancelAlarm' | 'timedOut'>,
    life?: string,
  ): Waiter | undefined {
    if (this.#closed) {
      wait.reject(clientClosed());
      return undefined;
    }
    const born = this.recentStarts.liveIncarnation(instanceId);
    const incarnation = life ?? born;
    const waiter: Waiter = { ...wait, incarnation, cancelAlarm: undefined, timedOut: false };
    this.#add(instanceId, waiter);
    this.#listen();
    this.#cancelRecheck ??= this.#setRecheck();
    if (wait.timeoutMs !== undefined) waiter.cancelAlarm = this.#setTimeout(instanceId, waiter);
    if (born === undefined || born !== incarnation) this.#reader.request(instanceId);
    return waiter;
  }

  /** Ends all waits, and all to come, with `CLOSED`. */
  close(): void {
    this.#closed = true;
    for (const instanceId of this.#waiters.keys()) {
      this.#end(instanceId, ({ reject }) => reject(clientClosed()));
    }
    this.#rest();
  }

  #listen(): void {
    this.#stopListening ??= this.#provider.hints((hint) => this.#onHint(hint));
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'changed') this.#sweep();
    if (hint.kind !== 'finished') return;
    this.recentStarts.markEnded(hint.instanceIds);
    for (const [instanceId, completed] of hint.outputs ?? []) this.#onOutput(instanceId, completed);
    this.#readWaiting(hint.instanceIds);
  }

  /** Ends the waits that ask for no more than this. */
  #onOutput(instanceId: string, { incarnation, output }: CompletedOutput): void {
    for (const waiter of this.#waiters.get(instanceId) ?? []) {
      if (waiter.resolveOutput === undefined) continue;
      if ((waiter.incarnation ?? incarnation) !== incarnation) continue;
      this.#remove(instanceId, waiter);
      waiter.cancelAlarm?.();
      waiter.resolveOutput(output);
    }
    this.#rest();
  }

  /** Reads all rows that are waited for, now or as soon as the last time is long enough ago. */
  #sweep(): void {
    const nowMs = this.#recheckClock.monotonic();
    if (nowMs < this.#nextSweepAt) {
      this.#cancelSweep ??= this.#recheckClock.setTimer(this.#nextSweepAt - nowMs, () => {
        this.#cancelSweep = undefined;
        this.#sweep();
      });
      return;
    }
    this.#nextSweepAt = nowMs + Math.floor(this.#waiters.size / waitsSweptPerMs);
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

  /** Ends the waits for a former life of an id: they would else be told how another instance ended. */
  #endReplaced({ instanceId, incarnation }: InstanceRecord): void {
    for (const waiter of this.#waiters.get(instanceId) ?? []) {
      waiter.incarnation ??= incarnation;
      if (waiter.incarnation === incarnation) continue;
      waiter.cancelAlarm?.();
      this.#remove(instanceId, waiter);
      waiter.reject(instanceReplaced(instanceId));
    }
    this.#rest();
  }

  // A store that may recover is asked again by the next recheck; the limit is the wait's own timeout.
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

  /** Reads the next slice of a round that began at a time; the last slice sets the next round. */
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
    const waiters = this.#waiters.get(instanceId);
    if (waiters === undefined) this.#waiters.set(instanceId, new Set([waiter]));
    else waiters.add(waiter);
  }

  #endTimedOut(instanceId: string, cause?: Error): void {
    for (const waiter of this.#waiters.get(instanceId) ?? []) {
      if (!waiter.timedOut) continue;
      this.#remove(instanceId, waiter);
      void this.#rejectTimedOut(instanceId, waiter, cause);
    }
    this.#rest();
  }

  async #rejectTimedOut(instanceId: string, waiter: Waiter, cause?: Error): Promise<void> {
    const waitsFor = cause === undefined ? await this.#describeWait?.(instanceId) : undefined;
    waiter.reject(waitTimedOut(instanceId, waiter.timeoutMs ?? 0, { cause, waitsFor }));
  }

  #end(instanceId: string, settle: (waiter: Waiter) => void): void {
    const waiters = this.#waiters.get(instanceId);
    if (waiters === undefined) return;
    this.#waiters.delete(instanceId);
    for (const waiter of waiters) {
      waiter.cancelAlarm?.();
      settle(waiter);
    }
    this.#rest();
  }

  #remove(instanceId: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(instanceId);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiters.delete(instanceId);
  }

  /** Stops what nobody needs any more. */
  #rest(): void {
    if (this.#waiters.size > 0) return;
    this.#cancelRecheck?.();
    this.#cancelRecheck = undefined;
    this.#cancelSweep?.();
    this.#cancelSweep = undefined;
    if (this.recentStarts.size > 0 && !this.#closed) return;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }
}

const maxBatch = 1_000;
// So few are read whatever their size: measuring them costs more than it saves.
const fewRows = 4;

export interface InstanceReaderParams {
  readonly provider: Provider;
  readonly onRecord: (instanceId: string, record: InstanceRecord | undefined) => void;
  readonly onError: (instanceId: string, error: Error) => void;
  /** Whether a row is still waited for: others need not be read. */
  readonly isWanted: (instanceId: string) => boolean;
}

/**
 * Reads rows, at most 1,000 and about 8 MiB at a time. Reads never overlap: what is asked for during one is read together in the
 * next, so that a burst of hints costs two reads and not one each.
 */
export class InstanceReader {
  readonly #params: InstanceReaderParams;
  readonly #due = new Set<string>();
  #reading = false;

  constructor(params: InstanceReaderParams) {
    this.#params = params;
  }

  /** Reads a row soon, and after this moment, even when a read of it is under way. */
  request(instanceId: string): void {
    this.#due.add(instanceId);
    if (this.#reading) return;
    this.#reading = true;
    // Waits that begin in the same tick share a read.
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
      // What was not read, because it did not fit, is read next.
      for (const instanceId of instanceIds.slice(count)) this.#due.add(instanceId);
      for (const [index, instanceId] of instanceIds.slice(0, count).entries()) {
        onRecord(instanceId, records[index]);
      }
    } catch (error) {
      for (const instanceId of instanceIds) onError(instanceId, error as Error);
    }
  }
}
