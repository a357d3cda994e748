import { texts, numbers } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { Scope } from '../driver/scope.ts';

export type DefinitionKind = 'orchestration' | 'activity' | 'task';

interface Definition {
  readonly name: string;
  /** `null` while no version is picked; activities and tasks have none. */
  readonly version: string | null;
}

/** A definition of which the key is wanted. */
export interface WantedDefinition extends Definition {
  readonly kind: DefinitionKind;
}

interface Row {
  readonly definitionKey: number;
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly version: string;
}

/**
 * Names and versions as integer keys. Rows are never changed or deleted, so they are cached for ever; those that a
 * transaction makes, once it has committed.
 */
export class Definitions {
  readonly #keys = new Map<string, number>();
  readonly #definitions = new Map<number, WantedDefinition>();
  readonly #insert: Statement;
  readonly #select: Statement;
  readonly #selectByKey: Statement;

  constructor(schema: string) {
    const columns = 'definition_key AS "definitionKey", kind, name, version';
    const wanted = 'unnest($1::text[], $2::text[], $3::text[]) AS wanted (kind, name, version)';
    this.#insert = {
      name: 'perdure_insert_definitions',
      text: `INSERT INTO ${schema}.definitions (kind, name, version)
        SELECT kind, name, version FROM ${wanted} ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING`,
    };
    this.#select = {
      name: 'perdure_select_definitions',
      text: `SELECT ${columns} FROM ${wanted} JOIN ${schema}.definitions USING (kind, name, version)`,
    };
    this.#selectByKey = {
      name: 'perdure_select_definitions_by_key',
      text: `SELECT ${columns} FROM ${schema}.definitions WHERE definition_key = ANY ($1::int[])`,
    };
  }

  /** The keys of definitions, made if need be. */
  async intern(scope: Scope, wanted: readonly WantedDefinition[]): Promise<DefinitionKeys> {
    const unknown = new Map<string, WantedDefinition>();
    for (const one of wanted) {
      const cacheKey = cacheKeyOf(one);
      if (!this.#keys.has(cacheKey)) unknown.set(cacheKey, one);
    }
    const made = new Map<string, number>();
    if (unknown.size > 0) {
      const all = [...unknown.values()];
      const values = [
        texts(all.map(({ kind }) => kind)),
        texts(all.map(({ name }) => name)),
        texts(all.map(({ version }) => version ?? '')),
      ];
      const [, rows] = await Promise.all([
        scope.tx.execute(this.#insert, values),
        scope.tx.query<Row>(this.#select, values),
      ]);
      for (const row of rows) made.set(cacheKeyOf(toDefinition(row)), row.definitionKey);
      scope.afterCommit(() => this.#remember(rows));
    }
    return (kind, name, version) => {
      const cacheKey = cacheKeyOf({ kind, name, version });
      const key = this.#keys.get(cacheKey) ?? made.get(cacheKey);
      if (key === undefined) throw new Error(`The ${kind} ${name} was not asked for.`);
      return key;
    };
  }

  /** The key of a definition that is known already. */
  find({ kind, name, version }: WantedDefinition): number | undefined {
    return this.#keys.get(cacheKeyOf({ kind, name, version }));
  }

  /** Says whether `get` knows these keys. */
  knows(keys: readonly number[]): boolean {
    return keys.every((key) => this.#definitions.has(key));
  }

  /** Makes `get` know these keys. */
  async load(tx: Transaction, keys: readonly number[]): Promise<void> {
    const unknown = new Set(keys.filter((key) => !this.#definitions.has(key)));
    if (unknown.size === 0) return;
    const rows = await tx.query<Row>(this.#selectByKey, [numbers([...unknown])]);
    // Only for reading: a transaction sees definitions that it has made itself and that may never be committed, and a
    // key that is never used again may keep its name.
    for (const row of rows) this.#name(row);
  }

  /** A definition that was loaded. */
  get(definitionKey: number): WantedDefinition {
    // A row whose definition is gone was damaged: it has no name that anyone could run, and harms no other.
    return this.#definitions.get(definitionKey) ?? missing;
  }

  #remember(rows: readonly Row[]): void {
    for (const row of rows) {
      this.#keys.set(cacheKeyOf(toDefinition(row)), row.definitionKey);
      this.#name(row);
    }
  }

  #name(row: Row): void {
    this.#definitions.set(row.definitionKey, toDefinition(row));
  }
}

/** Answers the key of a definition that was asked for. */
export type DefinitionKeys = (kind: DefinitionKind, name: string, version: string | null) => number;

const missing: WantedDefinition = { kind: 'activity', name: '(missing)', version: null };

function toDefinition({ kind, name, version }: Row): WantedDefinition {
  return { kind, name, version: version === '' ? null : version };
}

// The length in front keeps ('a', 'bc') and ('ab', 'c') apart.
function cacheKeyOf({ kind, name, version }: WantedDefinition): string {
  return `${kind} ${(version ?? '').length} ${version ?? ''}${name}`;
}
