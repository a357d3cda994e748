import type { CancelTrigger } from '../../../model/failures/errors.ts';
import {
  maxShownLength,
  type InspectionStore,
  type InstanceDetails,
  type PendingItem,
  type TurnState,
} from '../../contract/inspection.ts';
import { one, prepare } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';
import { nowSql } from '../driver/scope.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import { toTurnState, type TurnStateRow } from '../../shared/turn-state-row.ts';
import { itemKind, toCancelRecord } from '../../shared/work-item-row.ts';

interface ItemRow extends Omit<PendingItem, 'kind' | 'name' | 'held' | 'expired' | 'cancel'> {
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
  };
}

/** Reads the input and the pending items of an instance, for operators. */
export class Inspection {
  readonly #definitions: Definitions;
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string, definitions: Definitions) {
    this.#definitions = definitions;
    this.#statements = statements(schema);
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
    await this.#definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    );
    return { input: instance.input, pending: rows.map((row) => this.#toItem(row)) };
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

  #toItem(row: ItemRow): PendingItem {
    const { definitionKey, isHeld, worker, claimedAt, lockedUntil, ...others } = row;
    const { cancelTrigger, cancelReason, ...item } = others;
    const { kind, name } = this.#definitions.get(definitionKey);
    return {
      kind: itemKind(kind === 'task', row.operation),
      name,
      ...item,
      held: isHeld && lockedUntil !== null ? { worker, claimedAt, lockedUntil } : null,
      expired: isHeld || lockedUntil === null ? null : { worker, at: lockedUntil },
      cancel: toCancelRecord({ cancelTrigger, cancelReason }),
    };
  }
}

function statements(schema: string) {
  return {
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
    // One index probe per table.
    selectTurn: prepare(
      'perdure_select_turn_state',
      { now: one<number | null>('bigint'), instanceId: one<string>('text') },
      ({ instanceId }) => `SELECT ${nowSql} AS now, history_length AS "historyLength",
          closing_reason IS NOT NULL AS "isClosing", next_at AS "nextAt", held_until AS "heldUntil",
          cleanup_at AS "cleanupAt", claims, locked_until AS "lockedUntil", claimed_by AS "claimedBy",
          claimed_at AS "claimedAt", session_id AS "sessionId", state AS "sessionState",
          session.expires_at AS "sessionExpiresAt", abandoned_at AS "abandonedAt"
        FROM ${schema}.instances
        LEFT JOIN LATERAL (SELECT * FROM ${schema}.instance_locks AS one
          WHERE one.instance_key = instances.instance_key LIMIT 1) AS lock ON TRUE
        LEFT JOIN LATERAL (SELECT session_key, abandoned_at FROM ${schema}.jobs AS one
          WHERE one.instance_key = instances.instance_key LIMIT 1) AS job ON TRUE
        LEFT JOIN LATERAL (SELECT session_id, state, expires_at FROM ${schema}.sessions AS one
          WHERE one.session_key = job.session_key LIMIT 1) AS session ON TRUE
        WHERE instance_id = ${instanceId}`,
    ),
    selectPending: prepare(
      'perdure_select_pending_items',
      {
        now: one<number | null>('bigint'),
        instanceId: one<string>('text'),
        maxPending: one<number>('bigint'),
      },
      ({
        instanceId,
        maxPending,
      }) => `SELECT item.definition_key AS "definitionKey", item.execution_id AS "executionId", operation, item.options,
          item.failures, max_attempts AS "maxAttempts", CASE WHEN length(last_failure) <= ${maxShownLength} THEN last_failure
            WHEN last_failure IS NOT NULL THEN '' END AS "lastFailure",
          CASE WHEN length(heartbeat) <= ${maxShownLength} THEN heartbeat END AS heartbeat,
          heartbeat_at AS "heartbeatAt", point_of_no_return AS "pointOfNoReturn",
          greatest(next_at, locked_until) AS "dueAt", coalesce(locked_until > ${nowSql}, FALSE) AS "isHeld",
          claimed_by AS worker, coalesce(claimed_at, item.created_at) AS "claimedAt", locked_until AS "lockedUntil",
          cancel_trigger AS "cancelTrigger", item.cancel_reason AS "cancelReason"
        FROM ${schema}.instances CROSS JOIN LATERAL (
          SELECT * FROM ${schema}.worker_queue AS one WHERE one.instance_key = instances.instance_key
          ORDER BY one.execution_id, one.operation LIMIT ${maxPending}) AS item
        WHERE instance_id = ${instanceId} ORDER BY item.execution_id, operation`,
    ),
  };
}
