import type { Clock } from '../model/clock.ts';
import type { Provider } from '../providers/contract/provider.ts';

/** When a fault hits a write of a worker: before the store gets it, or after its commit. */
export type FaultMoment = 'beforeCommit' | 'afterCommit';

/** Called around each write of a worker to a queue, a history or a stream. A fault that kills the process never resolves. */
export type OnWrite = (moment: FaultMoment) => Promise<void>;

type Call = (...args: unknown[]) => unknown;

// Writes that change histories, queues and streams. The rest reads, renews leases or registers the process.
const writes =
  /^(?:ack|abandon|append|retryWorkItems|createInstances|createTasks|enqueueMessages|transact)/;
const never = new Promise<never>(() => undefined);

/**
 * A process on a shared store that can be killed: its calls then never return, its timers never fire, and its hints are lost.
 * Code that is running continues until its next call of the store.
 */
export class SimulatedProcess {
  readonly clock: Clock;
  readonly provider: Provider;
  readonly #timers = new Set<() => void>();
  readonly #killed = new AbortController();

  constructor(store: Provider, clock: Clock, onWrite: OnWrite) {
    this.clock = {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      setTimer: (delayMs, callback) => this.#setTimer(clock, delayMs, callback),
    };
    this.provider = new Proxy(store, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key);
        if (key === 'clock') return undefined;
        if (typeof value !== 'function') return value;
        const call = (value as Call).bind(target);
        if (key === 'close') return () => Promise.resolve();
        if (key === 'hints') return this.#hints(call as Provider['hints']);
        return (...args: unknown[]) => this.#call(String(key), args, { call, onWrite });
      },
    });
  }

  get isKilled(): boolean {
    return this.#killed.signal.aborted;
  }

  kill(): void {
    this.#killed.abort();
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
  }

  #setTimer(clock: Clock, delayMs: number, callback: () => void): () => void {
    if (this.isKilled) return () => undefined;
    const cancel = clock.setTimer(delayMs, () => {
      this.#timers.delete(cancel);
      callback();
    });
    this.#timers.add(cancel);
    return () => {
      this.#timers.delete(cancel);
      cancel();
    };
  }

  #hints(hints: Provider['hints']): Provider['hints'] {
    return (listener) =>
      hints((hint) => {
        if (!this.isKilled) listener(hint);
      });
  }

  async #call(
    method: string,
    args: readonly unknown[],
    { call, onWrite }: { readonly call: Call; readonly onWrite: OnWrite },
  ): Promise<unknown> {
    if (this.isKilled) return never;
    const isWrite = writes.test(method);
    if (isWrite) await onWrite('beforeCommit');
    if (this.isKilled) return never;
    const result = await call(...(method.startsWith('fetch') ? args.map(this.#stoppable) : args));
    if (this.isKilled) return never;
    if (isWrite) await onWrite('afterCommit');
    return this.isKilled ? never : result;
  }

  /** A fetch of a killed process must claim nothing. */
  readonly #stoppable = (params: unknown): unknown => {
    const { signal } = params as { readonly signal?: AbortSignal };
    const signals = signal === undefined ? [] : [signal];
    return { ...(params as object), signal: AbortSignal.any([...signals, this.#killed.signal]) };
  };
}
