import type Database from 'better-sqlite3';
import { isTerminal, type InstanceStatus } from '../../model/status.ts';
import type {
  ExecutionRecord,
  InstanceRecord,
  ListExecutionsParams,
  ListInstancesParams,
  TaskRecord,
} from '../instances.ts';
import type { OnFailState } from '../tasks.ts';
import type { Definitions } from './definitions.ts';
import { listQuery } from './list-query.ts';

interface RecordRow extends Omit<
  InstanceRecord,
  'kind' | 'name' | 'version' | 'cancel' | 'cleanupSkipped' | 'terminated' | 'blocked' | 'task'
> {
  readonly definitionKey: number;
  readonly cancelRequestedAt: number | null;
  readonly cancelReason: string | null;
  readonly cancelActor: string | null;
  readonly cleanupSkipped: 0 | 1;
  readonly terminateReason: string | null;
  readonly terminateActor: string | null;
  readonly blockedReason: string | null;
  readonly blockedAt: number | null;
  /** What follows is of task runs alone. */
  readonly priority: number | null;
  readonly input: string | null;
  readonly options: string | null;
  readonly runAt: number | null;
  readonly expiresAt: number | null;
  readonly concurrencyKey: string | null;
  readonly failures: number | null;
  readonly onFail: OnFailState | 'ready' | null;
  readonly onFailFailure: string | null;
}

interface CurrentExecution {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly definitionKey: number;
  readonly status: InstanceStatus;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly historyLength: number;
}

const columns = `instances.instance_key AS instanceKey, instance_id AS instanceId, incarnation,
  instances.definition_key AS definitionKey, status, execution_id AS executionId,
  parent_instance_id AS parentInstanceId, output, failure, custom_status AS customStatus,
  created_at AS createdAt, started_at AS startedAt, ended_at AS endedAt,
  cancel_requested_at AS cancelRequestedAt, cancel_reason AS cancelReason, cancel_actor AS cancelActor,
  cleanup_skipped AS cleanupSkipped, leaked, terminate_reason AS terminateReason,
  terminate_actor AS terminateActor, blocked_reason AS blockedReason, blocked_at AS blockedAt, priority, input,
  options, run_at AS runAt, expires_at AS expiresAt, concurrency_key AS concurrencyKey, failures, on_fail AS onFail,
  on_fail_failure AS onFailFailure`;

const source = 'instances LEFT JOIN instance_locks USING (instance_key)';

/** Reads instances as clients see them. */
export class InstanceRecords {
  readonly #db: Database.Database;
  readonly #definitions: Definitions;
  readonly #select;
  readonly #selectCurrent;
  readonly #selectArchived;
  // One statement per shape of a filter; there are few shapes.
  readonly #lists = new Map<string, Database.Statement<[Record<string, unknown>], RecordRow>>();

  constructor(db: Database.Database, definitions: Definitions) {
    this.#db = db;
    this.#definitions = definitions;
    this.#select = db.prepare<[string], RecordRow>(
      `SELECT ${columns} FROM ${source} WHERE instance_id = ?`,
    );
    this.#selectCurrent = db.prepare<[string], CurrentExecution>(
      `SELECT instance_key AS instanceKey, execution_id AS executionId, definition_key AS definitionKey, status,
              execution_started_at AS startedAt, ended_at AS endedAt, history_length AS historyLength
       FROM instances WHERE instance_id = ?`,
    );
    this.#selectArchived = db.prepare<
      [number, number, number],
      Omit<ExecutionRecord, 'version'> & { definitionKey: number }
    >(
      `SELECT execution_id AS executionId, definition_key AS definitionKey, status,
              started_at AS startedAt, ended_at AS endedAt, history_length AS historyLength
       FROM executions WHERE instance_key = ? AND execution_id > ? ORDER BY execution_id LIMIT +?`,
    );
  }

  get(instanceId: string): InstanceRecord | undefined {
    const row = this.#select.get(instanceId);
    return row === undefined ? undefined : this.#toRecord(row);
  }

  list(params: ListInstancesParams): readonly InstanceRecord[] {
    const { name, kind } = params.filter;
    const kinds = kind === undefined ? (['orchestration', 'task'] as const) : [kind];
    const isAnything = name === undefined && kind === undefined;
    const keys = isAnything ? undefined : this.#definitions.keysOf(kinds, name);
    const query = listQuery(params, keys);
    if (query === undefined) return [];
    let statement = this.#lists.get(query.keys);
    if (statement === undefined) {
      statement = this.#db.prepare(
        `SELECT ${columns} FROM ${source} WHERE instance_key IN (${query.keys})
         ORDER BY instance_key DESC LIMIT +:limit`,
      );
      if (this.#lists.size >= 100) this.#lists.clear();
      this.#lists.set(query.keys, statement);
    }
    return statement.all(query.values).map((row) => this.#toRecord(row));
  }

  listExecutions({ instanceId, after, limit }: ListExecutionsParams): readonly ExecutionRecord[] {
    const current = this.#selectCurrent.get(instanceId);
    if (current === undefined) return [];
    const archived = this.#selectArchived.all(current.instanceKey, after, Math.max(limit, 0));
    const isOnPage = archived.length < limit && current.executionId > after;
    const last = isOnPage ? [{ ...current, status: executionStatus(current) }] : [];
    return [...archived, ...last].map((row) => ({
      executionId: row.executionId,
      status: row.status,
      version: this.#definitions.get(row.definitionKey).version,
      startedAt: row.startedAt,
      endedAt: row.endedAt,
      historyLength: row.historyLength,
    }));
  }

  #toRecord(row: RecordRow): InstanceRecord {
    const { cancelReason, cancelRequestedAt, terminateReason, blockedReason, blockedAt } = row;
    const { name, version } = this.#definitions.get(row.definitionKey);
    return {
      instanceKey: row.instanceKey,
      instanceId: row.instanceId,
      incarnation: row.incarnation,
      kind: row.priority === null ? 'orchestration' : 'task',
      name,
      version,
      status: row.status,
      executionId: row.executionId,
      parentInstanceId: row.parentInstanceId,
      output: row.output,
      failure: row.failure,
      customStatus: row.customStatus,
      createdAt: row.createdAt,
      startedAt: row.startedAt,
      endedAt: row.endedAt,
      cancel:
        cancelReason === null || cancelRequestedAt === null
          ? null
          : { reason: cancelReason, actor: row.cancelActor, requestedAt: cancelRequestedAt },
      cleanupSkipped: row.cleanupSkipped === 1,
      leaked: row.leaked,
      terminated:
        terminateReason === null ? null : { reason: terminateReason, actor: row.terminateActor },
      blocked:
        blockedReason === null || blockedAt === null
          ? null
          : { reason: blockedReason, at: blockedAt },
      task: toTask(row),
    };
  }
}

function toTask(row: RecordRow): TaskRecord | null {
  if (row.priority === null) return null;
  return {
    priority: row.priority,
    input: row.input,
    concurrencyKey: row.concurrencyKey,
    runAt: row.runAt,
    expiresAt: row.expiresAt,
    failures: row.failures ?? 0,
    options: row.options,
    onFail: row.onFail === 'ready' ? null : row.onFail,
    onFailFailure: row.onFailFailure,
  };
}

/** The next execution of a running instance is pending until its own first turn. */
function executionStatus({ status, startedAt }: CurrentExecution): InstanceStatus {
  return startedAt === null && !isTerminal(status) && status !== 'canceling' ? 'pending' : status;
}
