import type { StoredEvent } from '../../../model/event.ts';
import type { CancelTrigger } from '../../../model/failures/errors.ts';
import {
  maxListedLength,
  maxShownLength,
  type InspectedInstance,
  type InspectInstancesParams,
  type InspectionStore,
  type InstanceDetails,
  type PendingItem,
  type TurnState,
} from '../../contract/inspection.ts';
import type { LimitHold } from '../../contract/limits.ts';
import { needsEvents } from '../../rules/inspection.ts';
import { keys, one, prepare, strings } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import type { LimitViews } from '../limits/limit-views.ts';
import type { Definitions } from '../tables/definitions.ts';
import { nowSql } from '../driver/scope.ts';
import type { InstanceRecords } from './instance-records.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import { payloadColumns, textsOfInstance } from '../../shared/payload-columns.ts';
import { toTurnState, type TurnStateRow } from '../../shared/turn-state-row.ts';
import { itemKind, taskOperation, toCancelRecord } from '../../shared/work-item-row.ts';

interface EventRow extends StoredEvent {
  readonly instanceKey: number;
}

interface ItemRow extends Omit<
  PendingItem,
  'kind' | 'name' | 'held' | 'expired' | 'cancel' | 'limitHold'
> {
  readonly itemKey: number;
  /** Whether it is due and waits in a lane. */
  readonly isWaiting: boolean;
  readonly definitionKey: number;
  readonly isHeld: boolean;
  readonly worker: string | null;
  readonly claimedAt: number;
  readonly lockedUntil: number | null;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
}

export function createInspectionStore(
  store: StoreAccess & { readonly inspection: Inspection },
): InspectionStore {
  return {
    inspectInstance: (params) =>
      store.read('inspectInstance', (tx) => store.inspection.read(tx, params, store.nowParameter)),
    inspectTurn: (instanceId) =>
      store.read('inspectTurn', (tx) => store.inspection.turn(tx, instanceId, store.nowParameter)),
    inspectInstances: (params) =>
      store.read('inspectInstances', (tx) => store.inspection.many(tx, params, store.nowParameter)),
    findStoredTexts: (params) =>
      store.read('findStoredTexts', (tx) => store.inspection.find(tx, params)),
  };
}

/** Reads the input and the pending items of an instance, for operators. */
export class Inspection {
  readonly #definitions: Definitions;
  readonly #records: InstanceRecords;
  readonly #limitViews: LimitViews;
  readonly #statements: ReturnType<typeof statements>;

  constructor(
    schema: string,
    {
      definitions,
      instanceRecords,
      limitViews,
    }: {
      readonly definitions: Definitions;
      readonly instanceRecords: InstanceRecords;
      readonly limitViews: LimitViews;
    },
  ) {
    this.#definitions = definitions;
    this.#records = instanceRecords;
    this.#limitViews = limitViews;
    this.#statements = statements(schema);
  }

  /** The stored texts of an instance that contain a text. */
  async find(
    tx: Transaction,
    params: { readonly instanceId: string; readonly text: string },
  ): Promise<readonly string[]> {
    const rows = await tx.query<{ readonly text: string }>(...this.#statements.find(params));
    return rows.map(({ text }) => text);
  }

  async read(
    tx: Transaction,
    { instanceId, maxPending }: { readonly instanceId: string; readonly maxPending: number },
    nowParameter: number | null,
  ): Promise<InstanceDetails | undefined> {
    const { selectInput, selectPending } = this.#statements;
    const [inputs, rows] = await Promise.all([
      tx.query<{ readonly input: string | null }>(...selectInput({ instanceId })),
      tx.query<ItemRow>(...selectPending({ now: nowParameter, instanceId, maxPending })),
    ]);
    const [instance] = inputs;
    if (instance === undefined) return undefined;
    const [holds] = await Promise.all([
      this.#holds(tx, rows, nowParameter),
      this.#definitions.load(
        tx,
        rows.map(({ definitionKey }) => definitionKey),
      ),
    ]);
    return { input: instance.input, pending: rows.map((row) => this.#toItem(row, holds)) };
  }

  async turn(
    tx: Transaction,
    instanceId: string,
    nowParameter: number | null,
  ): Promise<TurnState | undefined> {
    const [row] = await tx.query<TurnStateRow & { readonly now: number }>(
      ...this.#statements.selectTurn({ now: nowParameter, instanceId }),
    );
    return row && toTurnState(row, row.now);
  }

  /** Runs four statements, for any number of instances. */
  async many(
    tx: Transaction,
    { instanceIds, maxPending, maxEvents }: InspectInstancesParams,
    now: number | null,
  ): Promise<readonly (InspectedInstance | undefined)[]> {
    if (instanceIds.length === 0) return [];
    const { selectTurns, selectListed, selectLastEvents } = this.#statements;
    const [records, turns, items] = await Promise.all([
      this.#records.getListed(tx, instanceIds),
      tx.query<TurnStateRow & { readonly now: number; readonly instanceKey: number }>(
        ...selectTurns({ now, instanceIds }),
      ),
      tx.query<ItemRow & { readonly instanceKey: number }>(
        ...selectListed({ now, instanceIds, maxPending }),
      ),
    ]);
    const [holds] = await Promise.all([
      this.#holds(tx, items, now),
      this.#definitions.load(
        tx,
        items.map(({ definitionKey }) => definitionKey),
      ),
    ]);
    const turnByKey = new Map(turns.map((row) => [row.instanceKey, toTurnState(row, row.now)]));
    const itemsByKey = Map.groupBy(items, ({ instanceKey }) => instanceKey);
    const found = records.flatMap((record) => {
      const { instanceKey } = record;
      const turn = turnByKey.get(instanceKey);
      const pending = (itemsByKey.get(instanceKey) ?? []).map((row) => {
        const { instanceKey: _, ...item } = row;
        return this.#toItem(item, holds);
      });
      // The instance may have been replaced between two statements.
      return turn === undefined ? [] : [{ record, turn, pending }];
    });
    const idle = found.filter(needsEvents).map(({ record }) => record.instanceKey);
    const events =
      idle.length === 0
        ? []
        : await tx.query<EventRow>(...selectLastEvents({ keys: idle, maxEvents }));
    const eventsByKey = Map.groupBy(events, ({ instanceKey }) => instanceKey);
    const byId = new Map(
      found.map((one) => {
        const { instanceKey, instanceId } = one.record;
        const own = eventsByKey.get(instanceKey) ?? [];
        const events = own.map(({ kind, at, data, payload }) => ({ kind, at, data, payload }));
        return [instanceId, { ...one, events }];
      }),
    );
    return instanceIds.map((id) => byId.get(id));
  }

  #holds(
    tx: Transaction,
    rows: readonly ItemRow[],
    now: number | null,
  ): Promise<ReadonlyMap<number, LimitHold>> {
    const waiting = rows.filter(({ isWaiting }) => isWaiting);
    return this.#limitViews.holds(
      tx,
      waiting.map(({ itemKey }) => itemKey),
      now,
    );
  }

  #toItem(row: ItemRow, holds: ReadonlyMap<number, LimitHold>): PendingItem {
    const { definitionKey, isHeld, worker, claimedAt, lockedUntil, ...others } = row;
    const { cancelTrigger, cancelReason, itemKey, isWaiting: _, ...item } = others;
    const { kind, name } = this.#definitions.get(definitionKey);
    return {
      kind: itemKind(kind === 'task', row.operation),
      name,
      ...item,
      limitHold: holds.get(itemKey) ?? null,
      held: isHeld && lockedUntil !== null ? { worker, claimedAt, lockedUntil } : null,
      expired: isHeld || lockedUntil === null ? null : { worker, at: lockedUntil },
      cancel: toCancelRecord({ cancelTrigger, cancelReason }),
    };
  }
}

const turnColumns = `${nowSql} AS now, history_length AS "historyLength",
          closing_reason IS NOT NULL AS "isClosing", next_at AS "nextAt", held_until AS "heldUntil",
          cleanup_at AS "cleanupAt", claims, locked_until AS "lockedUntil", claimed_by AS "claimedBy",
          claimed_at AS "claimedAt", debounce.start_key AS "debounceKey", debounce.moves, run_at AS "runAt",
          session_id AS "sessionId", state AS "sessionState",
          CASE WHEN NOT has_begun THEN place.lane END AS "waitingKey",
          session.expires_at AS "sessionExpiresAt", abandoned_at AS "abandonedAt"`;

/** One index probe per table. */
function turnSource(schema: string): string {
  return `${schema}.instances
        LEFT JOIN LATERAL (SELECT * FROM ${schema}.instance_locks AS one
          WHERE one.instance_key = instances.instance_key LIMIT 1) AS lock ON TRUE
        LEFT JOIN LATERAL (SELECT start_key, moves FROM ${schema}.start_keys AS one
          WHERE one.instance_key = instances.instance_key AND one.kind = 'debounce' AND instances.status = 'pending'
            AND instances.execution_id = 1 AND lock.locked_until IS NULL AND (
              SELECT item.started_at FROM ${schema}.worker_queue AS item
              WHERE item.instance_key = instances.instance_key AND item.execution_id = 1
                AND item.operation = ${taskOperation}) IS NULL
          LIMIT 1) AS debounce ON TRUE
        LEFT JOIN LATERAL (SELECT session_key, abandoned_at FROM ${schema}.jobs AS one
          WHERE one.instance_key = instances.instance_key LIMIT 1) AS job ON TRUE
        LEFT JOIN LATERAL (SELECT lane, has_begun FROM ${schema}.instance_places AS one
          WHERE one.instance_key = instances.instance_key LIMIT 1) AS place ON TRUE
        LEFT JOIN LATERAL (SELECT session_id, state, expires_at FROM ${schema}.sessions AS one
          WHERE one.session_key = job.session_key LIMIT 1) AS session ON TRUE`;
}

const itemColumns = `item.definition_key AS "definitionKey", item.execution_id AS "executionId", operation,
          item.failures, max_attempts AS "maxAttempts", heartbeat_at AS "heartbeatAt", point_of_no_return AS "pointOfNoReturn",
          greatest(next_at, locked_until) AS "dueAt", coalesce(locked_until > ${nowSql}, FALSE) AS "isHeld",
          claimed_by AS worker, coalesce(claimed_at, item.created_at) AS "claimedAt", locked_until AS "lockedUntil",
          cancel_trigger AS "cancelTrigger", item.cancel_reason AS "cancelReason", item.lane, item.item_key AS "itemKey",
          item.lane IS NOT NULL AND lock_token IS NULL AND NOT cancel_requested AND next_at <= ${nowSql} AS "isWaiting"`;

function itemSource(schema: string, maxPending: string): string {
  return `${schema}.instances CROSS JOIN LATERAL (
          SELECT * FROM ${schema}.worker_queue AS one WHERE one.instance_key = instances.instance_key
          ORDER BY one.execution_id, one.operation LIMIT ${maxPending}) AS item`;
}

function statements(schema: string) {
  return {
    find: prepare(
      'perdure_find_stored_texts',
      { instanceId: one<string>('text'), text: one<string>('text') },
      ({ instanceId, text }) =>
        textsOfInstance(payloadColumns, {
          prefix: `${schema}.`,
          instanceKey: `(SELECT instance_key FROM ${schema}.instances WHERE instance_id = ${instanceId})`,
          matches: (column) => `position(${text} IN ${column}) > 0`,
        }),
    ),
    // The input is in the first event of the execution, or in the start message before its first turn.
    selectInput: prepare(
      'perdure_select_input',
      { instanceId: one<string>('text') },
      ({ instanceId }) => `SELECT CASE
          WHEN priority IS NOT NULL THEN input
          WHEN history_length > 0 THEN (
            SELECT payload FROM ${schema}.history AS first WHERE first.instance_key = instances.instance_key
              AND first.execution_id = instances.execution_id AND event_id = 1 AND kind = 'executionStarted')
          ELSE (SELECT payload FROM ${schema}.orchestrator_queue AS message
                WHERE message.instance_key = instances.instance_key AND kind = 'start' LIMIT 1)
        END AS input
        FROM ${schema}.instances WHERE instance_id = ${instanceId}`,
    ),
    selectTurn: prepare(
      'perdure_select_turn_state',
      { now: one<number | null>('bigint'), instanceId: one<string>('text') },
      ({ instanceId }) =>
        `SELECT ${turnColumns} FROM ${turnSource(schema)} WHERE instance_id = ${instanceId}`,
    ),
    selectTurns: prepare(
      'perdure_select_turn_states',
      { now: one<number | null>('bigint'), instanceIds: strings() },
      ({ instanceIds }) => `SELECT instances.instance_key AS "instanceKey", ${turnColumns}
        FROM ${turnSource(schema)} WHERE instance_id = ANY (${instanceIds})`,
    ),
    selectListed: prepare(
      'perdure_select_listed_items',
      {
        now: one<number | null>('bigint'),
        instanceIds: strings(),
        maxPending: one<number>('bigint'),
      },
      ({
        instanceIds,
        maxPending,
      }) => `SELECT instances.instance_key AS "instanceKey", ${itemColumns},
          CASE WHEN length(item.options) <= ${maxListedLength} THEN item.options END AS options,
          NULL AS "lastFailure", NULL AS heartbeat
        FROM ${itemSource(schema, maxPending)}
        WHERE instance_id = ANY (${instanceIds}) ORDER BY item.execution_id, operation`,
    ),
    selectLastEvents: prepare(
      'perdure_select_last_events',
      { keys: keys(), maxEvents: one<number>('bigint') },
      ({
        keys,
        maxEvents,
      }) => `SELECT instances.instance_key AS "instanceKey", event.kind, event.at, event.data,
          NULL AS payload
        FROM ${schema}.instances CROSS JOIN LATERAL (
          SELECT event_id, kind, at, data FROM ${schema}.history AS one
          WHERE one.instance_key = instances.instance_key AND one.execution_id = instances.execution_id
          ORDER BY one.event_id DESC LIMIT ${maxEvents}) AS event
        WHERE instances.instance_key = ANY (${keys}) ORDER BY event.event_id`,
    ),
    selectPending: prepare(
      'perdure_select_pending_items',
      {
        now: one<number | null>('bigint'),
        instanceId: one<string>('text'),
        maxPending: one<number>('bigint'),
      },
      ({ instanceId, maxPending }) => `SELECT ${itemColumns}, item.options,
          CASE WHEN length(last_failure) <= ${maxShownLength} THEN last_failure
            WHEN last_failure IS NOT NULL THEN '' END AS "lastFailure",
          CASE WHEN length(heartbeat) <= ${maxShownLength} THEN heartbeat END AS heartbeat
        FROM ${itemSource(schema, maxPending)}
        WHERE instance_id = ${instanceId} ORDER BY item.execution_id, operation`,
    ),
  };
}
