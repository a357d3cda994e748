import { ProviderError } from '../../../src/model/failures/errors.ts';
import type { Hint, Provider } from '../../../src/providers/contract/provider.ts';

export const breakable = [
  'openSession',
  'renewSessions',
  'submitJobs',
  'takeJobs',
  'abandonJobs',
  'requestCancel',
  'shutdownSession',
  'settleSession',
  'readChunks',
  'getInstances',
] as const satisfies readonly (keyof Provider)[];

export type Breakable = (typeof breakable)[number];

/** A real store behind a connection that fails on demand, before a call takes effect or before it returns. */
export class FaultyConnection {
  readonly provider: Provider;
  /** Number of registered listeners. */
  listeners = 0;
  /** While true, every call fails before it takes effect, and hints are dropped. */
  isDisconnected = false;
  readonly #faults = new Map<string, ('before' | 'after')[]>();

  constructor(provider: Provider) {
    this.provider = new Proxy(provider, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key);
        if (typeof value !== 'function') return value;
        if (key === 'hints')
          return (listener: (hint: Hint) => void) => this.#listen(target, listener);
        return async (...args: readonly unknown[]): Promise<unknown> => {
          const fault = this.isDisconnected ? 'before' : this.#faults.get(String(key))?.shift();
          if (fault === 'before') throw connectionLost(String(key));
          const result: unknown = await Reflect.apply(value, target, args);
          if (fault === 'after') throw connectionLost(String(key));
          return result;
        };
      },
    });
  }

  failNext(method: Breakable, when: 'before' | 'after'): void {
    const faults = this.#faults.get(method) ?? [];
    faults.push(when);
    this.#faults.set(method, faults);
  }

  #listen(provider: Provider, listener: (hint: Hint) => void): () => void {
    this.listeners += 1;
    const stop = provider.hints((hint) => {
      if (!this.isDisconnected) listener(hint);
    });
    return () => {
      this.listeners -= 1;
      stop();
    };
  }
}

function connectionLost(operation: string): ProviderError {
  return new ProviderError({
    operation,
    message: 'the connection broke',
    retryable: true,
    outcomeUnknown: true,
  });
}
