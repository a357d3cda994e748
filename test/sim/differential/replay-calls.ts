import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../../src/model/clock.ts';
import { replacePlatform } from '../../../src/model/platform.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';

/** A call of a simulation, in the order of commits. */
export interface RecordedCall {
  readonly method: string;
  readonly args: readonly unknown[];
  readonly result: unknown;
  /** The process that called, as in its lock tokens. */
  readonly processId: string;
  /** The store's time of its commit. */
  readonly nowMs: number;
}

/** Calls that change instances and queues. Each has a result that does not depend on the store. */
const replayed: ReadonlySet<string> = new Set<keyof Provider>([
  'createInstances',
  'createTasks',
  'declareLimits',
  'setLimits',
  'enqueueMessages',
  'requestCancel',
  'terminate',
  'pauseInstances',
  'resumeInstances',
  'deleteInstancesAtomic',
  'pruneExecutionsAtomic',
  'retryInstances',
  'markPointOfNoReturn',
  'fetchOrchestrationItems',
  'ackOrchestrationItems',
  'readHeldMessages',
  'abandonOrchestrationItems',
  'renewOrchestrationLocks',
  'fetchWorkItems',
  'ackWorkItems',
  'ackTurns',
  'renewWorkItemLocks',
  'abandonWorkItems',
  'retryWorkItems',
  'registerProcess',
  'takeOverClaims',
  'pauseDefinitions',
  'resumeDefinitions',
]);

/** Calls whose closures or effects cannot be recorded as data. A seed with one of them is not replayed. */
const notData: ReadonlySet<string> = new Set<keyof Provider>([
  'transact',
  'requestUpdates',
  'answerAwakeables',
  'appendChunks',
  'submitJobs',
  'openSession',
  'putSchedule',
  'tickSchedules',
]);

/** Whether all calls of a seed can be replayed. */
export function canReplay(calls: readonly RecordedCall[]): boolean {
  return calls.every(({ method }) => !notData.has(method));
}

/** Whether a fetch was aborted before it could claim anything. Call it when the call commits. */
export function isAbortedFetch({ method, args, result }: ObservedCall): boolean {
  if (!method.startsWith('fetch')) return false;
  const { signal } = args[0] as { readonly signal?: AbortSignal };
  return signal?.aborted === true && (result as readonly unknown[]).length === 0;
}

/** A clock that stands at the time of the call that is replayed. */
export class ReplayClock implements Clock {
  nowMs = 0;
  now(): number {
    return this.nowMs;
  }
  monotonic(): number {
    return this.nowMs;
  }
  setTimer(): () => void {
    return () => undefined;
  }
}

/** Keys that each store chooses itself. */
const ownKeys: ReadonlySet<string> = new Set([
  'lockToken',
  'lockTokens',
  'instanceKey',
  'messageKey',
  'messageKeys',
]);
/** Keys that may differ: times of reads, and texts of errors. */
const ignored: ReadonlySet<string> = new Set([
  ...ownKeys,
  'error',
  'queueMessagesDeleted',
  'stack',
]);

/** Replays recorded calls on a store, and compares each result with the recorded one. */
export class CallReplay {
  readonly #provider: Provider;
  readonly #clock: ReplayClock;
  /** The store's own token or key, by the recorded one. */
  readonly #tokens = new Map<unknown, unknown>();
  readonly #instanceKeys = new Map<unknown, unknown>();
  readonly #messageKeys = new Map<string, unknown>();
  #processId: string | undefined;

  constructor(provider: Provider, clock: ReplayClock) {
    this.#provider = provider;
    this.#clock = clock;
  }

  /** Returns the first difference; `undefined` if there is none. */
  async run(calls: readonly RecordedCall[]): Promise<string | undefined> {
    const restore = replacePlatform({ processId: () => this.#processId });
    try {
      return await this.#run(calls);
    } finally {
      restore();
    }
  }

  async #run(calls: readonly RecordedCall[]): Promise<string | undefined> {
    for (const [index, call] of calls.entries()) {
      const difference = replayed.has(call.method) ? await this.#replay(call) : undefined;
      if (difference !== undefined) return `call ${index}, ${call.method}: ${difference}`;
    }
    return undefined;
  }

  /** All instances with their executions and histories. */
  async readAll(): Promise<unknown> {
    const provider = this.#provider;
    const { instances } = await provider.listInstances({ filter: {}, limit: 1_000 });
    const ids = instances.map(({ instanceId }) => instanceId).toSorted();
    const records = await provider.getInstances(ids);
    const histories = [];
    for (const instanceId of ids) {
      for (const execution of await provider.listExecutions({
        instanceId,
        after: 0,
        limit: 1_000,
      })) {
        const { executionId } = execution;
        const range = { instanceId, executionId, after: 0, limit: 1_000 };
        histories.push({ execution, events: await provider.readInstanceHistory(range) });
      }
    }
    return comparable({ records, histories });
  }

  async #replay(one: RecordedCall): Promise<string | undefined> {
    const { method, args, result, nowMs, processId } = one;
    this.#clock.nowMs = nowMs;
    this.#processId = processId;
    const given = args.map((arg) => this.#translate(arg, ''));
    if (method.startsWith('fetch')) {
      Object.assign(given[0] as object, { waitMs: 0, signal: undefined });
    }
    const received = await this.#call(one, given);
    const answer = sorted(method, received);
    const expected = sorted(method, result);
    this.#learn(expected, answer, '');
    if (method === 'readHeldMessages') {
      for (const [index, token] of (args[0] as readonly string[]).entries()) {
        const [recorded, own] = [expected, answer].map((all) => (all as readonly Held[])[index]);
        this.#learnMessages(token, recorded?.messages ?? [], own?.messages ?? []);
      }
    }
    const [was, is] = [comparable(expected), comparable(answer)];
    if (isDeepStrictEqual(was, is)) return undefined;
    const errors = (Array.isArray(answer) ? (answer as readonly unknown[]) : [])
      .map((one) => (one as { readonly error?: Error } | undefined)?.error?.message)
      .filter(Boolean);
    return `${JSON.stringify(is)} ${errors.join()}, not ${JSON.stringify(was)}; asked ${JSON.stringify(comparable(given))}`;
  }

  async #call({ method, result }: RecordedCall, given: readonly unknown[]): Promise<unknown> {
    const call = Reflect.get(this.#provider, method) as (...given: unknown[]) => Promise<unknown>;
    const received = await call.apply(this.#provider, [...given]);
    if (method !== 'fetchWorkItems') return received;
    // A busy fetch of PostgreSQL finds the first items of a newly limited definition with its next due query.
    const [items, wanted] = [received, result] as [readonly unknown[], readonly unknown[]];
    const { max } = given[0] as { readonly max: number };
    const left = Math.min(max, wanted.length) - items.length;
    if (left < 1) return items;
    const rest = await call.apply(this.#provider, [{ ...(given[0] as object), max: left }]);
    return [...items, ...(rest as readonly unknown[])];
  }

  /** Replaces recorded tokens and keys by those of this store. */
  #translate(value: unknown, key: string): unknown {
    if (typeof value === 'string') return this.#tokens.get(value) ?? value;
    if (typeof value === 'number') {
      if (key === 'instanceKey') return this.#instanceKeys.get(value) ?? value;
      return value;
    }
    if (Array.isArray(value)) return value.map((one) => this.#translate(one, key));
    if (typeof value !== 'object' || value === null || value instanceof AbortSignal) return value;
    const entries = Object.entries(value).map(([name, one]): [string, unknown] => {
      if (name === 'messageKeys') {
        const { lockToken } = value as { readonly lockToken: string };
        const keys = one as readonly number[];
        return [name, keys.map((each) => this.#messageKeys.get(`${lockToken} ${each}`) ?? each)];
      }
      return [name, this.#translate(one, name)];
    });
    return Object.fromEntries(entries);
  }

  #learnMessages(token: string, recorded: Held['messages'], own: Held['messages']): void {
    for (const [index, { messageKey }] of recorded.entries()) {
      this.#messageKeys.set(`${token} ${messageKey}`, own[index]?.messageKey);
    }
  }

  /** Learns the tokens and keys of this store from two results that should be the same. */
  #learn(expected: unknown, answer: unknown, key: string): void {
    if (typeof expected !== 'object' || expected === null) {
      if (key === 'lockToken') this.#tokens.set(expected, answer);
      if (key === 'instanceKey') this.#instanceKeys.set(expected, answer);
      return;
    }
    if (typeof answer !== 'object' || answer === null) return;
    const { lockToken, messages } = expected as Partial<Held> & { readonly lockToken?: string };
    if (lockToken !== undefined && messages !== undefined) {
      this.#learnMessages(lockToken, messages, (answer as Partial<Held>).messages ?? []);
    }
    for (const [name, one] of Object.entries(expected)) {
      this.#learn(
        one,
        (answer as Record<string, unknown>)[name],
        Array.isArray(expected) ? key : name,
      );
    }
  }
}

/** Messages with keys that each store chooses itself. */
interface Held {
  readonly messages: readonly { readonly messageKey: number }[];
}

/** Claimed items in an order that does not depend on the store. */
function sorted(method: string, result: unknown): unknown {
  if (!method.startsWith('fetch')) return result;
  const keyOf = ({
    instanceId,
    operation = 0,
  }: {
    instanceId: string;
    operation?: number;
  }): string => `${instanceId} ${operation}`;
  return (result as { readonly instanceId: string }[]).toSorted((a, b) =>
    keyOf(a) < keyOf(b) ? -1 : 1,
  );
}

/** A result without what each store chooses itself. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, one]) => !ignored.has(key) && one !== undefined)
      .map(([key, one]) => [key, comparable(one)]),
  );
}
