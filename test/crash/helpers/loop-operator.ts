import { setTimeout as delay } from 'node:timers/promises';
import { isPerdureError, type Client } from '../../../src/index.ts';
import type { Ledger, OperatorAction } from '../oracles/ledger.ts';
import { inputOf, kinds } from './scenarios.ts';

// An event that is raised and not yet processed is lost when its instance is terminated.
const names = Object.keys(kinds).filter((name) => kinds[name]?.events === 0);
const roots = { name: names, rootsOnly: true };
const actor = 'operator';

const actions: readonly OperatorAction[] = ['pause', 'pauseDefinition', 'retry', 'cancelBulk'];

/** Runs operator actions under load, one after the other. Every instance that it stops is retried. */
export class LoopOperator {
  readonly #client: Client;
  readonly #ledger: Ledger;
  readonly #count: number;
  readonly #done: Promise<void>;
  #ending = false;

  constructor(client: Client, ledger: Ledger, count: number) {
    this.#client = client;
    this.#ledger = ledger;
    this.#count = count;
    this.#done = this.#run();
  }

  /** Ends the actions, and retries until every root can complete. */
  async finish(): Promise<void> {
    this.#ending = true;
    await this.#done;
    do await this.#retryStopped();
    while (await this.#hasUnfinished());
  }

  async #run(): Promise<void> {
    for (let n = 0; n < this.#count && !this.#ending;) {
      await delay(100 * Math.random());
      const action = actions[n % actions.length] as OperatorAction;
      try {
        const changed = await this.#act(action);
        // No instance was running, so the action is repeated.
        if (changed === 0) continue;
        n += 1;
        this.#ledger.write({ line: 'operated', action, changed });
      } catch (error) {
        this.#ledger.write({ line: 'trouble', message: `${action}: ${String(error)}` });
      }
    }
  }

  /** Returns how many instances it changed. */
  async #act(action: OperatorAction): Promise<number> {
    const { bulk } = this.#client;
    switch (action) {
      case 'pause':
        return this.#pause();
      case 'pauseDefinition': {
        const effect = { name: 'effect', kind: 'activity' } as const;
        await this.#client.pause(effect, { actor });
        await delay(200);
        await this.#client.resume(effect, { actor });
        return 1;
      }
      case 'retry':
        return this.#terminateAndRetry();
      case 'cancelBulk': {
        const { changed } = await bulk.cancel({ ...roots, status: 'running' }, { actor, limit: 8 });
        await this.#retryStopped();
        return changed;
      }
    }
  }

  async #pause(): Promise<number> {
    const ids = await this.#pick(6, ['pending', 'running']);
    const results = await Promise.all(
      ids.map((id) => this.#client.pause(id, { actor, tree: true })),
    );
    await delay(300);
    await Promise.all(ids.map((id) => this.#client.resume(id, { actor, tree: true })));
    return results.filter(({ changed }) => changed).length;
  }

  async #terminateAndRetry(): Promise<number> {
    const ids = await this.#pick(4, ['running']);
    const retried = await Promise.all(
      ids.map(async (id, index) => {
        const { changed } = await this.#client.terminate(id, { reason: 'again', actor });
        return changed && this.#retry(id, index % 2 === 0 ? 'failure' : 'start');
      }),
    );
    return retried.filter(Boolean).length;
  }

  /** Retries until no child of the ended execution is left. */
  async #retry(id: string, from: 'failure' | 'start'): Promise<boolean> {
    for (;;) {
      try {
        await this.#client.retry(id, { from, actor });
        return true;
      } catch (error) {
        // The input of an execution that ended before its first turn is not stored.
        if (isPerdureError(error, 'INVALID_INPUT')) {
          await this.#client.retry(id, { from: 'start', input: inputOf(id), actor });
          return true;
        }
        // A child of the ended execution is still canceling.
        if (!isPerdureError(error, 'INSTANCE_STILL_RUNNING')) throw error;
        await delay(50);
      }
    }
  }

  async #retryStopped(): Promise<void> {
    for (const status of ['canceled', 'terminated'] as const) {
      const { bulk } = this.#client;
      const { refused } = await bulk.retry({ ...roots, status }, { from: 'failure', actor });
      for (const { id, code } of refused) {
        if (code === 'INVALID_INPUT') await this.#retry(id, 'start');
      }
    }
  }

  async #pick(
    count: number,
    status: readonly ('pending' | 'running')[],
  ): Promise<readonly string[]> {
    const { items } = await this.#client.list({ ...roots, status }, { limit: 100 });
    return items
      .map(({ id }) => ({ id, at: Math.random() }))
      .toSorted((a, b) => a.at - b.at)
      .slice(0, count)
      .map(({ id }) => id);
  }

  async #hasUnfinished(): Promise<boolean> {
    await delay(50);
    for (const status of ['canceling', 'canceled', 'terminated'] as const) {
      const { count } = await this.#client.count({ ...roots, status });
      if (count > 0) return true;
    }
    return false;
  }
}
