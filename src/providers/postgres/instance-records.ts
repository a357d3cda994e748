import type { InstanceStatus } from '../../model/status.ts';
import type {
  ExecutionRecord,
  InstanceRecord,
  ListExecutionsParams,
  ListInstancesParams,
} from '../instances.ts';
import { toInstanceRecord, type InstanceRecordRow } from '../instance-record-row.ts';
import { text, texts } from './arrays.ts';
import type { Statement, Transaction } from './connection.ts';
import type { Definitions } from './definitions.ts';
import { listQuery } from './list-query.ts';
import { RunState } from './run-state.ts';

interface ExecutionRow extends Omit<ExecutionRecord, 'version' | 'status'> {
  readonly definitionKey: number;
  readonly status: InstanceStatus | 'continuedAsNew';
}

const columns = (
  run: RunState,
) => `instances.instance_key AS "instanceKey", instance_id AS "instanceId", incarnation,
  instances.definition_key AS "definitionKey", ${run.status('instances')} AS status, execution_id AS "executionId",
  parent_instance_id AS "parentInstanceId", output, failure, custom_status AS "customStatus",
  custom_status_version AS "customStatusVersion",
  created_at AS "createdAt", ${run.startedAt('instances')} AS "startedAt", ended_at AS "endedAt",
  cancel_requested_at AS "cancelRequestedAt", cancel_reason AS "cancelReason", cancel_actor AS "cancelActor",
  cleanup_skipped AS "cleanupSkipped", leaked, terminate_reason AS "terminateReason",
  terminate_actor AS "terminateActor", blocked_reason AS "blockedReason", blocked_at AS "blockedAt", priority, input,
  options, run_at AS "runAt", expires_at AS "expiresAt", dedupe_key AS "dedupeKey", failures,
  ${run.onFail('instances')} AS "onFail", on_fail_failure AS "onFailFailure"`;

/** Reads instances as clients see them. */
export class InstanceRecords {
  readonly #schema: string;
  readonly #definitions: Definitions;
  readonly #columns: string;
  readonly #source: string;
  readonly #select: Statement;
  readonly #selectKey: Statement;
  readonly #selectExecutions: Statement;
  // One statement per shape of a filter; there are few shapes.
  readonly #lists = new Map<string, Statement>();

  constructor(schema: string, definitions: Definitions) {
    this.#schema = schema;
    this.#definitions = definitions;
    const run = new RunState(schema);
    this.#columns = columns(run);
    this.#source = `${schema}.instances LEFT JOIN LATERAL (
        SELECT blocked_reason, blocked_at FROM ${schema}.instance_locks AS one
        WHERE one.instance_key = instances.instance_key LIMIT 1) AS lock ON TRUE`;
    this.#select = {
      name: 'perdure_select_records',
      text: `SELECT ${this.#columns} FROM ${this.#source} WHERE instance_id = ANY ($1::text[])`,
    };
    this.#selectKey = {
      name: 'perdure_select_instance_key',
      text: `SELECT instance_key AS "instanceKey" FROM ${schema}.instances WHERE instance_id = $1`,
    };
    this.#selectExecutions = {
      name: 'perdure_select_executions',
      text: `SELECT past.execution_id AS "executionId", past.definition_key AS "definitionKey", past.status,
          past.started_at AS "startedAt", past.ended_at AS "endedAt", past.history_length AS "historyLength"
        FROM ${schema}.instances CROSS JOIN LATERAL (
          SELECT * FROM ${schema}.executions AS one
          WHERE one.instance_key = instances.instance_key AND one.execution_id > $2::int
          ORDER BY one.execution_id LIMIT $3::bigint) AS past
        WHERE instance_id = $1
        UNION ALL
        SELECT execution_id, definition_key, ${run.status('instances')},
          ${run.executionStartedAt('instances')}, ended_at, history_length
        FROM ${schema}.instances WHERE instance_id = $1 AND execution_id > $2::int
        ORDER BY 1 LIMIT $3::bigint`,
    };
  }

  async get(
    tx: Transaction,
    instanceIds: readonly string[],
  ): Promise<readonly (InstanceRecord | undefined)[]> {
    if (instanceIds.length === 0) return [];
    const records = await this.#toRecords(
      tx,
      await tx.query<InstanceRecordRow>(this.#select, [texts(instanceIds)]),
    );
    const byId = new Map(records.map((record) => [record.instanceId, record]));
    return instanceIds.map((id) => byId.get(id));
  }

  async list(tx: Transaction, params: ListInstancesParams): Promise<readonly InstanceRecord[]> {
    const query = listQuery(params, this.#schema);
    if (query === undefined) return [];
    return this.#toRecords(
      tx,
      await tx.query<InstanceRecordRow>(this.#listStatement(query.keys), query.values),
    );
  }

  async listExecutions(
    tx: Transaction,
    { instanceId, after, limit }: ListExecutionsParams,
  ): Promise<readonly ExecutionRecord[]> {
    const rows = await tx.query<ExecutionRow>(this.#selectExecutions, [
      text(instanceId),
      after,
      Math.max(limit, 0),
    ]);
    await this.#definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    );
    return rows.map((row) => ({
      executionId: row.executionId,
      status: executionStatus(row),
      version: this.#definitions.get(row.definitionKey).version,
      startedAt: row.startedAt,
      endedAt: row.endedAt,
      historyLength: row.historyLength,
    }));
  }

  /** The key of an instance; `undefined` when there is none. */
  async keyOf(tx: Transaction, instanceId: string): Promise<number | undefined> {
    const [row] = await tx.query<{ instanceKey: number }>(this.#selectKey, [text(instanceId)]);
    return row?.instanceKey;
  }

  #listStatement(keys: string): Statement {
    const known = this.#lists.get(keys);
    if (known !== undefined) return known;
    const statement = {
      name: `perdure_list_${this.#lists.size}`,
      text: `SELECT ${this.#columns} FROM ${this.#source}
        WHERE instance_key = ANY (ARRAY(${keys})) ORDER BY instance_key DESC LIMIT $1::int`,
    };
    this.#lists.set(keys, statement);
    return statement;
  }

  async #toRecords(
    tx: Transaction,
    rows: readonly InstanceRecordRow[],
  ): Promise<readonly InstanceRecord[]> {
    await this.#definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    );
    return rows.map((row) => this.#toRecord(row));
  }

  #toRecord(row: InstanceRecordRow): InstanceRecord {
    return toInstanceRecord(row, this.#definitions.get(row.definitionKey));
  }
}

/** The next execution of a running instance is pending until its own first turn. */
function executionStatus({ status, startedAt }: ExecutionRow): ExecutionRecord['status'] {
  const isPending = startedAt === null && (status === 'pending' || status === 'running');
  return isPending ? 'pending' : status;
}
