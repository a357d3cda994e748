import type Database from 'better-sqlite3';
import type {
  FindUnclaimedWorkParams,
  UnclaimedWork,
  UnclaimedWorkStore,
} from '../../contract/unclaimed-work.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { StoreAccess } from '../batches/group-commit.ts';

type KnownDefinitions = Pick<FindUnclaimedWorkParams, 'runnable' | 'activities' | 'tasks'>;

interface Range {
  readonly definitionKey: number;
  readonly suspect: 0 | 1;
  /** NULL in `instance_locks`, which has no priorities. */
  readonly priority: number | null;
  readonly now: number;
  readonly dueBefore: number;
}

interface Found {
  readonly dueAt: number | null;
  readonly isHeld: 0 | 1;
}

const aboveAll = 101;

/** Finds due work of definitions that no worker claims. Reads a few index entries per definition with work. */
export class UnclaimedWorkFinder {
  readonly #definitions: Definitions;
  readonly #nextInstanceKey;
  readonly #nextItemKey;
  readonly #nextPriority;
  readonly #instances;
  readonly #items;

  constructor(db: Database.Database, definitions: Definitions) {
    this.#definitions = definitions;
    const nextKey = (table: string) =>
      db
        .prepare<[number], number | null>(
          `SELECT min(definition_key) FROM ${table} WHERE definition_key > ?`,
        )
        .pluck();
    this.#nextInstanceKey = nextKey('instance_locks');
    this.#nextItemKey = nextKey('worker_queue');
    this.#nextPriority = db
      .prepare<[number, 0 | 1, number], number>(
        `SELECT priority FROM worker_queue
         WHERE definition_key = ? AND (claims > 1) = ? AND priority < ? ORDER BY priority DESC LIMIT 1`,
      )
      .pluck();
    // Held rows follow the due ones in the index: their next_at is the end of the lease.
    const found = (table: string, range: string, isWanted: string) =>
      db.prepare<[Range], Found>(
        `SELECT (SELECT next_at FROM ${table}
                 WHERE ${range} AND next_at <= :dueBefore AND ${isWanted}
                 ORDER BY next_at LIMIT 1) AS dueAt,
                EXISTS (SELECT 1 FROM (SELECT lock_token FROM ${table}
                                       WHERE ${range} AND next_at > :now ORDER BY next_at LIMIT 100)
                        WHERE lock_token IS NOT NULL) AS isHeld`,
      );
    const common = 'definition_key = :definitionKey AND (claims > 1) = :suspect';
    this.#instances = found(
      'instance_locks',
      `${common} AND next_at IS NOT NULL`,
      ':priority IS NULL',
    );
    this.#items = found(
      'worker_queue',
      `${common} AND priority = :priority`,
      'cancel_requested = 0 AND (expires_at IS NULL OR expires_at > :now)',
    );
  }

  find(params: FindUnclaimedWorkParams, now: number): readonly UnclaimedWork[] {
    const { minWaitMs, limit } = params;
    const known = this.#knownKeys(params);
    const dueBefore = now - minWaitMs;
    const work: UnclaimedWork[] = [];
    const add = (definitionKey: number, found: readonly Found[]): void => {
      const dueAt = Math.min(...found.map((one) => one.dueAt ?? Infinity));
      if (dueAt === Infinity || found.some(({ isHeld }) => isHeld === 1)) return;
      const { kind, name, version } = this.#definitions.get(definitionKey);
      work.push({ kind, name, version, dueForMs: now - dueAt });
    };
    for (const definitionKey of keysOf(this.#nextInstanceKey, known)) {
      const found = ([0, 1] as const).map((suspect) =>
        this.#instances.get({ definitionKey, suspect, priority: null, now, dueBefore }),
      );
      add(definitionKey, present(found));
    }
    for (const definitionKey of keysOf(this.#nextItemKey, known)) {
      const found = ([0, 1] as const).flatMap((suspect) =>
        this.#priorities(definitionKey, suspect).map((priority) =>
          this.#items.get({ definitionKey, suspect, priority, now, dueBefore }),
        ),
      );
      add(definitionKey, present(found));
    }
    return work.toSorted((a, b) => b.dueForMs - a.dueForMs).slice(0, limit);
  }

  /** The definitions in the queues that are not known, not paused, and not of a paused instance. */
  unknownKeys(known: KnownDefinitions): {
    readonly lockKeys: readonly number[];
    readonly itemKeys: readonly number[];
  } {
    const keys = this.#knownKeys(known);
    return {
      lockKeys: [...keysOf(this.#nextInstanceKey, keys)],
      itemKeys: [...keysOf(this.#nextItemKey, keys)],
    };
  }

  #knownKeys({ runnable, activities, tasks }: KnownDefinitions): ReadonlySet<number> {
    const named = (names: readonly string[]) => names.map((name) => ({ name, version: null }));
    return new Set([
      ...this.#definitions.findAll('orchestration', runnable),
      ...this.#definitions.findAll('activity', named(activities)),
      ...this.#definitions.findAll('task', named(tasks)),
      ...this.#definitions.pausedKeys(),
    ]);
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

/** The keys that occur in a queue, except the known ones and those of paused instances. */
function* keysOf(
  nextKey: Database.Statement<[number], number | null>,
  known: ReadonlySet<number>,
): Generator<number> {
  let key = nextKey.get(-1) ?? null;
  while (key !== null) {
    if (!known.has(key)) yield key;
    key = nextKey.get(key) ?? null;
  }
}

function present(found: readonly (Found | undefined)[]): readonly Found[] {
  return found.filter((one): one is Found => one !== undefined);
}

export function createUnclaimedWorkStore(
  store: StoreAccess & { readonly unclaimedWork: UnclaimedWorkFinder },
): UnclaimedWorkStore {
  return {
    findUnclaimedWork: (params) =>
      store.read('findUnclaimedWork', () => store.unclaimedWork.find(params, store.now())),
  };
}
