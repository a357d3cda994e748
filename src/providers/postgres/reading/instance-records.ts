import type { InstanceStatus } from '../../../model/status.ts';
import type {
  ExecutionRecord,
  InstanceRecord,
  ListExecutionsParams,
  ListInstancesParams,
} from '../../contract/instances.ts';
import { toInstanceRecord, type InstanceRecordRow } from '../../shared/instance-record-row.ts';
import { text, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';
import { listQuery } from './list-query.ts';
import { RunState } from '../tables/task-rows.ts';

interface ExecutionRow extends Omit<ExecutionRecord, 'version' | 'status'> {
  readonly definitionKey: number;
  readonly status: InstanceStatus | 'continuedAsNew';
}

/** What users store with an instance. */
const payloadColumns = [
  'output',
  'failure',
  'custom_status',
  'input',
  'options',
  'on_fail_failure',
] as const;
type PayloadColumn = (typeof payloadColumns)[number];

// Those that a list leaves out where payloads are not asked for.
const largeColumns: readonly PayloadColumn[] = ['output', 'custom_status', 'input'];

/** The stored bytes of columns; does not read the texts that are stored apart from their row. */
function bytesOf(columns: readonly PayloadColumn[]): string {
  return columns.map((column) => `coalesce(octet_length(${column}), 0)`).join(' + ');
}

const columns = (
  run: RunState,
  payload: (column: PayloadColumn) => string = (column) => column,
) => `instances.instance_key AS "instanceKey", instance_id AS "instanceId", incarnation,
  instances.definition_key AS "definitionKey", ${run.status('instances')} AS status, execution_id AS "executionId",
  parent_instance_id AS "parentInstanceId", ${payload('output')} AS output, ${payload('failure')} AS failure,
  ${payload('custom_status')} AS "customStatus",
  custom_status_version AS "customStatusVersion",
  created_at AS "createdAt", ${run.startedAt('instances')} AS "startedAt", ended_at AS "endedAt",
  cancel_requested_at AS "cancelRequestedAt", cancel_reason AS "cancelReason", cancel_actor AS "cancelActor",
  cleanup_skipped AS "cleanupSkipped", leaked, terminate_reason AS "terminateReason",
  terminate_actor AS "terminateActor", blocked_reason AS "blockedReason", blocked_at AS "blockedAt", priority,
  ${payload('input')} AS input, ${payload('options')} AS options, run_at AS "runAt", expires_at AS "expiresAt", dedupe_key AS "dedupeKey", failures,
  ${run.onFail('instances')} AS "onFail", ${payload('on_fail_failure')} AS "onFailFailure"`;

type RowWithin = InstanceRecordRow & { readonly isWithheld: boolean };

/** The columns of a query whose `cut` names the first row that does not fit: that one comes without payloads. */
function withinColumns(run: RunState, leftOut: readonly PayloadColumn[] = []): string {
  const isWithheld = 'coalesce(instances.instance_key = (SELECT instance_key FROM cut), FALSE)';
  const read = columns(run, (column) =>
    leftOut.includes(column) ? 'NULL' : `CASE WHEN NOT ${isWithheld} THEN ${column} END`,
  );
  return `${read}, ${isWithheld} AS "isWithheld"`;
}

/** Reads instances as clients see them. */
export class InstanceRecords {
  readonly #schema: string;
  readonly #run: RunState;
  readonly #definitions: Definitions;
  readonly #source: string;
  readonly #select: Statement;
  readonly #selectWithin: Statement;
  readonly #selectKey: Statement;
  readonly #selectExecutions: Statement;
  // One statement per shape of a filter; there are few shapes.
  readonly #lists = new Map<string, Statement>();

  constructor(schema: string, definitions: Definitions) {
    this.#schema = schema;
    this.#definitions = definitions;
    const run = new RunState(schema);
    this.#run = run;
    this.#source = `${schema}.instances LEFT JOIN LATERAL (
        SELECT blocked_reason, blocked_at FROM ${schema}.instance_locks AS one
        WHERE one.instance_key = instances.instance_key LIMIT 1) AS lock ON TRUE`;
    this.#select = {
      name: 'perdure_select_records',
      text: `SELECT ${columns(run)} FROM ${this.#source} WHERE instance_id = ANY ($1::text[])`,
    };
    // Sizes first: what does not fit is never read.
    this.#selectWithin = {
      name: 'perdure_select_records_within',
      text: `WITH sized AS MATERIALIZED (
          SELECT found.instance_key, place, bytes, sum(bytes) OVER (ORDER BY place) AS total
          FROM unnest($1::text[]) WITH ORDINALITY AS wanted (id, place)
          CROSS JOIN LATERAL (
            SELECT instance_key, ${bytesOf(payloadColumns)} AS bytes FROM ${schema}.instances AS one
            WHERE one.instance_id = wanted.id LIMIT 1) AS found),
        cut AS MATERIALIZED (
          SELECT instance_key, place FROM sized WHERE total > $2::bigint AND total > bytes ORDER BY place LIMIT 1)
        SELECT ${withinColumns(run)} FROM ${this.#source} WHERE instances.instance_key = ANY (ARRAY(
          SELECT instance_key FROM sized WHERE place <= coalesce((SELECT place FROM cut), place)))`,
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
    maxBytes?: number,
  ): Promise<readonly (InstanceRecord | undefined)[]> {
    if (instanceIds.length === 0) return [];
    const rows =
      maxBytes === undefined
        ? await tx.query<InstanceRecordRow>(this.#select, [texts(instanceIds)])
        : await tx.query<RowWithin>(this.#selectWithin, [
            texts([...new Set(instanceIds)]),
            toBigint(maxBytes),
          ]);
    const records = await this.#toRecords(tx, rows);
    const byId = new Map(records.map((record) => [record.instanceId, record]));
    const end = instanceIds.findIndex((id) => byId.get(id)?.withheld === true);
    const answered = end === -1 ? instanceIds : instanceIds.slice(0, end);
    return answered.map((id) => byId.get(id));
  }

  async list(tx: Transaction, params: ListInstancesParams): Promise<readonly InstanceRecord[]> {
    const query = listQuery(params, this.#schema);
    if (query === undefined) return [];
    const { payloads = true, maxBytes } = params;
    const leftOut = payloads ? [] : largeColumns;
    if (maxBytes === undefined) {
      const statement = this.#listStatement(this.#listAll(query.keys, leftOut));
      return this.#toRecords(tx, await tx.query<InstanceRecordRow>(statement, query.values));
    }
    const values = [...query.values, toBigint(maxBytes)];
    const statement = this.#listStatement(this.#listWithin(query.keys, leftOut, values.length));
    return this.#toRecords(tx, await tx.query<RowWithin>(statement, values));
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

  #listAll(keys: string, leftOut: readonly PayloadColumn[]): string {
    const read = columns(this.#run, (column) => (leftOut.includes(column) ? 'NULL' : column));
    return `SELECT ${read} FROM ${this.#source}
      WHERE instance_key = ANY (ARRAY(${keys})) ORDER BY instance_key DESC LIMIT $1::int`;
  }

  /** Sizes first: what does not fit is never read. */
  #listWithin(keys: string, leftOut: readonly PayloadColumn[], maxBytes: number): string {
    const counted = payloadColumns.filter((column) => !leftOut.includes(column));
    return `WITH sized AS MATERIALIZED (
        SELECT instance_key, bytes, sum(bytes) OVER (ORDER BY instance_key DESC) AS total FROM (
          SELECT instance_key, ${bytesOf(counted)} AS bytes FROM ${this.#schema}.instances
          WHERE instance_key = ANY (ARRAY(${keys})) ORDER BY instance_key DESC LIMIT $1::int) AS page),
      cut AS MATERIALIZED (
        SELECT max(instance_key) AS instance_key FROM sized WHERE total > $${maxBytes}::bigint AND total > bytes)
      SELECT ${withinColumns(this.#run, leftOut)} FROM ${this.#source}
      WHERE instances.instance_key = ANY (ARRAY(
        SELECT instance_key FROM sized WHERE instance_key >= coalesce((SELECT instance_key FROM cut), 0)))
      ORDER BY instances.instance_key DESC`;
  }

  #listStatement(text: string): Statement {
    const known = this.#lists.get(text);
    if (known !== undefined) return known;
    const statement = { name: `perdure_list_${this.#lists.size}`, text };
    this.#lists.set(text, statement);
    return statement;
  }

  async #toRecords(
    tx: Transaction,
    rows: readonly (InstanceRecordRow & Partial<RowWithin>)[],
  ): Promise<readonly InstanceRecord[]> {
    await this.#definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    );
    return rows.map((row) => this.#toRecord(row));
  }

  #toRecord(row: InstanceRecordRow & Partial<RowWithin>): InstanceRecord {
    const record = toInstanceRecord(row, this.#definitions.get(row.definitionKey));
    return row.isWithheld === true ? { ...record, withheld: true } : record;
  }
}

function toBigint(count: number): number {
  return Math.min(Math.max(Math.floor(count), 0), Number.MAX_SAFE_INTEGER);
}

/** The next execution of a running instance is pending until its own first turn. */
function executionStatus({ status, startedAt }: ExecutionRow): ExecutionRecord['status'] {
  const isPending = startedAt === null && (status === 'pending' || status === 'running');
  return isPending ? 'pending' : status;
}
