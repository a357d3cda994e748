import type { DefinitionKind } from '../../contract/pausing.ts';
import { calledTask, taskActivityName } from '../../../model/task-call.ts';
import { keys, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import type { Scope } from '../driver/scope.ts';

export type { DefinitionKind };

/** A definition whose key is requested. */
export interface WantedDefinition {
  readonly kind: DefinitionKind;
  readonly name: string;
  /** `null` for an orchestration without a chosen version, and for activities and tasks. */
  readonly version: string | null;
}

/** Returns the key of a definition that was interned. Throws for any other. */
export type DefinitionKeys = (kind: DefinitionKind, name: string, version: string | null) => number;

interface Row {
  readonly definitionKey: number;
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly version: string;
}

/**
 * Maps names and versions to integer keys. Rows are never updated or deleted, so the cache has no expiry. New rows are
 * cached once their transaction has committed.
 */
export class Definitions {
  readonly #keys = new Map<string, number>();
  readonly #definitions = new Map<number, WantedDefinition>();
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Returns the keys of definitions. Inserts missing rows. */
  async intern(scope: Scope, wanted: readonly WantedDefinition[]): Promise<DefinitionKeys> {
    const unknown = new Map<string, WantedDefinition>();
    for (const one of wanted) {
      const cacheKey = cacheKeyOf(one);
      if (!this.#keys.has(cacheKey)) unknown.set(cacheKey, one);
    }
    const made = new Map<string, number>();
    if (unknown.size > 0) {
      const definitions = [...unknown.values()];
      const [, rows] = await Promise.all([
        scope.tx.execute(...this.#sql.insert({ definitions })),
        scope.tx.query<Row>(...this.#sql.select({ definitions })),
      ]);
      for (const row of rows) made.set(cacheKeyOf(toDefinition(row)), row.definitionKey);
      scope.afterCommit(() => this.#remember(rows));
    }
    return (kind, name, version) => {
      const cacheKey = cacheKeyOf({ kind, name, version });
      const key = this.#keys.get(cacheKey) ?? made.get(cacheKey);
      if (key === undefined)
        throw new Error(`The ${kind} ${JSON.stringify(name)} was not interned.`);
      return key;
    };
  }

  /** Returns the cached key of a definition, or `undefined`. */
  find({ kind, name, version }: WantedDefinition): number | undefined {
    return this.#keys.get(cacheKeyOf({ kind, name, version }));
  }

  /** Returns the cached key of the definition whose limits count calls of an activity, or `undefined`. */
  findLimited(activity: string): number | undefined {
    const task = calledTask(activity);
    const kind = task === undefined ? 'activity' : 'task';
    return this.find({ kind, name: task ?? activity, version: null });
  }

  /** Whether all of these keys are loaded. As for `load` and `get`, rows of paused instances have negative keys. */
  knows(keys: readonly number[]): boolean {
    return keys.every((key) => this.#definitions.has(Math.abs(key)));
  }

  /** Loads the definitions of keys for `get`. */
  async load(tx: Transaction, keys: readonly number[]): Promise<void> {
    const unknown = new Set(keys.map(Math.abs).filter((key) => !this.#definitions.has(key)));
    if (unknown.size === 0) return;
    const rows = await tx.query<Row>(...this.#sql.selectByKey({ keys: [...unknown] }));
    // Fills the cache by key only: the transaction may read its own definitions, which may never be committed. A key
    // that is rolled back is not reused, so its name is harmless.
    for (const row of rows) this.#name(row);
  }

  /** Returns a loaded definition. */
  get(definitionKey: number): WantedDefinition {
    // The row is missing only in a damaged database. No worker has this name, so other instances are not affected.
    return this.#definitions.get(Math.abs(definitionKey)) ?? missing;
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

function statements(schema: string) {
  const columns = 'definition_key AS "definitionKey", kind, name, version';
  const definitions = rowsOf<WantedDefinition>()({
    kind: 'text',
    name: 'text',
    version: ['text', ({ version }) => version ?? ''],
  });
  return {
    insert: prepare(
      'perdure_insert_definitions',
      { definitions },
      ({ definitions: { names, as } }) => `INSERT INTO ${schema}.definitions (${names})
        SELECT ${names} FROM ${as('wanted')} ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING`,
    ),
    select: prepare(
      'perdure_select_definitions',
      { definitions },
      ({ definitions: { names, as } }) =>
        `SELECT ${columns} FROM ${as('wanted')} JOIN ${schema}.definitions USING (${names})`,
    ),
    selectByKey: prepare(
      'perdure_select_definitions_by_key',
      { keys: keys('int') },
      ({ keys }) =>
        `SELECT ${columns} FROM ${schema}.definitions WHERE definition_key = ANY (${keys})`,
    ),
  };
}

const missing: WantedDefinition = { kind: 'activity', name: '(missing)', version: null };

function toDefinition({ kind, name, version }: Row): WantedDefinition {
  return { kind, name, version: version === '' ? null : version };
}

// The length prefix distinguishes ('a', 'bc') from ('ab', 'c').
function cacheKeyOf({ kind, name, version }: WantedDefinition): string {
  return `${kind} ${(version ?? '').length} ${version ?? ''}${name}`;
}

const callPrefix = taskActivityName('');

/** SQL text: the key of the limited task whose calls have this definition key, or NULL. */
function limitedTaskOf(schema: string, definitionKey: string): string {
  // Subqueries by unique keys, so that no plan joins tables.
  return `(SELECT own.definition_key FROM ${schema}.limits AS own WHERE own.definition_key = (
        SELECT task.definition_key FROM ${schema}.definitions AS task
        WHERE task.kind = 'task' AND task.version = '' AND task.name = (
          SELECT substr(call.name, ${callPrefix.length + 1}) FROM ${schema}.definitions AS call
          WHERE call.definition_key = abs(${definitionKey}) AND call.kind = 'activity'
            AND starts_with(call.name, '${callPrefix}'))))`;
}

/** SQL text: whether items of a definition are counted by limits, its own or those of the task that it calls. */
export function isCounted(schema: string, definitionKey: string): string {
  return `((SELECT 1 FROM ${schema}.limits LIMIT 1) IS NOT NULL AND (
      (SELECT 1 FROM ${schema}.limits AS own WHERE own.definition_key = abs(${definitionKey})) IS NOT NULL
      OR ${limitedTaskOf(schema, definitionKey)} IS NOT NULL))`;
}

/** SQL text: the definition whose limits count items of a limited definition, negative for a negative key. */
export function limitKeyOf(schema: string, definitionKey: string): string {
  return `sign(${definitionKey})::int * coalesce(${limitedTaskOf(schema, definitionKey)}, abs(${definitionKey}))`;
}

/** SQL text: the keys of the definitions that the limits of one count: itself, and of a task its calls. */
export function countedKeys(schema: string, limitKey: string): string {
  return `ARRAY[${limitKey}, (SELECT call.definition_key FROM ${schema}.definitions AS call
      WHERE call.kind = 'activity' AND call.version = '' AND call.name = (
        SELECT '${callPrefix}' || task.name FROM ${schema}.definitions AS task
        WHERE task.definition_key = ${limitKey} AND task.kind = 'task'))]`;
}
