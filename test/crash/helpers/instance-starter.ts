import { setTimeout as delay } from 'node:timers/promises';
import { isPerdureError, type Handle, type Perdure } from '../../../src/index.ts';
import { ProviderError } from '../../../src/model/failures/errors.ts';
import type { Ledger } from '../oracles/ledger.ts';
import { idOf, kinds } from './scenarios.ts';

/** Keeps a number of instances active: starts them, raises their events, and reads their results. */
export class InstanceStarter {
  readonly #perdure: Perdure;
  readonly #ledger: Ledger;
  readonly #name: string;
  readonly #kindOf: (n: number) => string;
  readonly #outages: boolean;
  readonly #operators: boolean;
  readonly #lanes: Promise<void>[];
  #count = 0;
  #ending = false;

  constructor(params: {
    readonly perdure: Perdure;
    readonly ledger: Ledger;
    readonly name: string;
    readonly inFlight: number;
    readonly outages: boolean;
    readonly operators: boolean;
    readonly kindOf: (n: number) => string;
  }) {
    this.#perdure = params.perdure;
    this.#ledger = params.ledger;
    this.#name = params.name;
    this.#kindOf = params.kindOf;
    this.#outages = params.outages;
    this.#operators = params.operators;
    this.#lanes = Array.from({ length: params.inFlight }, () => this.#keepOneUnderWay());
  }

  /** Starts no more instances, and resolves when the active ones have ended. */
  async finish(): Promise<void> {
    this.#ending = true;
    await Promise.all(this.#lanes);
  }

  async #keepOneUnderWay(): Promise<void> {
    while (!this.#ending) {
      const n = this.#count++;
      const kind = this.#kindOf(n);
      const id = idOf(this.#name, kind, n);
      try {
        await this.#see(id, kind, n);
      } catch (error) {
        this.#ledger.write({ line: 'trouble', message: `${id}: ${String(error)}` });
        await delay(100);
      }
    }
  }

  async #see(id: string, kind: string, n: number): Promise<void> {
    const handle = await this.#start(id, kind, n);
    this.#ledger.write({ line: 'started', id });
    for (let event = 1; event <= (kinds[kind]?.events ?? 0); event++) {
      // Some events arrive before the instance waits for them, some long after.
      await delay((n % 3) * 15);
      await handle.raiseEvent('add', event * 10);
    }
    this.#ledger.write({ line: 'result', id, value: await this.#result(handle) });
  }

  /** Waits for the result. An instance that an operator stopped is retried by that operator. */
  async #result(handle: Handle): Promise<unknown> {
    for (;;) {
      try {
        return await handle.result();
      } catch (error) {
        const isStopped =
          isPerdureError(error, 'OPERATION_CANCELED') ||
          isPerdureError(error, 'INSTANCE_TERMINATED');
        if (!isStopped || !this.#operators) throw error;
        await delay(50);
      }
    }
  }

  /** Starts an instance, with retries while the store is unavailable; the id deduplicates them. */
  async #start(id: string, kind: string, n: number): Promise<Handle> {
    for (;;) {
      try {
        return await this.#perdure.client.start(kind, n, { id });
      } catch (error) {
        if (!this.#outages || !(error instanceof ProviderError && error.retryable)) throw error;
        await delay(50);
      }
    }
  }
}
