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
import type { StoreAccess } from '../batches/store-access.ts';
import { keys, one, optional, prepare, strings } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';
import { RunState } from '../tables/task-rows.ts';

interface InstanceRow {
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly status: EventView['status'];
  readonly currentExecutionId: number;
  readonly exists: boolean;
}

interface SizeRow {
  readonly examined: number;
  readonly lastExamined: number | null;
  /** `null`, like the sizes, if no event matched. */
  readonly eventId: number | null;
  readonly dataBytes: number;
  readonly payloadBytes: number | null;
}

interface PathRow {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly parentInstanceId: string | null;
}

interface NodeRow extends Omit<TreeRecord, 'depth' | 'kind' | 'name' | 'version'> {
  readonly path: string;
  readonly definitionKey: number;
  readonly priority: number | null;
}

interface VersionRow extends VersionColumns {
  readonly instanceId: string;
  readonly definitionKey: number;
}

const maxEventId = 2_147_483_647;
// The first character of an escape sequence of `toStoredText`.
const escape = '\u0001';

/** Reads for dashboards and command lines. */
export class Views {
  readonly #definitions: Definitions;
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string, definitions: Definitions) {
    this.#definitions = definitions;
    this.#sql = statements(schema);
  }

  async events(tx: Transaction, params: ReadEventsParams): Promise<EventView | undefined> {
    const { instanceId, order, kinds, dataIncludes, headBytes } = params;
    const [instance] = await tx.query<InstanceRow>(
      ...this.#sql.selectInstance({ instanceId, executionId: params.executionId ?? null }),
    );
    if (instance === undefined) return undefined;
    const { instanceKey, ...state } = instance;
    const executionId = params.executionId ?? state.currentExecutionId;
    const view = { ...state, executionId };
    if (!state.exists) return { ...view, events: [], next: null };
    const from = params.from ?? (order === 'asc' ? 0 : maxEventId);
    const sizes = await tx.query<SizeRow>(
      ...this.#sql.selectSizes[order]({
        instanceKey,
        executionId,
        from: Math.min(Math.max(from, 0), maxEventId),
        scanned: eventsToExamine(params),
        limit: params.limit + 1,
        kinds,
        texts: dataIncludes,
      }),
    );
    const { examined = 0, lastExamined = null } = sizes[0] ?? {};
    const matching = sizes.filter((row): row is SizeRow & EventSize => row.eventId !== null);
    const { taken, next } = chooseEvents(params, { matching, examined, lastExamined });
    const eventIds = taken.map(({ eventId }) => eventId);
    const rows =
      eventIds.length === 0
        ? []
        : await tx.query<ViewedEvent>(
            ...this.#sql.selectEvents({
              instanceKey,
              executionId,
              eventIds,
              characters: headBytes ?? null,
            }),
          );
    const events = rows.map((row) => ({ ...row, payload: toHead(row, headBytes) }));
    return { ...view, events: order === 'asc' ? events : events.toReversed(), next };
  }

  async tree(tx: Transaction, params: ReadTreeParams): Promise<TreeView | undefined> {
    const { instanceId, after, limit, maxDepth, maxChildren } = params;
    const root = after === undefined ? await this.#root(tx, instanceId) : undefined;
    const path = after === undefined ? root && [root] : await this.#path(tx, instanceId, after);
    if (path === undefined) return undefined;
    const rows = await tx.query<NodeRow>(
      ...this.#sql.walk({
        keys: path.map(({ instanceKey }) => instanceKey),
        ids: path.map((node) => node.instanceId),
        // One extra node shows whether there is a next page.
        steps: after === undefined ? limit : limit + 1,
        withStart: after === undefined,
        maxDepth,
        maxChildren,
      }),
    );
    await this.#definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    );
    const taken = rows.slice(0, limit);
    const nodes = taken.map((row) => this.#toNode(row));
    const last = taken.at(-1);
    if (last === undefined || rows.length <= limit) return { nodes, next: null };
    return { nodes, next: toKeys(last.path) };
  }

  async versions(
    tx: Transaction,
    instanceIds: readonly string[],
  ): Promise<readonly (InstanceVersion | undefined)[]> {
    if (instanceIds.length === 0) return [];
    const rows = await tx.query<VersionRow>(...this.#sql.selectVersions({ instanceIds }));
    await this.#definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    );
    const byId = new Map(rows.map((row) => [row.instanceId, row]));
    return instanceIds.map((instanceId) => {
      const row = byId.get(instanceId);
      if (row === undefined) return undefined;
      const { status, executionId, historyLength, customStatusVersion } = row;
      const { name } = this.#definitions.get(row.definitionKey);
      const version = versionOf(row);
      return { instanceId, name, status, executionId, historyLength, customStatusVersion, version };
    });
  }

  async #root(tx: Transaction, instanceId: string): Promise<PathRow | undefined> {
    const [row] = await tx.query<PathRow>(...this.#sql.selectRoot({ instanceId }));
    return row;
  }

  async #path(
    tx: Transaction,
    rootId: string,
    after: readonly number[],
  ): Promise<readonly PathRow[] | undefined> {
    if (after.length === 0) return undefined;
    const rows = await tx.query<PathRow>(...this.#sql.selectPath({ keys: after }));
    const byKey = new Map(rows.map((row) => [row.instanceKey, row]));
    const path = after.map((key) => byKey.get(key));
    if (!isPath(rootId, path)) return undefined;
    return path.filter((row) => row !== undefined);
  }

  #toNode(row: NodeRow): TreeRecord {
    const { definitionKey, priority, path, ...node } = row;
    const { name, version } = this.#definitions.get(definitionKey);
    const kind = priority === null ? 'orchestration' : 'task';
    return { ...node, depth: toKeys(path).length - 1, kind, name, version };
  }
}

function toKeys(path: string): readonly number[] {
  return path.split(',').map(Number);
}

function toHead(
  { payload, payloadBytes }: ViewedEvent,
  headBytes: number | undefined,
): string | null {
  if (headBytes === undefined || payload === null) return payload;
  if (headBytes === 0) return null;
  const isCut = (payloadBytes ?? 0) > headBytes && payload.endsWith(escape);
  return cutText(isCut ? payload.slice(0, -1) : payload, headBytes);
}

export function createViewStore(store: StoreAccess & { readonly views: Views }): ViewStore {
  return {
    readEvents: (params) => store.read('readEvents', (tx) => store.views.events(tx, params)),
    readTree: (params) => store.read('readTree', (tx) => store.views.tree(tx, params)),
    readVersions: (instanceIds) =>
      store.read('readVersions', (tx) => store.views.versions(tx, instanceIds)),
  };
}

function statements(schema: string) {
  const run = new RunState(schema);
  const table = `${schema}.instances`;
  const sizes = (order: 'asc' | 'desc') =>
    prepare(
      `perdure_select_event_sizes_${order}`,
      {
        instanceKey: one<number>('bigint'),
        executionId: one<number>('int'),
        from: one<number>('int'),
        scanned: one<number>('bigint'),
        limit: one<number>('bigint'),
        kinds: optional(strings()),
        texts: optional(strings()),
      },
      ({
        instanceKey,
        executionId,
        from,
        scanned,
        limit,
        kinds,
        texts,
      }) => `WITH examined AS MATERIALIZED (
          SELECT event_id, kind, data, octet_length(payload) AS payload_bytes FROM ${schema}.history
          WHERE instance_key = ${instanceKey} AND execution_id = ${executionId}
            AND event_id ${order === 'asc' ? '>' : '<'} ${from}
          ORDER BY event_id ${order} LIMIT ${scanned})
        SELECT examined, last_examined AS "lastExamined", event_id AS "eventId", data_bytes AS "dataBytes",
          payload_bytes AS "payloadBytes"
        FROM (SELECT count(*)::int AS examined, ${order === 'asc' ? 'max' : 'min'}(event_id) AS last_examined
              FROM examined) AS step
        LEFT JOIN (
          SELECT event_id, octet_length(data) AS data_bytes, payload_bytes FROM examined
          WHERE (${kinds} IS NULL OR kind = ANY (${kinds})) AND (${texts} IS NULL OR EXISTS (
            SELECT 1 FROM unnest(${texts}) AS part WHERE strpos(data, part) > 0))
          ORDER BY event_id ${order} LIMIT ${limit}) AS matching ON TRUE
        ORDER BY event_id ${order}`,
    );
  return {
    selectInstance: prepare(
      'perdure_select_viewed_instance',
      { instanceId: one<string>('text'), executionId: one<number | null>('int') },
      ({
        instanceId,
        executionId,
      }) => `SELECT instance_key AS "instanceKey", incarnation, ${run.status('instances')} AS status,
          execution_id AS "currentExecutionId",
          execution_id = coalesce(${executionId}, execution_id) OR coalesce((
            SELECT TRUE FROM ${schema}.executions AS past
            WHERE past.instance_key = instances.instance_key AND past.execution_id = ${executionId}), FALSE) AS exists
        FROM ${table} WHERE instance_id = ${instanceId}`,
    ),
    selectSizes: { asc: sizes('asc'), desc: sizes('desc') },
    selectEvents: prepare(
      'perdure_select_viewed_events',
      {
        instanceKey: one<number>('bigint'),
        executionId: one<number>('int'),
        eventIds: keys('int'),
        characters: one<number | null>('int'),
      },
      ({
        instanceKey,
        executionId,
        eventIds,
        characters,
      }) => `SELECT event_id AS "eventId", kind, at, data, octet_length(payload) AS "payloadBytes",
          CASE WHEN ${characters} IS NULL THEN payload WHEN ${characters} > 0 THEN substr(payload, 1, ${characters}) END
            AS payload
        FROM ${schema}.history
        WHERE instance_key = ${instanceKey} AND execution_id = ${executionId} AND event_id = ANY (${eventIds})
        ORDER BY event_id`,
    ),
    selectRoot: prepare(
      'perdure_select_tree_root',
      { instanceId: one<string>('text') },
      ({
        instanceId,
      }) => `SELECT instance_key AS "instanceKey", instance_id AS "instanceId", parent_instance_id AS "parentInstanceId"
        FROM ${table} WHERE instance_id = ${instanceId}`,
    ),
    selectPath: prepare(
      'perdure_select_tree_path',
      { keys: keys() },
      (parameters) =>
        `SELECT instance_key AS "instanceKey", instance_id AS "instanceId", parent_instance_id AS "parentInstanceId"
        FROM ${table} WHERE instance_key = ANY (${parameters.keys})`,
    ),
    // Each step finds one node: the first child, or the next sibling of the node or of its closest ancestor that has one.
    walk: prepare(
      'perdure_walk_tree',
      {
        keys: keys(),
        ids: strings(),
        steps: one<number>('bigint'),
        withStart: one<boolean>('boolean'),
        maxDepth: one<number>('int'),
        maxChildren: one<number>('int'),
      },
      ({
        ids,
        steps,
        withStart,
        maxDepth,
        maxChildren,
        ...start
      }) => `WITH RECURSIVE walk (step, keys, ids) AS (
          SELECT 0::bigint, ${start.keys}, ${ids} COLLATE "C"
          UNION ALL
          SELECT step + 1, keys[1:level] || found.instance_key, ids[1:level] || found.instance_id
          FROM walk CROSS JOIN LATERAL (
            SELECT level, child.instance_key, child.instance_id
            FROM generate_series(least(cardinality(keys), ${maxDepth}), 1, -1) AS level
            CROSS JOIN LATERAL (
              SELECT instance_key, instance_id FROM ${table} AS one
              WHERE one.parent_instance_id = ids[level] AND one.instance_key > coalesce(keys[level + 1], 0)
              ORDER BY one.instance_key LIMIT 1) AS child
            ORDER BY level DESC LIMIT 1) AS found
          WHERE step < ${steps})
        SELECT array_to_string(keys, ',') AS path, node.*, children.children FROM walk
        CROSS JOIN LATERAL (
          SELECT instance_key AS "instanceKey", instance_id AS "instanceId", parent_instance_id AS "parentInstanceId",
            definition_key AS "definitionKey", priority, ${run.status('one')} AS status, execution_id AS "executionId",
            created_at AS "createdAt", ${run.startedAt('one')} AS "startedAt", ended_at AS "endedAt"
          FROM ${table} AS one WHERE one.instance_key = keys[cardinality(keys)] LIMIT 1) AS node
        CROSS JOIN LATERAL (
          SELECT count(*)::int AS children FROM (
            SELECT FROM ${table} AS one WHERE one.parent_instance_id = node."instanceId" LIMIT ${maxChildren}) AS few
          ) AS children
        WHERE step > 0 OR ${withStart} ORDER BY step`,
    ),
    selectVersions: prepare(
      'perdure_select_versions',
      { instanceIds: strings() },
      ({
        instanceIds,
      }) => `SELECT instance_key AS "instanceKey", instance_id AS "instanceId", definition_key AS "definitionKey",
          ${run.status('instances')} AS status, execution_id AS "executionId", history_length AS "historyLength",
          custom_status_version AS "customStatusVersion", ${run.startedAt('instances')} AS "startedAt",
          ended_at AS "endedAt", cancel_requested_at AS "cancelRequestedAt", paused_at AS "pausedAt", leaked,
          ${run.onFail('instances')} AS "onFail",
          CASE WHEN priority IS NOT NULL THEN coalesce(
            (SELECT item.failures FROM ${schema}.worker_queue AS item
             WHERE item.instance_key = instances.instance_key AND item.execution_id = 1 AND item.operation = 1),
            failures) END AS failures,
          (SELECT blocked_at FROM ${schema}.instance_locks AS lock
           WHERE lock.instance_key = instances.instance_key) AS "blockedAt"
        FROM ${table} WHERE instance_id = ANY (${instanceIds})`,
    ),
  };
}
