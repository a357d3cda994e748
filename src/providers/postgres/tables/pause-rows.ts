import type {
  DefinitionKind,
  PauseDefinition,
  PausedDefinition,
  ResumeDefinition,
} from '../../contract/pausing.ts';
import { keys, one, prepare, rowIdOf, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** An instance to pause. */
export interface NewPause {
  readonly instanceKey: number;
  readonly reason: string | null;
  readonly actor: string | null;
  readonly tree: boolean;
}

/**
 * Pauses in rows of `instances`, and in the queue rows of paused instances.
 *
 * An orchestration that is paused has a row in `instance_locks`, even without messages. All its queue rows have negative
 * definition keys; see `queueKey`. The transaction has locked the instances.
 */
export class PauseRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Pauses live instances. */
  async pause(tx: Transaction, pauses: readonly NewPause[], now: number): Promise<void> {
    if (pauses.length === 0) return;
    const instanceKeys = pauses.map(({ instanceKey }) => instanceKey);
    await Promise.all([
      tx.execute(...this.#sql.pause({ pauses, now })),
      tx.execute(...this.#sql.parkLocks({ instanceKeys })),
      tx.execute(...this.#sql.parkItems({ instanceKeys })),
    ]);
  }

  /** Ends the pauses of instances. */
  async lift(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length === 0) return;
    await Promise.all([
      tx.execute(...this.#sql.lift({ instanceKeys })),
      tx.execute(...this.#sql.unparkLocks({ instanceKeys })),
      tx.execute(...this.#sql.deleteEmptyLocks({ instanceKeys })),
      tx.execute(...this.#sql.unparkItems({ instanceKeys })),
    ]);
  }

  /** Reads the pauses that include the descendants of their instance. */
  async selectTreePauses(
    tx: Transaction,
    instanceKeys: readonly number[],
  ): Promise<readonly NewPause[]> {
    if (instanceKeys.length === 0) return [];
    return tx.query<NewPause>(...this.#sql.selectTreePauses({ instanceKeys }));
  }

  /** The names of paused definitions of a kind. */
  async selectPausedNames(tx: Transaction, kind: DefinitionKind): Promise<ReadonlySet<string>> {
    const rows = await tx.query<{ name: string }>(...this.#sql.selectPausedNames({ kind }));
    return new Set(rows.map(({ name }) => name));
  }

  /** Returns whether each definition was not paused before. */
  pauseDefinitions(
    tx: Transaction,
    definitions: readonly PauseDefinition[],
    now: number,
  ): Promise<readonly Pick<ResumeDefinition, 'kind' | 'name'>[]> {
    return tx.query(...this.#sql.pauseDefinitions({ definitions, now }));
  }

  /** Returns the definitions that were paused. */
  resumeDefinitions(
    tx: Transaction,
    definitions: readonly ResumeDefinition[],
  ): Promise<readonly Pick<ResumeDefinition, 'kind' | 'name'>[]> {
    return tx.query(...this.#sql.resumeDefinitions({ definitions }));
  }

  /** Returns those of the definitions that the store knows. */
  findDefinitions(
    tx: Transaction,
    definitions: readonly ResumeDefinition[],
  ): Promise<readonly Pick<ResumeDefinition, 'kind' | 'name'>[]> {
    return tx.query(...this.#sql.findDefinitions({ definitions }));
  }

  listDefinitions(tx: Transaction): Promise<readonly PausedDefinition[]> {
    return tx.query<PausedDefinition>(...this.#sql.listDefinitions({}));
  }
}

/** Whether any definition is paused. */
export function hasPausedDefinitions(schema: string): string {
  return `EXISTS (SELECT FROM ${schema}.paused_definitions)`;
}

/** Whether one of the definitions with these keys is paused. Reads no other table while nothing is paused. */
export function isAnyPaused(schema: string, definitionKeys: string): string {
  return `EXISTS (SELECT FROM ${schema}.paused_definitions AS paused CROSS JOIN LATERAL (
      SELECT FROM ${schema}.definitions AS named WHERE named.kind = paused.kind AND named.name = paused.name
        AND named.definition_key = ANY (${definitionKeys}) LIMIT 1) AS one)`;
}

function statements(schema: string) {
  const [instances, locks, items] = [
    `${schema}.instances`,
    `${schema}.instance_locks`,
    `${schema}.worker_queue`,
  ];
  const definitionsTable = `${schema}.paused_definitions`;
  const instanceKeys = keys();
  const now = one<number>('bigint');
  const names = rowsOf<ResumeDefinition>()({
    kind: ['text', ({ kind }) => kind],
    name: ['text', ({ name }) => name],
  });
  return {
    pause: prepare(
      'perdure_pause_instances',
      {
        pauses: rowsOf<NewPause>()({
          instance_key: 'bigint',
          reason: 'text',
          actor: 'text',
          tree: 'boolean',
        }),
        now,
      },
      ({ pauses, now }) => `UPDATE ${instances} AS instance
        SET paused_at = ${now}, paused_reason = pause.reason, paused_actor = pause.actor, paused_tree = pause.tree
        FROM ${pauses.as('pause')} ${rowIdOf(instances, 'one.instance_key = pause.instance_key')}
        WHERE instance.ctid = found.row_id AND (ended_at IS NULL) IS TRUE AND (paused_at IS NULL) IS TRUE`,
    ),
    parkLocks: prepare(
      'perdure_park_locks',
      { instanceKeys },
      ({ instanceKeys }) => `INSERT INTO ${locks} AS lock (instance_key, definition_key, claims)
        SELECT instance_key, -definition_key, 0 FROM ${instances}
        WHERE instance_key = ANY (${instanceKeys}) AND priority IS NULL ORDER BY instance_key
        ON CONFLICT (instance_key) DO UPDATE SET definition_key = -abs(lock.definition_key)`,
    ),
    parkItems: prepare(
      'perdure_park_items',
      { instanceKeys },
      ({
        instanceKeys,
      }) => `UPDATE ${items} SET definition_key = -abs(definition_key), limit_key = -abs(limit_key)
        WHERE instance_key = ANY (${instanceKeys})`,
    ),
    lift: prepare(
      'perdure_lift_pauses',
      { instanceKeys },
      ({ instanceKeys }) => `UPDATE ${instances}
        SET paused_at = NULL, paused_reason = NULL, paused_actor = NULL, paused_tree = NULL
        WHERE instance_key = ANY (${instanceKeys})`,
    ),
    unparkLocks: prepare(
      'perdure_unpark_locks',
      { instanceKeys },
      ({ instanceKeys }) => `UPDATE ${locks} SET definition_key = abs(definition_key)
        WHERE instance_key = ANY (${instanceKeys})`,
    ),
    // An instance without messages, lock, claims and hold-back has no row.
    deleteEmptyLocks: prepare(
      'perdure_delete_empty_unparked',
      { instanceKeys },
      ({ instanceKeys }) => `DELETE FROM ${locks}
        WHERE instance_key = ANY (${instanceKeys}) AND next_at IS NULL AND held_until IS NULL
          AND lock_token IS NULL AND claims = 0`,
    ),
    unparkItems: prepare(
      'perdure_unpark_items',
      { instanceKeys },
      ({
        instanceKeys,
      }) => `UPDATE ${items} SET definition_key = abs(definition_key), limit_key = abs(limit_key)
        WHERE instance_key = ANY (${instanceKeys})`,
    ),
    selectTreePauses: prepare(
      'perdure_select_tree_pauses',
      { instanceKeys },
      ({ instanceKeys }) => `SELECT instance_key AS "instanceKey", paused_reason AS reason,
          paused_actor AS actor, paused_tree AS tree
        FROM ${instances} WHERE instance_key = ANY (${instanceKeys}) AND paused_tree`,
    ),
    selectPausedNames: prepare(
      'perdure_select_paused_names',
      { kind: one<string>('text') },
      ({ kind }) => `SELECT name FROM ${definitionsTable} WHERE kind = ${kind}`,
    ),
    pauseDefinitions: prepare(
      'perdure_pause_definitions',
      {
        definitions: rowsOf<PauseDefinition>()({
          kind: ['text', ({ kind }) => kind],
          name: ['text', ({ name }) => name],
          reason: ['text', ({ reason }) => reason],
          actor: ['text', ({ actor }) => actor],
        }),
        now,
      },
      ({ definitions, now }) => `INSERT INTO ${definitionsTable} (${definitions.names}, paused_at)
        SELECT ${definitions.names}, ${now} FROM ${definitions.as('wanted')} ORDER BY kind, name
        ON CONFLICT (kind, name) DO NOTHING RETURNING kind, name`,
    ),
    resumeDefinitions: prepare(
      'perdure_resume_definitions',
      { definitions: names },
      ({
        definitions,
      }) => `DELETE FROM ${definitionsTable} AS paused USING ${definitions.as('wanted')}
        WHERE paused.kind = wanted.kind AND paused.name = wanted.name RETURNING paused.kind, paused.name`,
    ),
    findDefinitions: prepare(
      'perdure_find_definitions',
      { definitions: names },
      ({
        definitions,
      }) => `SELECT DISTINCT wanted.kind, wanted.name FROM ${definitions.as('wanted')}
        JOIN ${schema}.definitions AS known ON known.kind = wanted.kind AND known.name = wanted.name`,
    ),
    listDefinitions: prepare(
      'perdure_list_paused_definitions',
      {},
      () =>
        `SELECT kind, name, paused_at AS at, reason, actor FROM ${definitionsTable} ORDER BY kind, name`,
    ),
  };
}
