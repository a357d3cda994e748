import type Database from 'better-sqlite3';
import type { DefinitionQueue } from '../../contract/management.ts';
import { sumQueueParts, type QueuePart } from '../../rules/definition-queues.ts';
import type { StoreAccess } from '../batches/group-commit.ts';
import type { Definitions } from '../tables/definitions.ts';
import { nextIteration } from '../../../model/platform.ts';

interface Range {
  readonly definitionKey: number;
  readonly suspect: 0 | 1;
  readonly priority: number;
  readonly now: number;
  readonly cap: number;
}

interface Counted {
  readonly due: number;
  readonly oldestDueAt: number | null;
  readonly ahead: number;
  readonly held: number;
}

type Table = 'instance_locks' | 'worker_queue';

const tables = ['instance_locks', 'worker_queue'] as const satisfies readonly Table[];
const aboveAll = 101;

/** Counts the entries of each definition, by the index of due entries. */
export class DefinitionQueues {
  readonly #definitions: Definitions;
  readonly #nextKey;
  readonly #nextPriority;
  readonly #count;

  constructor(db: Database.Database, definitions: Definitions) {
    this.#definitions = definitions;
    const nextKey = (table: Table) =>
      db
        .prepare<[number], number | null>(
          `SELECT min(definition_key) FROM ${table} WHERE definition_key > ? AND next_at IS NOT NULL`,
        )
        .pluck();
    this.#nextKey = {
      instance_locks: nextKey('instance_locks'),
      worker_queue: nextKey('worker_queue'),
    };
    this.#nextPriority = db
      .prepare<[number, 0 | 1, number], number>(
        `SELECT priority FROM worker_queue
         WHERE definition_key = ? AND (claims > 1) = ? AND priority < ? ORDER BY priority DESC LIMIT 1`,
      )
      .pluck();
    // The end of a lease is the due time of a held entry, so held ones are among those ahead.
    const count = (table: Table, range: string) => {
      const entries = `${table} WHERE definition_key = :definitionKey AND (claims > 1) = :suspect AND ${range}`;
      return db.prepare<[Range], Counted>(
        `SELECT due, oldestDueAt, ahead, held FROM
           (SELECT count(*) AS due, min(next_at) AS oldestDueAt FROM (
              SELECT next_at FROM ${entries} AND next_at <= :now ORDER BY next_at LIMIT +:cap)),
           (SELECT count(*) AS ahead, count(lock_token) AS held FROM (
              SELECT lock_token FROM ${entries} AND next_at > :now ORDER BY next_at LIMIT +:cap))`,
      );
    };
    this.#count = {
      instance_locks: count('instance_locks', 'next_at IS NOT NULL AND :priority = 0'),
      worker_queue: count('worker_queue', 'priority = :priority'),
    };
  }

  /** The definitions with entries. Those of paused instances have negative keys. */
  keys(): readonly { readonly table: Table; readonly definitionKey: number }[] {
    return tables.flatMap((table) => {
      const keys: { readonly table: Table; readonly definitionKey: number }[] = [];
      let key = this.#nextKey[table].get(Number.MIN_SAFE_INTEGER) ?? null;
      while (key !== null) {
        keys.push({ table, definitionKey: key });
        key = this.#nextKey[table].get(key) ?? null;
      }
      return keys;
    });
  }

  count(
    { table, definitionKey }: { readonly table: Table; readonly definitionKey: number },
    { now, cap }: { readonly now: number; readonly cap: number },
  ): readonly QueuePart[] {
    const { kind, name } = this.#definitions.get(definitionKey);
    const isPaused = definitionKey < 0 || this.#definitions.pausedKeys().includes(definitionKey);
    let left = cap;
    const parts: QueuePart[] = [];
    for (const suspect of [0, 1] as const) {
      const priorities =
        table === 'instance_locks' ? [0] : this.#priorities(definitionKey, suspect);
      for (const priority of priorities) {
        // Beyond the cap, only the age of the oldest entry is read.
        const range = { definitionKey, suspect, priority, now, cap: Math.max(left, 1) };
        const found = this.#count[table].get(range);
        if (found === undefined) continue;
        const { due, oldestDueAt, ahead, held } = found;
        left -= due + ahead;
        parts.push({ kind, name, isPaused, due, delayed: ahead - held, held, oldestDueAt });
      }
    }
    return merge(parts);
  }

  #priorities(definitionKey: number, suspect: 0 | 1): readonly number[] {
    const priorities: number[] = [];
    let next = this.#nextPriority.get(definitionKey, suspect, aboveAll);
    while (next !== undefined) {
      priorities.push(next);
      next = this.#nextPriority.get(definitionKey, suspect, next);
    }
    return priorities;
  }
}

/** Adds the parts of one key, so that the cap applies to their sum. */
function merge(parts: readonly QueuePart[]): readonly QueuePart[] {
  const [first] = parts;
  if (first === undefined) return [];
  const oldest = Math.min(...parts.map(({ oldestDueAt }) => oldestDueAt ?? Infinity));
  return [
    {
      ...first,
      due: parts.reduce((sum, { due }) => sum + due, 0),
      delayed: parts.reduce((sum, { delayed }) => sum + delayed, 0),
      held: parts.reduce((sum, { held }) => sum + held, 0),
      oldestDueAt: oldest === Infinity ? null : oldest,
    },
  ];
}

/** Reads each definition in a transaction of its own, so that other work runs between them. */
export async function readDefinitionQueues(
  store: StoreAccess & { readonly definitionQueues: DefinitionQueues },
  { cap, limit }: { readonly cap: number; readonly limit: number },
): Promise<readonly DefinitionQueue[]> {
  const keys = await store.read('definitionQueues', () => store.definitionQueues.keys());
  const parts: QueuePart[] = [];
  for (const key of keys) {
    const now = store.now();
    parts.push(
      ...(await store.read('definitionQueues', () =>
        store.definitionQueues.count(key, { now, cap }),
      )),
    );
    await nextIteration();
  }
  return sumQueueParts(parts, { cap, limit });
}
