import type Database from 'better-sqlite3';

import { calledTask } from '../../../model/task-call.ts';
import type { DefinitionKind } from '../../contract/pausing.ts';

export type { DefinitionKind };

export interface Definition {
  readonly name: string;
  /** `null` before a version is chosen, and for activities and tasks. */
  readonly version: string | null;
}

/**
 * Maps names and versions to integer keys.
 * Rows are never changed or deleted, so they are cached forever. Rows that a transaction reads or inserts are
 * unconfirmed until it commits. Keys only grow, so one query above the newest known key finds additions of others.
 * The same query reads which names are paused and which are limited, because another process can change that at any time.
 */
export class Definitions {
  readonly #db: Database.Database;
  readonly #keys = new KeysByName();
  readonly #definitions = new Map<number, Definition & { readonly kind: DefinitionKind }>();
  /** Names that are paused, as of the last query. Only valid directly after it. */
  #paused: ReadonlySet<string> = none;
  /** Keys of limited definitions, as of the last query. A definition stays limited. */
  readonly #limited = new Set<number>();
  #knownUpTo = 0;
  #confirmedUpTo = 0;
  #unconfirmed: Row[] = [];
  readonly #selectNewer;
  readonly #insert;

  constructor(db: Database.Database) {
    this.#db = db;
    this.#selectNewer = db.prepare<[number], Row>(
      `SELECT definition_key AS definitionKey, kind, name, version FROM definitions WHERE definition_key > ?
       UNION ALL SELECT ${pausedKey}, kind, name, '' FROM paused_definitions
       UNION ALL SELECT -definition_key, '', '', '' FROM limits`,
    );
    this.#insert = db.prepare<[string, string, string]>(
      'INSERT INTO definitions (kind, name, version) VALUES (?, ?, ?)',
    );
  }

  /** Returns the key of a definition, and inserts it if needed. Call it in a transaction. */
  intern(kind: DefinitionKind, name: string, version: string | null): number {
    const known = this.find(kind, name, version);
    if (known !== undefined) return known;
    const definitionKey = Number(this.#insert.run(kind, name, version ?? '').lastInsertRowid);
    this.#remember({ definitionKey, kind, name, version: version ?? '' });
    return definitionKey;
  }

  /** Returns the key of a definition, or `undefined` if it is not in the store. */
  find(kind: DefinitionKind, name: string, version: string | null): number | undefined {
    const cached = this.#keys.get(kind, name, version);
    if (cached !== undefined) return cached;
    this.#refresh();
    return this.#keys.get(kind, name, version);
  }

  /** Returns the keys of the given definitions that are in the store. */
  findAll(kind: DefinitionKind, definitions: readonly Definition[]): readonly number[] {
    this.#refresh();
    const keys = new Set<number>();
    for (const { name, version } of definitions) {
      const key = this.#keys.get(kind, name, version);
      if (key !== undefined) keys.add(key);
    }
    return [...keys];
  }

  /** Returns the keys of the given definitions that are in the store, apart if paused. `undefined` means all. */
  findByPause(
    kind: DefinitionKind,
    definitions: readonly Definition[] | undefined,
  ): { readonly claimable: readonly number[]; readonly paused: readonly number[] } {
    const keys = definitions === undefined ? this.keysOf([kind]) : this.findAll(kind, definitions);
    if (this.#paused.size === 0) return { claimable: keys, paused: [] };
    const [claimable, paused]: [number[], number[]] = [[], []];
    for (const key of keys) (this.#isPaused(key) ? paused : claimable).push(key);
    return { claimable, paused };
  }

  /**
   * Divides keys into those of unlimited and of limited definitions. Calls of limited tasks are in neither: they are claimed
   * with the runs. Valid after a query in the same transaction.
   */
  byLimit(keys: readonly number[]): {
    readonly plain: readonly number[];
    readonly limited: readonly number[];
  } {
    if (this.#limited.size === 0) return { plain: keys, limited: [] };
    const [plain, limited]: [number[], number[]] = [[], []];
    for (const key of keys) {
      if (this.#limited.has(key)) limited.push(key);
      else if (!this.#isCallOfLimited(key)) plain.push(key);
    }
    return { plain, limited };
  }

  #isCallOfLimited(definitionKey: number): boolean {
    const { kind, name } = this.get(definitionKey);
    const task = kind === 'activity' ? calledTask(name) : undefined;
    const taskKey = task === undefined ? undefined : this.#keys.get('task', task, null);
    return taskKey !== undefined && this.#limited.has(taskKey);
  }

  /** Returns the keys of paused definitions. */
  pausedKeys(): readonly number[] {
    this.#refresh();
    if (this.#paused.size === 0) return [];
    return [...this.#definitions.keys()].filter((key) => this.#isPaused(key));
  }

  /** Returns a definition by its key, or by the negative key that rows of paused instances have. */
  get(queueKey: number): Definition & { readonly kind: DefinitionKind } {
    const definitionKey = Math.abs(queueKey);
    if (!this.#definitions.has(definitionKey)) this.#refresh();
    // In a damaged store a definition can be missing. Its rows get a name that no worker runs.
    return this.#definitions.get(definitionKey) ?? missing;
  }

  /** The keys of all definitions of some kinds, optionally with one of some names, and a version. */
  keysOf(
    kinds: readonly DefinitionKind[],
    names?: readonly string[],
    version?: string,
  ): readonly number[] {
    this.#refresh();
    const keys: number[] = [];
    for (const [key, definition] of this.#definitions) {
      const isWanted =
        kinds.includes(definition.kind) &&
        (names === undefined || names.includes(definition.name)) &&
        (version === undefined || definition.version === version);
      if (isWanted) keys.push(key);
    }
    return keys;
  }

  /** Call it after a commit: new definitions are permanent. */
  confirm(): void {
    this.#confirmedUpTo = this.#knownUpTo;
    if (this.#unconfirmed.length > 0) this.#unconfirmed = [];
  }

  /** Call it after a rollback: new definitions may be gone. */
  dropUnconfirmed(): void {
    this.#knownUpTo = this.#confirmedUpTo;
    if (this.#unconfirmed.length === 0) return;
    for (const { definitionKey, kind, name, version } of this.#unconfirmed) {
      this.#keys.delete(kind, name, version === '' ? null : version);
      this.#definitions.delete(definitionKey);
    }
    this.#unconfirmed = [];
  }

  #refresh(): void {
    let paused: Set<string> | undefined;
    for (const row of this.#selectNewer.all(this.#knownUpTo)) {
      const { definitionKey, kind, name } = row;
      if (definitionKey < pausedKey) this.#limited.add(-definitionKey);
      else if (definitionKey === pausedKey) (paused ??= new Set()).add(pausedNameOf(kind, name));
      else {
        this.#remember(row);
        this.#knownUpTo = Math.max(this.#knownUpTo, definitionKey);
      }
    }
    this.#paused = paused ?? none;
    if (!this.#db.inTransaction) this.#confirmedUpTo = this.#knownUpTo;
  }

  #isPaused(definitionKey: number): boolean {
    const { kind, name } = this.get(definitionKey);
    return this.#paused.has(pausedNameOf(kind, name));
  }

  #remember(row: Row): void {
    const { definitionKey, kind, name } = row;
    const version = row.version === '' ? null : row.version;
    this.#keys.set({ kind, name, version }, definitionKey);
    this.#definitions.set(definitionKey, { kind, name, version });
    if (this.#db.inTransaction) this.#unconfirmed.push(row);
  }
}

const none: ReadonlySet<string> = new Set();

// Marks the rows of paused definitions: no definition has this key.
const pausedKey = 0;

function pausedNameOf(kind: DefinitionKind, name: string): string {
  return `${kind} ${name}`;
}

const missing = { kind: 'activity', name: '(missing)', version: null } as const;

interface Row {
  readonly definitionKey: number;
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly version: string;
}

type VersionKeys = Map<string | null, number>;

/** Keys by kind, name and version. Nested maps, because a joined text would be built and hashed for each start. */
class KeysByName {
  readonly #byName: Readonly<Record<DefinitionKind, Map<string, VersionKeys>>> = {
    orchestration: new Map(),
    activity: new Map(),
    task: new Map(),
  };

  get(kind: DefinitionKind, name: string, version: string | null): number | undefined {
    return this.#byName[kind].get(name)?.get(version);
  }

  set({ kind, name, version }: Definition & { readonly kind: DefinitionKind }, key: number): void {
    const byName = this.#byName[kind];
    const versions: VersionKeys = byName.get(name) ?? new Map();
    byName.set(name, versions.set(version, key));
  }

  delete(kind: DefinitionKind, name: string, version: string | null): void {
    this.#byName[kind].get(name)?.delete(version);
  }
}
