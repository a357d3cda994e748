import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type {
  ExecutionRecord,
  InstanceRecord,
  ListExecutionsParams,
  ListInstancesParams,
  InstanceConditions,
} from '../../contract/instances.ts';
import {
  toExecutionRecord,
  toInstanceRecord,
  type ExecutionRow,
  type InstanceRecordRow,
} from '../../shared/instance-record-row.ts';
import { text } from '../driver/arrays.ts';
import { one, prepare, strings } from '../driver/columns.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';
import { RunState } from '../tables/task-rows.ts';
import { taskOperation } from '../../shared/work-item-row.ts';

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

/** The size of columns in bytes. Does not read out-of-line (TOAST) values. */
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
  terminate_actor AS "terminateActor", blocked_reason AS "blockedReason", blocked_at AS "blockedAt",
  paused_at AS "pausedAt", paused_reason AS "pausedReason", paused_actor AS "pausedActor", priority,
  ${payload('input')} AS input, ${payload('options')} AS options, run_at AS "runAt", expires_at AS "expiresAt", dedupe_key AS "dedupeKey", failures,
  ${run.onFail('instances')} AS "onFail", ${payload('on_fail_failure')} AS "onFailFailure"`;

type RowWithin = InstanceRecordRow & { readonly isWithheld: boolean };

/** The columns of a query whose `cut` names the first row that does not fit. That row has no payloads. */
function withinColumns(run: RunState, leftOut: readonly PayloadColumn[] = []): string {
  const isWithheld = 'coalesce(instances.instance_key = (SELECT instance_key FROM cut), FALSE)';
  const read = columns(run, (column) =>
    leftOut.includes(column) ? 'NULL' : `CASE WHEN NOT ${isWithheld} THEN ${column} END`,
  );
  return `${read}, ${isWithheld} AS "isWithheld"`;
}

/** Reads instances as records of the contract. */
export class InstanceRecords {
  readonly #schema: string;
  readonly #run: RunState;
  readonly #definitions: Definitions;
  readonly #source: string;
  readonly #statements: ReturnType<typeof statements>;
  // One statement per form of a filter. There are few.
  readonly #lists = new Map<string, Statement>();

  constructor(schema: string, definitions: Definitions) {
    this.#schema = schema;
    this.#definitions = definitions;
    const run = new RunState(schema);
    this.#run = run;
    this.#source = `${schema}.instances LEFT JOIN LATERAL (
        SELECT blocked_reason, blocked_at FROM ${schema}.instance_locks AS one
        WHERE one.instance_key = instances.instance_key LIMIT 1) AS lock ON TRUE`;
    this.#statements = statements(schema, run, this.#source);
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

  #listAll(keys: string, leftOut: readonly PayloadColumn[]): string {
    const read = columns(this.#run, (column) => (leftOut.includes(column) ? 'NULL' : column));
    return `SELECT ${read} FROM ${this.#source}
      WHERE instance_key = ANY (ARRAY(${keys})) ORDER BY instance_key DESC LIMIT $1::int`;
  }

  /** Sizes first: rows that do not fit are never read. */
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

function statements(schema: string, run: RunState, source: string) {
  return {
    select: prepare(
      'perdure_select_records',
      { instanceIds: strings() },
      ({ instanceIds }) =>
        `SELECT ${columns(run)} FROM ${source} WHERE instance_id = ANY (${instanceIds})`,
    ),
    // Sizes first: rows that do not fit are never read.
    selectWithin: prepare(
      'perdure_select_records_within',
      { instanceIds: strings(), maxBytes: one<number>('bigint') },
      ({ instanceIds, maxBytes }) => `WITH sized AS MATERIALIZED (
          SELECT found.instance_key, place, bytes, sum(bytes) OVER (ORDER BY place) AS total
          FROM unnest(${instanceIds}) WITH ORDINALITY AS wanted (id, place)
          CROSS JOIN LATERAL (
            SELECT instance_key, ${bytesOf(payloadColumns)} AS bytes FROM ${schema}.instances AS one
            WHERE one.instance_id = wanted.id LIMIT 1) AS found),
        cut AS MATERIALIZED (
          SELECT instance_key, place FROM sized WHERE total > ${maxBytes} AND total > bytes ORDER BY place LIMIT 1)
        SELECT ${withinColumns(run)} FROM ${source} WHERE instances.instance_key = ANY (ARRAY(
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
          past.started_at AS "startedAt", past.ended_at AS "endedAt", past.history_length AS "historyLength"
        FROM ${schema}.instances CROSS JOIN LATERAL (
          SELECT * FROM ${schema}.executions AS one
          WHERE one.instance_key = instances.instance_key AND one.execution_id > ${after}
          ORDER BY one.execution_id LIMIT ${limit}) AS past
        WHERE instance_id = ${instanceId}
        UNION ALL
        SELECT execution_id, definition_key, ${run.status('instances')},
          ${run.executionStartedAt('instances')}, ended_at, history_length
        FROM ${schema}.instances WHERE instance_id = ${instanceId} AND execution_id > ${after}
        ORDER BY 1 LIMIT ${limit}`,
    ),
  };
}

function toBigint(count: number): number {
  return Math.min(Math.max(Math.floor(count), 0), Number.MAX_SAFE_INTEGER);
}

/** A query that selects the keys of a page. */
interface ListQuery {
  readonly keys: string;
  readonly values: readonly unknown[];
}

/** Collects the values of a query, and numbers their placeholders. */
class Values {
  readonly list: unknown[] = [];

  add(value: unknown, type: string): string {
    this.list.push(value);
    return `$${this.list.length}::${type}`;
  }
}

/**
 * Builds the query for one page of instances, newest first; `$1` is the limit. It is a union of one query per status and
 * version, each of which reads an index in order up to the limit. Active task runs are found by their work items.
 * Returns `undefined` if nothing can match.
 */
function listQuery(params: ListInstancesParams, schema: string): ListQuery | undefined {
  const { filter, limit, beforeKey } = params;
  const statuses =
    filter.status === undefined
      ? [undefined]
      : [...new Set(filter.status)].filter((status) => instanceStatuses.includes(status)).sort();
  if (statuses.length === 0) return undefined;
  const values = new Values();
  const limitValue = values.add(limit, 'int');
  const shared = sharedConditions(filter, schema, values);
  if (beforeKey !== undefined) shared.push(`instance_key < ${values.add(beforeKey, 'bigint')}`);
  const versions = definitionsOf(filter, schema, values);
  const ofWanted = versions === undefined ? [] : ['definition_key = wanted_key'];
  const walk = (conditions: readonly string[]) => {
    const all = [...conditions, ...shared, ...ofWanted];
    const where = all.length === 0 ? '' : `WHERE ${all.join(' AND ')}`;
    return `SELECT instance_key FROM ${schema}.instances AS listed ${where}
      ORDER BY instance_key DESC LIMIT ${limitValue}`;
  };
  const walkRuns = (status: LiveStatus) => {
    const ofVersion =
      versions === undefined
        ? ''
        : `AND item.definition_key = ANY (ARRAY(
            SELECT unnest(ARRAY[wanted_key, -wanted_key]) FROM ${versions}))`;
    const conditions = [
      'instance_key = item.instance_key',
      isRun,
      status === 'canceling' ? `status = 'canceling'` : `status = 'pending'`,
      ...shared,
    ];
    return `SELECT item.instance_key FROM ${schema}.worker_queue AS item CROSS JOIN LATERAL (
        SELECT FROM ${schema}.instances AS listed WHERE ${conditions.join(' AND ')} LIMIT 1) AS run
      WHERE item.execution_id = 1 AND item.operation = ${taskOperation} ${startConditions[status]} ${ofVersion}
      ORDER BY item.instance_key DESC LIMIT ${limitValue}`;
  };
  const arm = (page: string, from = '') => `SELECT page.instance_key FROM ${from}(${page}) AS page`;
  const perVersion = versions === undefined ? '' : `${versions} CROSS JOIN LATERAL `;
  const arms = statuses.flatMap((status) =>
    isLive(status)
      ? [
          arm(walk([`listed_as = 'live'`, `status = '${status}'`]), perVersion),
          // One scan for all names: the queue has no index by name and key.
          arm(walkRuns(status)),
        ]
      : [arm(walk(statusConditions(status)), perVersion)],
  );
  return { keys: arms.join(' UNION ALL '), values: values.list };
}

const isRun = 'priority IS NOT NULL';

type LiveStatus = 'pending' | 'running' | 'canceling';

// Only the work item shows whether a task run has started.
const startConditions: Readonly<Record<LiveStatus, string>> = {
  pending: 'AND item.started_at IS NULL',
  running: 'AND item.started_at IS NOT NULL',
  canceling: '',
};

function isLive(status: InstanceStatus | undefined): status is LiveStatus {
  return status === 'pending' || status === 'running' || status === 'canceling';
}

/** The definitions that match; `undefined` means all. */
function definitionsOf(
  { name, kind, version }: InstanceConditions,
  schema: string,
  values: Values,
): string | undefined {
  if (name === undefined && kind === undefined && version === undefined) return undefined;
  const conditions = [
    kind === undefined ? `kind <> 'activity'` : `kind = ${values.add(kind, 'text')}`,
    ...(name === undefined ? [] : [`name = ${values.add(text(name), 'text')}`]),
    ...(version === undefined ? [] : [`version = ${values.add(text(version), 'text')}`]),
  ];
  return `(SELECT definition_key AS wanted_key FROM ${schema}.definitions
    WHERE ${conditions.join(' AND ')}) AS version`;
}

// A literal, not a parameter, so that the planner can use the partial index.
function statusConditions(status: InstanceStatus | undefined): readonly string[] {
  if (status === undefined) return [];
  return [status === 'completed' ? `status = 'completed'` : `listed_as = '${status}'`];
}

function sharedConditions(filter: InstanceConditions, schema: string, values: Values): string[] {
  const conditions: string[] = [];
  const { idPrefix, parentInstanceId, createdFrom, createdBefore, blocked } = filter;
  if (idPrefix !== undefined) {
    // The range uses the index, and `starts_with` makes it exact.
    const prefix = values.add(text(idPrefix), 'text');
    const end = values.add(`${text(idPrefix)}\u{10ffff}\u{10ffff}`, 'text');
    conditions.push(
      `instance_id >= ${prefix} AND instance_id < ${end} AND starts_with(instance_id, ${prefix})`,
    );
  }
  if (parentInstanceId !== undefined) {
    conditions.push(`parent_instance_id = ${values.add(text(parentInstanceId), 'text')}`);
  }
  if (createdFrom !== undefined) {
    conditions.push(`created_at >= ${values.add(Math.ceil(createdFrom), 'bigint')}`);
  }
  if (createdBefore !== undefined) {
    conditions.push(`created_at < ${values.add(Math.ceil(createdBefore), 'bigint')}`);
  }
  const blockedRows = `SELECT instance_key FROM ${schema}.instance_locks WHERE blocked_build IS NOT NULL`;
  if (blocked === true) conditions.push(`instance_key = ANY (ARRAY(${blockedRows}))`);
  if (blocked === false) {
    conditions.push(
      `(SELECT blocked_build FROM ${schema}.instance_locks AS lock WHERE lock.instance_key = listed.instance_key) IS NULL`,
    );
  }
  return conditions;
}
