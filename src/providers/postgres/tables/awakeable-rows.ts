import type { AwakeableChanges } from '../../contract/updates.ts';
import { keys, prepare, rowIdOf, rowsOf, strings } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** An awakeable as stored. */
export interface AwakeableRow {
  readonly tokenHash: string;
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
  readonly answerKey: string | null;
}

interface OperationKey {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
}

type ExecutionKey = Omit<OperationKey, 'operation'>;
type NewRow = OperationKey & { readonly tokenHash: string };

/** The rows of `awakeables`. */
export class AwakeableRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  find(tx: Transaction, tokenHashes: readonly string[]): Promise<readonly AwakeableRow[]> {
    return tx.query<AwakeableRow>(...this.#sql.find({ tokenHashes }));
  }

  /** Writes the changes of turns, whose instances are locked. */
  async change(
    tx: Transaction,
    changes: readonly (ExecutionKey & { readonly awakeables: AwakeableChanges })[],
  ): Promise<void> {
    const created: NewRow[] = [];
    const withdrawn: OperationKey[] = [];
    const closed: ExecutionKey[] = [];
    for (const { instanceKey, executionId, awakeables } of changes) {
      const execution = { instanceKey, executionId };
      for (const one of awakeables.created) created.push({ ...execution, ...one });
      for (const operation of awakeables.withdrawn) withdrawn.push({ ...execution, operation });
      if (awakeables.closes) closed.push(execution);
    }
    if (created.length > 0) await tx.execute(...this.#sql.insert({ rows: created }));
    if (withdrawn.length > 0) await tx.execute(...this.#sql.withdraw({ operations: withdrawn }));
    if (closed.length > 0) await tx.execute(...this.#sql.close({ executions: closed }));
  }

  /** Marks awakeables of locked instances as answered. */
  async answer(
    tx: Transaction,
    answers: readonly { readonly tokenHash: string; readonly answerKey: string }[],
  ): Promise<void> {
    if (answers.length > 0) await tx.execute(...this.#sql.answer({ answers }));
  }

  async deleteOfInstances(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.deleteOf({ instanceKeys }));
  }
}

function statements(schema: string) {
  const table = `${schema}.awakeables`;
  return {
    find: prepare(
      'perdure_find_awakeables',
      { tokenHashes: strings() },
      ({ tokenHashes }) => `SELECT token_hash AS "tokenHash", instance_key AS "instanceKey",
          execution_id AS "executionId", operation, answer_key AS "answerKey"
        FROM ${table} WHERE token_hash = ANY (${tokenHashes})`,
    ),
    // A retry creates the awakeables again that its kept events wait for. A fork has the tokens of its original.
    insert: prepare(
      'perdure_insert_awakeables',
      {
        rows: rowsOf<NewRow>()({
          token_hash: 'text',
          instance_key: 'bigint',
          execution_id: 'int',
          operation: 'int',
        }),
      },
      ({ rows }) => `INSERT INTO ${table} AS existing (${rows.names})
        SELECT ${rows.names} FROM ${rows.as('new')}
        ON CONFLICT (token_hash) DO UPDATE SET execution_id = excluded.execution_id, answer_key = NULL
          WHERE existing.instance_key = excluded.instance_key`,
    ),
    withdraw: prepare(
      'perdure_withdraw_awakeables',
      {
        operations: rowsOf<OperationKey>()({
          instance_key: 'bigint',
          execution_id: 'int',
          operation: 'int',
        }),
      },
      ({ operations }) => `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
          SELECT found.row_id FROM ${operations.as('gone')}
          ${rowIdOf(
            table,
            `one.instance_key = gone.instance_key AND one.execution_id = gone.execution_id
              AND one.operation = gone.operation AND (one.answer_key IS NULL) IS TRUE`,
          )}))`,
    ),
    close: prepare(
      'perdure_close_awakeables',
      { executions: rowsOf<ExecutionKey>()({ instance_key: 'bigint', execution_id: 'int' }) },
      ({ executions }) => `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
          SELECT closed.ctid FROM ${executions.as('ended')}
          CROSS JOIN LATERAL (
            SELECT one.ctid FROM ${table} AS one WHERE one.instance_key = ended.instance_key
              AND ((one.answer_key IS NULL) IS TRUE OR one.execution_id < ended.execution_id)
            OFFSET 0) AS closed))`,
    ),
    answer: prepare(
      'perdure_answer_awakeables',
      {
        answers: rowsOf<{ readonly tokenHash: string; readonly answerKey: string }>()({
          token_hash: 'text',
          answer_key: 'text',
        }),
      },
      ({ answers }) => `UPDATE ${table} AS stored SET answer_key = given.answer_key
        FROM ${answers.as('given')}
        ${rowIdOf(table, 'one.token_hash = given.token_hash')}
        WHERE stored.ctid = found.row_id`,
    ),
    deleteOf: prepare(
      'perdure_delete_awakeables',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `DELETE FROM ${table} WHERE instance_key = ANY (${instanceKeys})`,
    ),
  };
}
