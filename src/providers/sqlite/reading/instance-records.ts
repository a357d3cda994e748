import type Database from 'better-sqlite3';
import type {
  ExecutionRecord,
  InstanceRecord,
  ListExecutionsParams,
  ListInstancesParams,
  ListInstancesResult,
} from '../../contract/instances.ts';
import { maxListedLength } from '../../contract/inspection.ts';
import { takeWithin } from '../../contract/page-bytes.ts';
import {
  payloadBytes,
  toExecutionRecord,
  toInstanceRecord,
  withoutPayloads,
  type ExecutionRow,
  type InstanceRecordRow,
} from '../../shared/instance-record-row.ts';
import { toListResult } from '../../rules/listing.ts';
import type { Definitions } from '../tables/definitions.ts';
import { outputOf } from '../tables/instance-rows.ts';
import type { InstanceList } from './instance-list.ts';

interface CurrentExecution extends ExecutionRow {
  readonly instanceKey: number;
}

const columns = (
  payload: (column: string) => string,
  detail: (column: string, long: string) => string = (column) => column,
) => `instances.instance_key AS instanceKey, instance_id AS instanceId, incarnation,
  instances.definition_key AS definitionKey, status, execution_id AS executionId,
  parent_instance_id AS parentInstanceId, ${payload('output')} AS output, ${detail('failure', "''")} AS failure, ${payload('custom_status')} AS customStatus,
  custom_status_version AS customStatusVersion,
  created_at AS createdAt, started_at AS startedAt, ended_at AS endedAt,
  cancel_requested_at AS cancelRequestedAt, cancel_reason AS cancelReason, cancel_actor AS cancelActor,
  cancel_cause AS cancelTrigger,
  cleanup_skipped AS cleanupSkipped, leaked, terminate_reason AS terminateReason,
  terminate_actor AS terminateActor, blocked_reason AS blockedReason, blocked_at AS blockedAt,
  blocked_build AS blockedBuild, blocked_details AS blockedDetails, tags,
  paused_at AS pausedAt, paused_reason AS pausedReason, paused_actor AS pausedActor, priority,
  ${payload('input')} AS input, ${detail('options', 'NULL')} AS options, run_at AS runAt, expires_at AS expiresAt, dedupe_key AS dedupeKey, failures, on_fail AS onFail,
  ${detail('on_fail_failure', "''")} AS onFailFailure, forked_from AS forkedFrom`;

const all = columns((column) => (column === 'output' ? outputOf() : column));
const withoutLarge = columns(() => 'NULL');
const withShort = columns(
  () => 'NULL',
  (column, long) =>
    `CASE WHEN length(${column}) <= ${maxListedLength} THEN ${column} WHEN ${column} IS NOT NULL THEN ${long} END`,
);

const source = 'instances LEFT JOIN instance_locks USING (instance_key)';

/** Reads instances for clients. */
export class InstanceRecords {
  readonly #definitions: Definitions;
  readonly #select;
  readonly #selectCurrent;
  readonly #selectArchived;
  readonly #instanceList: InstanceList;
  readonly #selectPage;
  readonly #selectSummaries;
  readonly #selectListed;
  readonly #selectPageByEnd;
  readonly #selectSummariesByEnd;

  constructor(db: Database.Database, definitions: Definitions, list: InstanceList) {
    this.#definitions = definitions;
    this.#instanceList = list;
    const page = (columns: string) =>
      db.prepare<[string], InstanceRecordRow>(
        `SELECT ${columns} FROM ${source} WHERE instance_key IN (SELECT value FROM json_each(?))
         ORDER BY instance_key DESC`,
      );
    // In the order of the keys: a cross join reads its first table first.
    const pageByEnd = (columns: string) =>
      db.prepare<[string], InstanceRecordRow>(
        `SELECT ${columns} FROM json_each(?) CROSS JOIN instances ON instances.instance_key = json_each.value
         LEFT JOIN instance_locks USING (instance_key)`,
      );
    this.#selectPage = page(all);
    this.#selectSummaries = page(withoutLarge);
    this.#selectPageByEnd = pageByEnd(all);
    this.#selectSummariesByEnd = pageByEnd(withoutLarge);
    this.#select = db.prepare<[string], InstanceRecordRow>(
      `SELECT ${all} FROM ${source} WHERE instance_id = ?`,
    );
    this.#selectListed = db.prepare<[string], InstanceRecordRow>(
      `SELECT ${withShort} FROM ${source} WHERE instance_id = ?`,
    );
    this.#selectCurrent = db.prepare<[string], CurrentExecution>(
      `SELECT instance_key AS instanceKey, execution_id AS executionId, definition_key AS definitionKey, status,
              execution_started_at AS startedAt, ended_at AS endedAt, history_length AS historyLength,
              NULL AS failure, NULL AS reason
       FROM instances WHERE instance_id = ?`,
    );
    this.#selectArchived = db.prepare<[number, number, number], ExecutionRow>(
      `SELECT execution_id AS executionId, definition_key AS definitionKey, status,
              started_at AS startedAt, ended_at AS endedAt, history_length AS historyLength, failure, reason
       FROM executions WHERE instance_key = ? AND execution_id > ? ORDER BY execution_id LIMIT +?`,
    );
  }

  /** Returns as many leading records as fit into `maxBytes`, at least one. */
  get(
    instanceIds: readonly string[],
    maxBytes = Number.POSITIVE_INFINITY,
  ): readonly (InstanceRecord | undefined)[] {
    const records: (InstanceRecord | undefined)[] = [];
    let bytes = 0;
    for (const id of instanceIds) {
      const row = this.#select.get(id);
      if (row !== undefined && maxBytes !== Number.POSITIVE_INFINITY) {
        bytes += payloadBytes(row);
        if (bytes > maxBytes && records.length > 0) break;
      }
      records.push(row === undefined ? undefined : this.#toRecord(row));
    }
    return records;
  }

  /** Returns a record without payloads, and with failures and options of a bounded length. */
  getListed(instanceId: string): InstanceRecord | undefined {
    const row = this.#selectListed.get(instanceId);
    return row && this.#toRecord(row);
  }

  list(params: ListInstancesParams): ListInstancesResult {
    const { payloads = true, maxBytes = Number.POSITIVE_INFINITY, orderBy } = params;
    const { keys, next } = this.#instanceList.page(params);
    const [page, summaries] =
      orderBy === 'ended'
        ? [this.#selectPageByEnd, this.#selectSummariesByEnd]
        : [this.#selectPage, this.#selectSummaries];
    const statement = payloads ? page : summaries;
    // Row by row, so that rows above the limit are not read.
    const { rows, withheld } = takeWithin(statement.iterate(JSON.stringify(keys)), {
      maxBytes,
      bytesOf: maxBytes === Number.POSITIVE_INFINITY ? () => 0 : payloadBytes,
    });
    const records = rows.map((row) => this.#toRecord(row));
    if (withheld === undefined) return toListResult(records, next, orderBy);
    const last = { ...this.#toRecord(withoutPayloads(withheld)), withheld: true as const };
    return toListResult([...records, last], next, orderBy);
  }

  listExecutions({ instanceId, after, limit }: ListExecutionsParams): readonly ExecutionRecord[] {
    const current = this.#selectCurrent.get(instanceId);
    if (current === undefined) return [];
    const archived = this.#selectArchived.all(current.instanceKey, after, Math.max(limit, 0));
    const isOnPage = archived.length < limit && current.executionId > after;
    return [...archived, ...(isOnPage ? [current] : [])].map((row) =>
      toExecutionRecord(row, this.#definitions.get(row.definitionKey).version),
    );
  }

  #toRecord(row: InstanceRecordRow): InstanceRecord {
    return toInstanceRecord(row, this.#definitions.get(row.definitionKey));
  }
}
