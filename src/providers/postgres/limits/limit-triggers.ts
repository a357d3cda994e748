import { setTimeout as delay } from 'node:timers/promises';
import { ProviderError } from '../../../model/failures/errors.ts';
import type { LimitedKind } from '../../contract/limits.ts';
import { prepare } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';

/** The triggers of work items, or those of instances. */
type Triggers = 'items' | 'instances';

// Writers of the table may wait behind each attempt. Between two attempts, they continue.
const pauseMs = 1_000;
// Long enough for transactions of applications that enqueue work.
const patienceMs = 10_000;

/** The triggers that count the places of a definition. */
export function triggersOf(kind: LimitedKind): Triggers {
  return kind === 'orchestration' ? 'instances' : 'items';
}

/**
 * Adds the triggers that free places and signal new items. A store has none before its first limit: PostgreSQL parses the
 * condition of a trigger in each statement and reads the former row, even if no row has a lane.
 *
 * - Limits are declared and set after the triggers were added. So no place is given that no trigger frees.
 * - A run with a key can be inserted without them, because its transaction may belong to an application. The first claim of
 *   its definition adds the triggers, and signals the items of all lanes. `LimitRows.ensure` makes that claim due.
 * - The lock waits for all transactions that have written the table, and later writers run the triggers.
 * - One table per transaction, which holds no other lock: it cannot deadlock. If a writer takes too long, it gives up, and
 *   tries again later. Other writers would wait behind it.
 */
export class LimitTriggers {
  readonly #connections: Connections;
  readonly #add: Readonly<Record<Triggers, ReturnType<typeof addTriggers>>>;
  readonly #added = new Set<Triggers>();
  readonly #adding = new Map<Triggers, Promise<boolean>>();
  readonly #triedAt = new Map<Triggers, number>();

  constructor({
    schema,
    connections,
  }: {
    readonly schema: string;
    readonly connections: Connections;
  }) {
    this.#connections = connections;
    this.#add = {
      items: addTriggers(schema, 'add_lane_triggers'),
      instances: addTriggers(schema, 'add_instance_triggers'),
    };
  }

  /** Adds triggers unless they exist. Waits for long transactions. Throws a retryable error if one takes too long. */
  async add(operation: string, wanted: Iterable<Triggers>): Promise<void> {
    const deadline = performance.now() + patienceMs;
    for (const triggers of new Set(wanted)) {
      while (!(await this.tryToAdd(triggers))) {
        if (performance.now() >= deadline) throw busyError(operation);
        await delay(pauseMs);
      }
    }
  }

  /** Returns whether the triggers exist. Adds them, unless another transaction that takes long has written the table. */
  tryToAdd(triggers: Triggers): Promise<boolean> {
    if (this.#added.has(triggers)) return Promise.resolve(true);
    const underWay = this.#adding.get(triggers);
    if (underWay !== undefined) return underWay;
    const triedAt = this.#triedAt.get(triggers) ?? Number.NEGATIVE_INFINITY;
    if (performance.now() - triedAt < pauseMs) return Promise.resolve(false);
    const adding = this.#tryOnce(triggers).finally(() => this.#adding.delete(triggers));
    this.#adding.set(triggers, adding);
    return adding;
  }

  async #tryOnce(triggers: Triggers): Promise<boolean> {
    const [row] = await this.#connections.pipeline('addLimitTriggers', (tx) =>
      tx.query<{ isAdded: boolean }>(...this.#add[triggers]({})),
    );
    const isAdded = row?.isAdded === true;
    if (isAdded) this.#added.add(triggers);
    else this.#triedAt.set(triggers, performance.now());
    return isAdded;
  }
}

function addTriggers(schema: string, name: string) {
  return prepare(`perdure_${name}`, {}, () => `SELECT ${schema}.${name}() AS "isAdded"`);
}

function busyError(operation: string): ProviderError {
  return new ProviderError({
    operation,
    message: `${operation}: cannot add the triggers of limits, because a transaction that has enqueued or changed work is still open after ${patienceMs} ms. Commit or roll back long transactions of your application, then retry.`,
    retryable: true,
  });
}
