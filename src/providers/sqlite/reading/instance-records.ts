import type Database from 'better-sqlite3';
import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type {
  ExecutionRecord,
  InstanceRecord,
  ListExecutionsParams,
  ListInstancesParams,
  InstanceConditions,
} from '../../contract/instances.ts';
import { takeWithin } from '../../contract/page-bytes.ts';
import {
  payloadBytes,
  toExecutionRecord,
  toInstanceRecord,
  withoutPayloads,
  type ExecutionRow,
  type InstanceRecordRow,
} from '../../shared/instance-record-row.ts';
import type { Definitions } from '../tables/definitions.ts';

interface CurrentExecution extends ExecutionRow {
  readonly instanceKey: number;
}

const columns = (
  payload: (column: string) => string,
) => `instances.instance_key AS instanceKey, instance_id AS instanceId, incarnation,
  instances.definition_key AS definitionKey, status, execution_id AS executionId,
  parent_instance_id AS parentInstanceId, ${payload('output')} AS output, failure, ${payload('custom_status')} AS customStatus,
  custom_status_version AS customStatusVersion,
  created_at AS createdAt, started_at AS startedAt, ended_at AS endedAt,
  cancel_requested_at AS cancelRequestedAt, cancel_reason AS cancelReason, cancel_actor AS cancelActor,
  cleanup_skipped AS cleanupSkipped, leaked, terminate_reason AS terminateReason,
  terminate_actor AS terminateActor, blocked_reason AS blockedReason, blocked_at AS blockedAt,
  paused_at AS pausedAt, paused_reason AS pausedReason, paused_actor AS pausedActor, priority,
  ${payload('input')} AS input, options, run_at AS runAt, expires_at AS expiresAt, dedupe_key AS dedupeKey, failures, on_fail AS onFail,
  on_fail_failure AS onFailFailure`;

const all = columns((column) => column);
const withoutLarge = columns(() => 'NULL');

const source = 'instances LEFT JOIN instance_locks USING (instance_key)';

/** Reads instances for clients. */
export class InstanceRecords {
  readonly #db: Database.Database;
  readonly #definitions: Definitions;
  readonly #select;
  readonly #selectCurrent;
  readonly #selectArchived;
  // One statement per combination of filter conditions.
  readonly #lists = new Map<
    string,
    Database.Statement<[Record<string, unknown>], InstanceRecordRow>
  >();

  constructor(db: Database.Database, definitions: Definitions) {
    this.#db = db;
    this.#definitions = definitions;
    this.#select = db.prepare<[string], InstanceRecordRow>(
      `SELECT ${all} FROM ${source} WHERE instance_id = ?`,
    );
    this.#selectCurrent = db.prepare<[string], CurrentExecution>(
      `SELECT instance_key AS instanceKey, execution_id AS executionId, definition_key AS definitionKey, status,
              execution_started_at AS startedAt, ended_at AS endedAt, history_length AS historyLength
       FROM instances WHERE instance_id = ?`,
    );
    this.#selectArchived = db.prepare<[number, number, number], ExecutionRow>(
      `SELECT execution_id AS executionId, definition_key AS definitionKey, status,
              started_at AS startedAt, ended_at AS endedAt, history_length AS historyLength
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

  list(params: ListInstancesParams): readonly InstanceRecord[] {
    const { name, kind, version } = params.filter;
    const kinds = kind === undefined ? (['orchestration', 'task'] as const) : [kind];
    const isAnything = name === undefined && kind === undefined && version === undefined;
    const keys = isAnything ? undefined : this.#definitions.keysOf(kinds, name, version);
    const query = listQuery(params, keys);
    if (query === undefined) return [];
    const { payloads = true, maxBytes = Number.POSITIVE_INFINITY } = params;
    const text = `SELECT ${payloads ? all : withoutLarge} FROM ${source} WHERE instance_key IN (${query.keys})
       ORDER BY instance_key DESC LIMIT +:limit`;
    let statement = this.#lists.get(text);
    if (statement === undefined) {
      statement = this.#db.prepare(text);
      if (this.#lists.size >= 100) this.#lists.clear();
      this.#lists.set(text, statement);
    }
    if (maxBytes === Number.POSITIVE_INFINITY) {
      return statement.all(query.values).map((row) => this.#toRecord(row));
    }
    // Row by row, so that rows above the limit are not read.
    const { rows, withheld } = takeWithin(statement.iterate(query.values), {
      maxBytes,
      bytesOf: payloadBytes,
    });
    const records = rows.map((row) => this.#toRecord(row));
    if (withheld === undefined) return records;
    return [...records, { ...this.#toRecord(withoutPayloads(withheld)), withheld: true }];
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

/** A query for the keys of a page. */
interface ListQuery {
  readonly keys: string;
  readonly values: Record<string, unknown>;
}

/**
 * Builds the query for one page of instances, newest first.
 * Each status and each version of a name is a subquery that reads an index in order and stops at the limit. A union
 * merges them. Returns `undefined` if nothing can match.
 */
export function listQuery(
  { filter, limit, beforeKey }: ListInstancesParams,
  definitionKeys: readonly number[] | undefined,
): ListQuery | undefined {
  const arms: string[] = [];
  for (const status of filter.status === undefined ? [undefined] : new Set(filter.status)) {
    if (status !== undefined && !instanceStatuses.includes(status)) continue;
    for (const keys of perVersion(definitionKeys)) {
      const conditions = [...armConditions(status, keys), ...sharedConditions(filter)];
      if (beforeKey !== undefined) conditions.push('instance_key < :beforeKey');
      const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
      arms.push(
        `SELECT instance_key FROM (SELECT instance_key FROM instances ${where} ORDER BY instance_key DESC LIMIT +:limit)`,
      );
    }
  }
  if (arms.length === 0) return undefined;
  const { name, idPrefix, parentInstanceId, createdFrom, createdBefore } = filter;
  return {
    keys: arms.join(' UNION ALL '),
    values: { name, idPrefix, parentInstanceId, createdFrom, createdBefore, beforeKey, limit },
  };
}

// Literals, not parameters: only then can the planner use the partial index.
function armConditions(status: InstanceStatus | undefined, keys: readonly number[] | undefined) {
  const conditions: string[] = [];
  if (status !== undefined) conditions.push(`status = '${status}'`);
  if (status !== undefined && status !== 'completed') conditions.push(`status <> 'completed'`);
  if (keys !== undefined) conditions.push(`definition_key IN (${keys.join(', ')})`);
  return conditions;
}

// SQLite allows 500 terms in a compound SELECT. A name with more than 50 versions is sorted instead.
function perVersion(definitionKeys: readonly number[] | undefined) {
  if (definitionKeys === undefined) return [undefined];
  return definitionKeys.length > 50 ? [definitionKeys] : definitionKeys.map((key) => [key]);
}

function sharedConditions(filter: InstanceConditions): readonly string[] {
  const conditions: string[] = [];
  if (filter.idPrefix !== undefined) {
    // The range is for the index. The comparison makes it exact.
    conditions.push(
      `instance_id >= :idPrefix AND instance_id < :idPrefix || char(0x10ffff, 0x10ffff)`,
      'substr(instance_id, 1, length(:idPrefix)) = :idPrefix',
    );
  }
  if (filter.parentInstanceId !== undefined)
    conditions.push('parent_instance_id = :parentInstanceId');
  if (filter.createdFrom !== undefined) conditions.push('created_at >= :createdFrom');
  if (filter.createdBefore !== undefined) conditions.push('created_at < :createdBefore');
  if (filter.blocked !== undefined) {
    conditions.push(
      `instance_key ${filter.blocked ? 'IN' : 'NOT IN'}
       (SELECT instance_key FROM instance_locks WHERE blocked_build IS NOT NULL)`,
    );
  }
  return conditions;
}
