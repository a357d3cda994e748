import type Database from 'better-sqlite3';
import type {
  EventView,
  InstanceVersion,
  ReadEventsParams,
  ReadTreeParams,
  TreeRecord,
  TreeView,
  ViewedEvent,
  ViewStore,
} from '../../contract/views.ts';
import {
  chooseEvents,
  cutText,
  eventsToExamine,
  isPath,
  versionOf,
  type EventSize,
  type VersionColumns,
} from '../../rules/views.ts';
import type { StoreAccess } from '../batches/group-commit.ts';
import type { Definitions } from '../tables/definitions.ts';
import { eventPayload, largePayload } from '../tables/history.ts';

interface InstanceRow {
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly status: EventView['status'];
  readonly currentExecutionId: number;
}

interface Examined extends EventSize {
  readonly kind: string;
  readonly at: number;
  readonly data: string;
}

interface EventRange {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly from: number;
  readonly limit: number;
}

interface NodeRow extends Omit<TreeRecord, 'depth' | 'kind' | 'name' | 'version' | 'children'> {
  readonly definitionKey: number;
  readonly priority: number | null;
}

interface VersionRow extends VersionColumns {
  readonly instanceId: string;
  readonly definitionKey: number;
}

// SQLite reads a whole value to return its head. Bounds the bytes that one page reads.
const maxReadBytes = 32 * 1024 * 1024;

/** Reads for dashboards and command lines. */
export class Views {
  readonly #definitions: Definitions;
  readonly #selectInstance;
  readonly #selectExecution;
  readonly #selectEvents;
  readonly #selectPayload;
  readonly #selectHead;
  readonly #selectNode;
  readonly #selectKey;
  readonly #nextChild;
  readonly #countChildren;
  readonly #selectVersion;

  constructor(db: Database.Database, definitions: Definitions) {
    this.#definitions = definitions;
    this.#selectInstance = db.prepare<[string], InstanceRow>(
      `SELECT instance_key AS instanceKey, incarnation, status, execution_id AS currentExecutionId
       FROM instances WHERE instance_id = ?`,
    );
    this.#selectExecution = db
      .prepare<[number, number], number>(
        'SELECT 1 FROM executions WHERE instance_key = ? AND execution_id = ?',
      )
      .pluck();
    // Sizes only: a payload is read when its event is part of the page.
    const events = (order: string, condition: string) =>
      db.prepare<[EventRange], Examined>(
        `SELECT event_id AS eventId, kind, at, data, octet_length(data) AS dataBytes,
                iif(payload_event IS NULL, octet_length(payload), ${largePayload('history', 'octet_length(large.payload)')}) AS payloadBytes
         FROM history WHERE instance_key = :instanceKey AND execution_id = :executionId AND event_id ${condition} :from
         ORDER BY event_id ${order} LIMIT +:limit`,
      );
    this.#selectEvents = { asc: events('ASC', '>'), desc: events('DESC', '<') };
    this.#selectPayload = db
      .prepare<[number, number, number], string | null>(
        `SELECT ${eventPayload()} FROM history WHERE instance_key = ? AND execution_id = ? AND event_id = ?`,
      )
      .pluck();
    this.#selectHead = db
      .prepare<[number, number, number, number], string | null>(
        `SELECT substr(${eventPayload()}, 1, ?) FROM history WHERE instance_key = ? AND execution_id = ? AND event_id = ?`,
      )
      .pluck();
    this.#selectNode = db.prepare<[number], NodeRow>(
      `SELECT instance_key AS instanceKey, instance_id AS instanceId, parent_instance_id AS parentInstanceId,
              definition_key AS definitionKey, priority, status, execution_id AS executionId,
              created_at AS createdAt, started_at AS startedAt, ended_at AS endedAt
       FROM instances WHERE instance_key = ?`,
    );
    this.#selectKey = db
      .prepare<[string], number>('SELECT instance_key FROM instances WHERE instance_id = ?')
      .pluck();
    this.#nextChild = db
      .prepare<[string, number], number>(
        `SELECT instance_key FROM instances WHERE parent_instance_id = ? AND instance_key > ?
         ORDER BY instance_key LIMIT 1`,
      )
      .pluck();
    this.#countChildren = db
      .prepare<[string, number], number>(
        'SELECT count(*) FROM (SELECT 1 FROM instances WHERE parent_instance_id = ? LIMIT +?)',
      )
      .pluck();
    this.#selectVersion = db.prepare<[string], VersionRow>(
      `SELECT instance_key AS instanceKey, instance_id AS instanceId, definition_key AS definitionKey, status,
              execution_id AS executionId, history_length AS historyLength,
              custom_status_version AS customStatusVersion, started_at AS startedAt, ended_at AS endedAt,
              cancel_requested_at AS cancelRequestedAt, paused_at AS pausedAt, leaked, on_fail AS onFail,
              CASE WHEN priority IS NOT NULL THEN coalesce(
                (SELECT item.failures FROM worker_queue AS item
                 WHERE item.instance_key = instances.instance_key AND item.execution_id = 1 AND item.operation = 1),
                failures) END AS failures,
              (SELECT blocked_at FROM instance_locks AS lock WHERE lock.instance_key = instances.instance_key) AS blockedAt
       FROM instances WHERE instance_id = ?`,
    );
  }

  events(params: ReadEventsParams): EventView | undefined {
    const instance = this.#selectInstance.get(params.instanceId);
    if (instance === undefined) return undefined;
    const { instanceKey, ...state } = instance;
    const { executionId = state.currentExecutionId } = params;
    const exists =
      executionId === state.currentExecutionId ||
      this.#selectExecution.get(instanceKey, executionId) !== undefined;
    const view = { ...state, executionId, exists };
    if (!exists) return { ...view, events: [], next: null };
    const { taken, next } = this.#choose(params, { instanceKey, executionId });
    const events: ViewedEvent[] = [];
    let readBytes = 0;
    for (const { dataBytes: _, ...event } of taken) {
      const bytes = event.payloadBytes ?? 0;
      if (params.headBytes !== undefined && params.headBytes > 0 && events.length > 0) {
        if (readBytes + bytes > maxReadBytes) {
          return { ...view, events, next: events.at(-1)?.eventId ?? null };
        }
      }
      readBytes += bytes;
      const place = [instanceKey, executionId, event.eventId] as const;
      events.push({ ...event, payload: this.#payload(place, bytes, params.headBytes) });
    }
    return { ...view, events, next };
  }

  #choose(
    params: ReadEventsParams,
    execution: { readonly instanceKey: number; readonly executionId: number },
  ) {
    const { order, kinds, dataIncludes, limit } = params;
    const from = params.from ?? (order === 'asc' ? 0 : Number.MAX_SAFE_INTEGER);
    const wanted = kinds && new Set(kinds);
    const matching: Examined[] = [];
    let examined = 0;
    let lastExamined: number | null = null;
    const range = { ...execution, from, limit: eventsToExamine(params) };
    for (const row of this.#selectEvents[order].iterate(range)) {
      examined += 1;
      lastExamined = row.eventId;
      if (wanted?.has(row.kind) === false) continue;
      if (dataIncludes?.some((text) => row.data.includes(text)) === false) continue;
      matching.push(row);
      if (matching.length > limit) break;
    }
    return chooseEvents(params, { matching, examined, lastExamined });
  }

  #payload(
    place: readonly [number, number, number],
    bytes: number,
    headBytes: number | undefined,
  ): string | null {
    if (headBytes === undefined || (bytes <= headBytes && bytes > 0)) {
      return this.#selectPayload.get(...place) ?? null;
    }
    if (headBytes === 0 || bytes === 0) return null;
    // A character has at least one byte.
    const head = this.#selectHead.get(headBytes, ...place) ?? null;
    return head === null ? null : cutText(head, headBytes);
  }

  tree(params: ReadTreeParams): TreeView | undefined {
    const { instanceId, limit, maxDepth, maxChildren } = params;
    const rootKey = this.#selectKey.get(instanceId);
    if (rootKey === undefined) return undefined;
    const path: { readonly key: number; readonly id: string }[] = [];
    const nodes: TreeRecord[] = [];
    const add = (key: number): void => {
      const row = this.#selectNode.get(key);
      if (row === undefined) return;
      nodes.push(this.#toNode(row, path.length, maxChildren));
      path.push({ key, id: row.instanceId });
    };
    if (params.after === undefined) add(rootKey);
    else {
      const rows = params.after.map((key) => this.#selectNode.get(key));
      if (rows.length === 0 || !isPath(instanceId, rows)) return undefined;
      for (const row of rows) if (row) path.push({ key: row.instanceKey, id: row.instanceId });
    }
    let next = path.map(({ key }) => key);
    for (;;) {
      const key = this.#takeNext(path, maxDepth);
      if (key === undefined) return { nodes, next: null };
      if (nodes.length >= limit) return { nodes, next };
      add(key);
      next = path.map((node) => node.key);
    }
  }

  /** Returns the next node in depth-first order, and shortens the path to its parent. */
  #takeNext(
    path: { readonly key: number; readonly id: string }[],
    maxDepth: number,
  ): number | undefined {
    let after = 0;
    while (path.length > maxDepth) after = path.pop()?.key ?? 0;
    for (;;) {
      const parent = path.at(-1);
      if (parent === undefined) return undefined;
      const key = this.#nextChild.get(parent.id, after);
      if (key !== undefined) return key;
      after = path.pop()?.key ?? 0;
    }
  }

  #toNode(row: NodeRow, depth: number, maxChildren: number): TreeRecord {
    const { definitionKey, priority, ...node } = row;
    const { name, version } = this.#definitions.get(definitionKey);
    return {
      ...node,
      depth,
      kind: priority === null ? 'orchestration' : 'task',
      name,
      version,
      children: this.#countChildren.get(row.instanceId, maxChildren) ?? 0,
    };
  }

  versions(instanceIds: readonly string[]): readonly (InstanceVersion | undefined)[] {
    return instanceIds.map((instanceId) => {
      const row = this.#selectVersion.get(instanceId);
      if (row === undefined) return undefined;
      const { status, executionId, historyLength, customStatusVersion } = row;
      const { name } = this.#definitions.get(row.definitionKey);
      const version = versionOf(row);
      return { instanceId, name, status, executionId, historyLength, customStatusVersion, version };
    });
  }
}

export function createViewStore(store: StoreAccess & { readonly views: Views }): ViewStore {
  return {
    readEvents: (params) => store.read('readEvents', () => store.views.events(params)),
    readTree: (params) => store.read('readTree', () => store.views.tree(params)),
    readVersions: (instanceIds) =>
      store.read('readVersions', () => store.views.versions(instanceIds)),
  };
}
