import type Database from 'better-sqlite3';

export type DefinitionKind = 'orchestration' | 'activity';

export interface Definition {
  readonly name: string;
  /** `null` while no version is picked; activities have none. */
  readonly version: string | null;
}

/**
 * Names and versions as integer keys. Rows are never changed or deleted, so they are cached for ever, except
 * those met inside a transaction: these stay on probation until it has committed.
 */
export class Definitions {
  readonly #db: Database.Database;
  readonly #keys = new Map<string, number>();
  readonly #definitions = new Map<number, Definition>();
  #onProbation: { readonly cacheKey: string; readonly definitionKey: number }[] = [];
  readonly #select;
  readonly #selectByKey;
  readonly #selectAll;
  readonly #selectVersions;
  readonly #insert;

  constructor(db: Database.Database) {
    this.#db = db;
    this.#select = db
      .prepare<[string, string, string], number>(
        'SELECT definition_key FROM definitions WHERE kind = ? AND name = ? AND version = ?',
      )
      .pluck();
    this.#selectByKey = db.prepare<
      [number],
      { kind: DefinitionKind; name: string; version: string }
    >('SELECT kind, name, version FROM definitions WHERE definition_key = ?');
    this.#selectAll = db
      .prepare<[string], number>('SELECT definition_key FROM definitions WHERE kind = ?')
      .pluck();
    this.#selectVersions = db
      .prepare<[string, string], number>(
        'SELECT definition_key FROM definitions WHERE kind = ? AND name = ?',
      )
      .pluck();
    this.#insert = db.prepare<[string, string, string]>(
      'INSERT INTO definitions (kind, name, version) VALUES (?, ?, ?)',
    );
  }

  /** The key of a definition, made if need be; call it inside a transaction. */
  intern(kind: DefinitionKind, name: string, version: string | null): number {
    const known = this.find(kind, name, version);
    if (known !== undefined) return known;
    const key = Number(this.#insert.run(kind, name, version ?? '').lastInsertRowid);
    this.#remember(kind, { name, version }, key);
    return key;
  }

  /** The key of a definition that some instance or work item has had. */
  find(kind: DefinitionKind, name: string, version: string | null): number | undefined {
    const cached = this.#keys.get(cacheKeyOf(kind, name, version));
    if (cached !== undefined) return cached;
    const key = this.#select.get(kind, name, version ?? '');
    if (key !== undefined) this.#remember(kind, { name, version }, key);
    return key;
  }

  get(definitionKey: number): Definition {
    const cached = this.#definitions.get(definitionKey);
    if (cached !== undefined) return cached;
    const row = this.#selectByKey.get(definitionKey);
    if (row === undefined) throw new Error(`Definition ${definitionKey} is missing.`);
    const definition = { name: row.name, version: row.version === '' ? null : row.version };
    this.#remember(row.kind, definition, definitionKey);
    return definition;
  }

  /** The keys of all definitions of a kind, or of all versions of a name. */
  keysOf(kind: DefinitionKind, name?: string): readonly number[] {
    return name === undefined ? this.#selectAll.all(kind) : this.#selectVersions.all(kind, name);
  }

  /** The transaction has committed: what it made is there to stay. */
  confirm(): void {
    if (this.#onProbation.length > 0) this.#onProbation = [];
  }

  /** A transaction or a savepoint was undone: what it made may be gone. */
  forgetUnconfirmed(): void {
    for (const { cacheKey, definitionKey } of this.#onProbation) {
      this.#keys.delete(cacheKey);
      this.#definitions.delete(definitionKey);
    }
    this.#onProbation = [];
  }

  #remember(kind: DefinitionKind, definition: Definition, definitionKey: number): void {
    const cacheKey = cacheKeyOf(kind, definition.name, definition.version);
    this.#keys.set(cacheKey, definitionKey);
    this.#definitions.set(definitionKey, definition);
    if (this.#db.inTransaction) this.#onProbation.push({ cacheKey, definitionKey });
  }
}

// The length in front keeps ('a', 'bc') and ('ab', 'c') apart.
function cacheKeyOf(kind: DefinitionKind, name: string, version: string | null): string {
  return version === null ? `${kind}:${name}` : `${kind}${version.length}:${version}${name}`;
}
