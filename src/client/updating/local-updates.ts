import { systemClock, type Clock } from '../../model/clock.ts';
import { ProviderError } from '../../model/failures/errors.ts';
import { encodeMessage } from '../../model/message.ts';
import {
  awakeableAnswered,
  awakeableNotFound,
  hashAwakeableToken,
  isAwakeableToken,
} from '../../model/values/awakeable-token.ts';
import { inputHash } from '../../model/values/input-hash.ts';
import { decodePayload } from '../../model/values/payload.ts';
import type { Hint, Provider } from '../../providers/contract/provider.ts';
import type { AwakeableAnswer, RequestUpdateResult } from '../../providers/contract/updates.ts';
import { clientClosed } from '../waiting/instance-errors.ts';
import { takeReply, updateTimedOut } from './update-errors.ts';
import type { AnswerCall, UpdateBackend, UpdateCall } from './update-request.ts';

type Settled = Exclude<RequestUpdateResult, { readonly kind: 'pending' }>;

/** Identifies an update. */
interface UpdateRef {
  readonly id: string;
  readonly key: string;
}

interface Waiter extends UpdateRef {
  /** Whether the request has been stored, so that there is something to read. */
  isStored: boolean;
  /** Whether a hint came before that. */
  isHinted: boolean;
  readonly settle: (state: Settled) => void;
  readonly fail: (error: unknown) => void;
}

const maxBatch = 1_000;

/**
 * Updates and awakeables on the store of this process. Waits end by a hint after the commit of the reply. Waits of one
 * instance share reads. Without hints they are read again every `recheckMs`.
 */
export class LocalUpdates implements UpdateBackend {
  readonly #provider: Provider;
  readonly #clock: Clock;
  readonly #recheckMs: number;
  readonly #waiters = new Map<string, Set<Waiter>>();
  /** Instances to read. */
  readonly #hinted = new Set<string>();
  #isReading = false;
  #isClosed = false;
  #stopListening: (() => void) | undefined;
  #cancelRecheck: (() => void) | undefined;

  constructor(options: {
    readonly provider: Provider;
    readonly clock: Clock;
    readonly recheckMs?: number | undefined;
  }) {
    this.#provider = options.provider;
    this.#clock = options.clock;
    this.#recheckMs = options.recheckMs ?? 1_000;
  }

  async update(call: UpdateCall, timeoutMs: number | undefined): Promise<unknown> {
    const timeout = new AbortController();
    const cancelAlarm =
      timeoutMs === undefined
        ? undefined
        : this.#clock.setTimer(timeoutMs, () => timeout.abort(updateTimedOut(call, timeoutMs)));
    try {
      return decodePayload(takeReply(call, await this.#request(call, timeout.signal)));
    } finally {
      cancelAlarm?.();
    }
  }

  /** Waits for an update that was requested before. Rejects with the reason of the signal. */
  wait(update: UpdateRef, signal?: AbortSignal): Promise<Settled> {
    return this.#follow(update, signal, async () => {
      const { id: instanceId, key } = update;
      const [state] = await this.#provider.readUpdates([{ instanceId, key }]);
      return state ?? { kind: 'missing' };
    });
  }

  async answerAwakeable({ token, key, answer }: AnswerCall): Promise<void> {
    if (!isAwakeableToken(token)) throw awakeableNotFound();
    const given: AwakeableAnswer = {
      tokenHash: hashAwakeableToken(token),
      answerKey: key,
      message: toMessage(answer),
    };
    const [result] = await twice(() => this.#provider.answerAwakeables([given]));
    if (result === 'already') throw awakeableAnswered();
    if (result !== 'answered') throw awakeableNotFound();
  }

  close(): void {
    this.#isClosed = true;
    const error = clientClosed();
    for (const waiter of this.#all()) waiter.fail(error);
  }

  #request(call: UpdateCall, signal: AbortSignal): Promise<Settled> {
    return this.#follow(call, signal, () => this.#store(call));
  }

  async #store({ id, key, name, payload, trace }: UpdateCall): Promise<RequestUpdateResult> {
    const traced = trace !== undefined && { trace };
    const message = encodeMessage({ kind: 'update', key, name, payload, ...traced });
    const request = { instanceId: id, key, name, inputHash: inputHash(payload), message };
    const [result] = await twice(() => this.#provider.requestUpdates([request]));
    return result ?? { kind: 'missing' };
  }

  /** Listens before the first read, so that no reply is missed. */
  async #follow(
    { id, key }: UpdateRef,
    signal: AbortSignal | undefined,
    first: () => Promise<RequestUpdateResult>,
  ): Promise<Settled> {
    if (this.#isClosed) throw clientClosed();
    const { promise, resolve, reject } = Promise.withResolvers<Settled>();
    // close() may reject it before the request is stored, when nothing awaits it yet.
    promise.catch(() => undefined);
    const waiter: Waiter = {
      id,
      key,
      isStored: false,
      isHinted: false,
      settle: resolve,
      fail: reject,
    };
    // Not before the request is stored: the caller may repeat it only to read the reply.
    const onAbort = (): void => {
      if (waiter.isStored) reject(signal?.reason);
    };
    this.#add(waiter);
    signal?.addEventListener('abort', onAbort);
    try {
      const state = await first();
      if (state.kind !== 'pending') return state;
      waiter.isStored = true;
      if (waiter.isHinted) this.#read(id);
      if (signal?.aborted === true) onAbort();
      return await promise;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#remove(waiter);
    }
  }

  #add(waiter: Waiter): void {
    const others = this.#waiters.get(waiter.id);
    if (others === undefined) this.#waiters.set(waiter.id, new Set([waiter]));
    else others.add(waiter);
    this.#stopListening ??= this.#provider.hints((hint) => this.#onHint(hint));
    this.#cancelRecheck ??= this.#setRecheck();
  }

  #remove(waiter: Waiter): void {
    const others = this.#waiters.get(waiter.id);
    others?.delete(waiter);
    if (others?.size === 0) this.#waiters.delete(waiter.id);
    if (this.#waiters.size > 0) return;
    this.#cancelRecheck?.();
    this.#cancelRecheck = undefined;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  #setRecheck(): () => void {
    // Not the injected clock, which may skip a month.
    return systemClock.setTimer(this.#recheckMs, () => {
      this.#cancelRecheck = this.#setRecheck();
      for (const id of this.#waiters.keys()) this.#read(id);
    });
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'missed') for (const id of this.#waiters.keys()) this.#read(id);
    if (hint.kind !== 'statusSet' && hint.kind !== 'finished') return;
    for (const id of hint.instanceIds) if (this.#waiters.has(id)) this.#read(id);
  }

  #read(id: string): void {
    for (const waiter of this.#waiters.get(id) ?? []) if (!waiter.isStored) waiter.isHinted = true;
    this.#hinted.add(id);
    if (!this.#isReading) void this.#readHinted();
  }

  /** Reads one batch at a time. Hints that come meanwhile cause one more read. */
  async #readHinted(): Promise<void> {
    this.#isReading = true;
    try {
      while (this.#hinted.size > 0) {
        const ids = [...this.#hinted];
        this.#hinted.clear();
        const waiters = ids
          .flatMap((id) => [...(this.#waiters.get(id) ?? [])])
          .filter(({ isStored }) => isStored);
        for (let from = 0; from < waiters.length; from += maxBatch) {
          await this.#readBatch(waiters.slice(from, from + maxBatch));
        }
      }
    } finally {
      this.#isReading = false;
    }
  }

  async #readBatch(waiters: readonly Waiter[]): Promise<void> {
    try {
      const states = await this.#provider.readUpdates(
        waiters.map(({ id: instanceId, key }) => ({ instanceId, key })),
      );
      for (const [index, waiter] of waiters.entries()) {
        const state = states[index] ?? { kind: 'missing' };
        if (state.kind !== 'pending') waiter.settle(state);
      }
    } catch (error) {
      // The next recheck reads again.
      if (error instanceof ProviderError && error.retryable) return;
      for (const waiter of waiters) waiter.fail(error);
    }
  }

  *#all(): Generator<Waiter, void, undefined> {
    for (const waiters of this.#waiters.values()) yield* waiters;
  }
}

function toMessage(answer: AnswerCall['answer']): AwakeableAnswer['message'] {
  const address = { executionId: 1, operation: 1 };
  const { kind, data, payload } = encodeMessage(
    answer.kind === 'resolve'
      ? { kind: 'awakeableResolved', ...address, payload: answer.payload }
      : { kind: 'awakeableRejected', ...address, failure: answer.failure },
  );
  return { kind, data, payload };
}

/** Repeats a write whose outcome is unknown once. Its key makes that harmless. */
async function twice<Value>(write: () => Promise<Value>): Promise<Value> {
  try {
    return await write();
  } catch (error) {
    if (!(error instanceof ProviderError && error.outcomeUnknown)) throw error;
    return await write();
  }
}
