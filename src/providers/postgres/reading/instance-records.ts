import type {
  ExecutionRecord,
  InstanceRecord,
  ListExecutionsParams,
  ListInstancesParams,
  ListInstancesResult,
} from '../../contract/instances.ts';
import { maxListedLength } from '../../contract/inspection.ts';
import type { WorkerList } from '../../contract/workers.ts';
import {
  toExecutionRecord,
  toInstanceRecord,
  type ExecutionRow,
  type InstanceRecordRow,
} from '../../shared/instance-record-row.ts';
import { toListResult } from '../../rules/listing.ts';
import { keys, one, prepare, strings } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';
import { outputOf } from '../tables/instance-rows.ts';
import { RunState } from '../tables/task-rows.ts';
import type { InstanceList } from './instance-list.ts';

/** The columns with user data. */
const payloadColumns = [
  'output',
  'failure',
  'custom_status',
  'input',
  'options',
  'on_fail_failure',
] as const;
type PayloadColumn = (typeof payloadColumns)[number];

// Omitted from lists without `payloads`.
const largeColumns: readonly PayloadColumn[] = ['output', 'custom_status', 'input'];

/** SQL of a value of the table `row`. */
function valueOf(schema: string, column: PayloadColumn, row = 'instances'): string {
  return column === 'output' ? outputOf(schema, row) : column;
}

/** The size of values in bytes. Does not read out-of-line (TOAST) values. */
function bytesOf(schema: string, columns: readonly PayloadColumn[], row = 'instances'): string {
  return columns
    .map((column) => `coalesce(octet_length(${valueOf(schema, column, row)}), 0)`)
    .join(' + ');
}

const columns = (
  run: RunState,
  payload: (column: PayloadColumn) => string,
) => `instances.instance_key AS "instanceKey", instance_id AS "instanceId", incarnation,
  instances.definition_key AS "definitionKey", ${run.status('instances')} AS status, execution_id AS "executionId",
  parent_instance_id AS "parentInstanceId", ${payload('output')} AS output, ${payload('failure')} AS failure,
  ${payload('custom_status')} AS "customStatus",
  custom_status_version AS "customStatusVersion",
  created_at AS "createdAt", ${run.startedAt('instances')} AS "startedAt", ended_at AS "endedAt",
  cancel_requested_at AS "cancelRequestedAt", cancel_reason AS "cancelReason", cancel_actor AS "cancelActor",
  cancel_cause AS "cancelTrigger",
  cleanup_skipped AS "cleanupSkipped", leaked, terminate_reason AS "terminateReason",
  terminate_actor AS "terminateActor", blocked_reason AS "blockedReason", blocked_at AS "blockedAt",
  blocked_build AS "blockedBuild", blocked_details AS "blockedDetails", tags,
  paused_at AS "pausedAt", paused_reason AS "pausedReason", paused_actor AS "pausedActor", priority,
  ${payload('input')} AS input, ${payload('options')} AS options, run_at AS "runAt", expires_at AS "expiresAt", dedupe_key AS "dedupeKey", failures,
  ${run.onFail('instances')} AS "onFail", ${payload('on_fail_failure')} AS "onFailFailure",
  forked_from AS "forkedFrom"`;

/** A column of a list: `NULL`, or its text up to a length. */
function listed(column: PayloadColumn): string {
  if (largeColumns.includes(column)) return 'NULL';
  const long = column === 'options' ? 'NULL' : "''";
  return `CASE WHEN length(${column}) <= ${maxListedLength} THEN ${column} WHEN ${column} IS NOT NULL THEN ${long} END`;
}

type RowWithin = InstanceRecordRow & { readonly isWithheld: boolean };

/** The columns of a query whose `cut` names the first row that does not fit. That row has no payloads. */
function withinColumns(
  { schema, run }: { readonly schema: string; readonly run: RunState },
  leftOut: readonly PayloadColumn[] = [],
): string {
  const isWithheld = 'coalesce(instances.instance_key = (SELECT instance_key FROM cut), FALSE)';
  const read = columns(run, (column) =>
    leftOut.includes(column)
      ? 'NULL'
      : `CASE WHEN NOT ${isWithheld} THEN ${valueOf(schema, column)} END`,
  );
  return `${read}, ${isWithheld} AS "isWithheld"`;
}

/** Reads instances as records of the contract. */
export class InstanceRecords {
  readonly #definitions: Definitions;
  readonly #statements: ReturnType<typeof statements>;
  readonly #list: InstanceList;

  constructor(schema: string, definitions: Definitions, list: InstanceList) {
    this.#definitions = definitions;
    this.#list = list;
    const run = new RunState(schema);
    const source = `${schema}.instances LEFT JOIN LATERAL (
        SELECT blocked_reason, blocked_at, blocked_build, blocked_details FROM ${schema}.instance_locks AS one
        WHERE one.instance_key = instances.instance_key LIMIT 1) AS lock ON TRUE`;
    this.#statements = statements(schema, run, source);
  }

  async get(
    tx: Transaction,
    instanceIds: readonly string[],
    maxBytes?: number,
  ): Promise<readonly (InstanceRecord | undefined)[]> {
    if (instanceIds.length === 0) return [];
    const rows =
      maxBytes === undefined
        ? await tx.query<InstanceRecordRow>(...this.#statements.select({ instanceIds }))
        : await tx.query<RowWithin>(
            ...this.#statements.selectWithin({
              instanceIds: [...new Set(instanceIds)],
              maxBytes: toBigint(maxBytes),
            }),
          );
    const records = await this.#toRecords(tx, rows);
    const byId = new Map(records.map((record) => [record.instanceId, record]));
    const end = instanceIds.findIndex((id) => byId.get(id)?.withheld === true);
    const returned = end === -1 ? instanceIds : instanceIds.slice(0, end);
    return returned.map((id) => byId.get(id));
  }

  /** Returns records without payloads, and with failures and options of a bounded length. */
  async getListed(
    tx: Transaction,
    instanceIds: readonly string[],
  ): Promise<readonly InstanceRecord[]> {
    const rows = await tx.query<InstanceRecordRow>(
      ...this.#statements.selectListed({ instanceIds }),
    );
    return this.#toRecords(tx, rows);
  }

  async list(
    tx: Transaction,
    params: ListInstancesParams,
    workers?: WorkerList,
  ): Promise<ListInstancesResult> {
    const { payloads = true, maxBytes = Number.MAX_SAFE_INTEGER, orderBy } = params;
    const { keys, next } = await this.#list.page(tx, params, workers);
    if (keys.length === 0) return toListResult([], next, orderBy);
    const { page, summaries, pageByEnd, summariesByEnd } = this.#statements;
    const [full, short] = orderBy === 'ended' ? [pageByEnd, summariesByEnd] : [page, summaries];
    const select = payloads ? full : short;
    const rows = await tx.query<RowWithin>(...select({ keys, maxBytes: toBigint(maxBytes) }));
    return toListResult(await this.#toRecords(tx, rows), next, orderBy);
  }

  async listExecutions(
    tx: Transaction,
    { instanceId, after, limit }: ListExecutionsParams,
  ): Promise<readonly ExecutionRecord[]> {
    const rows = await tx.query<ExecutionRow>(
      ...this.#statements.selectExecutions({ instanceId, after, limit: Math.max(limit, 0) }),
    );
    await this.#definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    );
    return rows.map((row) =>
      toExecutionRecord(row, this.#definitions.get(row.definitionKey).version),
    );
  }

  /** The key of an instance; `undefined` if it does not exist. */
  async keyOf(tx: Transaction, instanceId: string): Promise<number | undefined> {
    const [row] = await tx.query<{ instanceKey: number }>(
      ...this.#statements.selectKey({ instanceId }),
    );
    return row?.instanceKey;
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

/** Reads the records of a page in the order of its keys. Sizes first: rows that do not fit are never read. */
function pageStatement(
  name: string,
  {
    schema,
    run,
    source,
  }: { readonly schema: string; readonly run: RunState; readonly source: string },
  leftOut: readonly PayloadColumn[],
) {
  const counted = payloadColumns.filter((column) => !leftOut.includes(column));
  return prepare(
    name,
    { keys: keys(), maxBytes: one<number>('bigint') },
    ({ keys, maxBytes }) => `WITH sized AS MATERIALIZED (
        SELECT instance_key, bytes, sum(bytes) OVER (ORDER BY instance_key DESC) AS total FROM (
          SELECT instance_key, ${bytesOf(schema, counted)} AS bytes FROM ${schema}.instances
          WHERE instance_key = ANY (${keys})) AS page),
      cut AS MATERIALIZED (
        SELECT max(instance_key) AS instance_key FROM sized WHERE total > ${maxBytes} AND total > bytes)
      SELECT ${withinColumns({ schema, run }, leftOut)} FROM ${source}
      WHERE instances.instance_key = ANY (ARRAY(
        SELECT instance_key FROM sized WHERE instance_key >= coalesce((SELECT instance_key FROM cut), 0)))
      ORDER BY instances.instance_key DESC`,
  );
}

/** As `pageStatement`, in the order of ends. */
function pageByEndStatement(
  name: string,
  {
    schema,
    run,
    source,
  }: { readonly schema: string; readonly run: RunState; readonly source: string },
  leftOut: readonly PayloadColumn[],
) {
  const counted = payloadColumns.filter((column) => !leftOut.includes(column));
  return prepare(
    name,
    { keys: keys(), maxBytes: one<number>('bigint') },
    ({ keys, maxBytes }) => `WITH sized AS MATERIALIZED (
        SELECT instance_key, bytes, row_number() OVER ended AS place, sum(bytes) OVER ended AS total FROM (
          SELECT instance_key, ended_at, ${bytesOf(schema, counted)} AS bytes FROM ${schema}.instances
          WHERE instance_key = ANY (${keys})) AS page
        WINDOW ended AS (ORDER BY ended_at DESC, instance_key DESC)),
      cut AS MATERIALIZED (
        SELECT instance_key, place FROM sized WHERE total > ${maxBytes} AND total > bytes ORDER BY place LIMIT 1)
      SELECT ${withinColumns({ schema, run }, leftOut)} FROM ${source}
      WHERE instances.instance_key = ANY (ARRAY(
        SELECT instance_key FROM sized WHERE place <= coalesce((SELECT place FROM cut), place)))
      ORDER BY instances.ended_at DESC, instances.instance_key DESC`,
  );
}

function statements(schema: string, run: RunState, source: string) {
  const parts = { schema, run, source };
  return {
    page: pageStatement('perdure_select_page', parts, []),
    summaries: pageStatement('perdure_select_summaries', parts, largeColumns),
    pageByEnd: pageByEndStatement('perdure_select_page_by_end', parts, []),
    summariesByEnd: pageByEndStatement('perdure_select_summaries_by_end', parts, largeColumns),
    select: prepare(
      'perdure_select_records',
      { instanceIds: strings() },
      ({ instanceIds }) =>
        `SELECT ${columns(run, (column) => valueOf(schema, column))} FROM ${source} WHERE instance_id = ANY (${instanceIds})`,
    ),
    selectListed: prepare(
      'perdure_select_listed',
      { instanceIds: strings() },
      ({ instanceIds }) =>
        `SELECT ${columns(run, listed)} FROM ${source} WHERE instance_id = ANY (${instanceIds})`,
    ),
    // Sizes first: rows that do not fit are never read.
    selectWithin: prepare(
      'perdure_select_records_within',
      { instanceIds: strings(), maxBytes: one<number>('bigint') },
      ({ instanceIds, maxBytes }) => `WITH sized AS MATERIALIZED (
          SELECT found.instance_key, place, bytes, sum(bytes) OVER (ORDER BY place) AS total
          FROM unnest(${instanceIds}) WITH ORDINALITY AS wanted (id, place)
          CROSS JOIN LATERAL (
            SELECT instance_key, ${bytesOf(schema, payloadColumns, 'one')} AS bytes FROM ${schema}.instances AS one
            WHERE one.instance_id = wanted.id LIMIT 1) AS found),
        cut AS MATERIALIZED (
          SELECT instance_key, place FROM sized WHERE total > ${maxBytes} AND total > bytes ORDER BY place LIMIT 1)
        SELECT ${withinColumns(parts)} FROM ${source} WHERE instances.instance_key = ANY (ARRAY(
          SELECT instance_key FROM sized WHERE place <= coalesce((SELECT place FROM cut), place)))`,
    ),
    selectKey: prepare(
      'perdure_select_instance_key',
      { instanceId: one<string>('text') },
      ({ instanceId }) =>
        `SELECT instance_key AS "instanceKey" FROM ${schema}.instances WHERE instance_id = ${instanceId}`,
    ),
    selectExecutions: prepare(
      'perdure_select_executions',
      { instanceId: one<string>('text'), after: one<number>('int'), limit: one<number>('bigint') },
      ({
        instanceId,
        after,
        limit,
      }) => `SELECT past.execution_id AS "executionId", past.definition_key AS "definitionKey", past.status,
          past.started_at AS "startedAt", past.ended_at AS "endedAt", past.history_length AS "historyLength",
          past.failure, past.reason
        FROM ${schema}.instances CROSS JOIN LATERAL (
          SELECT * FROM ${schema}.executions AS one
          WHERE one.instance_key = instances.instance_key AND one.execution_id > ${after}
          ORDER BY one.execution_id LIMIT ${limit}) AS past
        WHERE instance_id = ${instanceId}
        UNION ALL
        SELECT execution_id, definition_key, ${run.status('instances')},
          ${run.executionStartedAt('instances')}, ended_at, history_length, NULL, NULL
        FROM ${schema}.instances WHERE instance_id = ${instanceId} AND execution_id > ${after}
        ORDER BY 1 LIMIT ${limit}`,
    ),
  };
}

function toBigint(count: number): number {
  return Math.min(Math.max(Math.floor(count), 0), Number.MAX_SAFE_INTEGER);
}
