import type { CancelTrigger } from '../../../model/failures/errors.ts';
import {
  maxShownLength,
  type InspectionStore,
  type InstanceDetails,
  type PendingItem,
} from '../../contract/inspection.ts';
import { text } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';
import { nowSql } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import { onFailOperation } from '../tables/work-items.ts';

interface ItemRow extends Omit<PendingItem, 'kind' | 'name' | 'held' | 'cancel'> {
  readonly definitionKey: number;
  readonly isHeld: boolean;
  readonly worker: string | null;
  readonly claimedAt: number;
  readonly lockedUntil: number | null;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
}

/** Reads what operators see of an instance besides its row. */
export class Inspection {
  readonly #definitions: Definitions;
  readonly #selectInput: Statement;
  readonly #selectPending: Statement;

  constructor(schema: string, definitions: Definitions) {
    this.#definitions = definitions;
    // The input of an execution is that of its first event; before that it is that of its start message.
    this.#selectInput = {
      name: 'perdure_select_input',
      text: `SELECT CASE
          WHEN priority IS NOT NULL THEN input
          WHEN history_length > 0 THEN (
            SELECT payload FROM ${schema}.history AS first WHERE first.instance_key = instances.instance_key
              AND first.execution_id = instances.execution_id AND event_id = 1 AND kind = 'executionStarted')
          ELSE (SELECT payload FROM ${schema}.orchestrator_queue AS message
                WHERE message.instance_key = instances.instance_key AND kind = 'start' LIMIT 1)
        END AS input
        FROM ${schema}.instances WHERE instance_id = $1`,
    };
    this.#selectPending = {
      name: 'perdure_select_pending_items',
      text: `SELECT item.definition_key AS "definitionKey", item.execution_id AS "executionId", operation, item.options,
          item.failures, CASE WHEN length(last_failure) <= ${maxShownLength} THEN last_failure
            WHEN last_failure IS NOT NULL THEN '' END AS "lastFailure",
          CASE WHEN length(heartbeat) <= ${maxShownLength} THEN heartbeat END AS heartbeat,
          greatest(next_at, locked_until) AS "dueAt", coalesce(locked_until > ${nowSql}, FALSE) AS "isHeld",
          claimed_by AS worker, coalesce(claimed_at, item.created_at) AS "claimedAt", locked_until AS "lockedUntil",
          cancel_trigger AS "cancelTrigger", item.cancel_reason AS "cancelReason"
        FROM ${schema}.instances CROSS JOIN LATERAL (
          SELECT * FROM ${schema}.worker_queue AS one WHERE one.instance_key = instances.instance_key
          ORDER BY one.execution_id, one.operation LIMIT $3) AS item
        WHERE instance_id = $2 ORDER BY item.execution_id, operation`,
    };
  }

  async read(
    tx: Transaction,
    { instanceId, maxPending }: { readonly instanceId: string; readonly maxPending: number },
    nowParameter: number | null,
  ): Promise<InstanceDetails | undefined> {
    const [inputs, rows] = await Promise.all([
      tx.query<{ readonly input: string | null }>(this.#selectInput, [text(instanceId)]),
      tx.query<ItemRow>(this.#selectPending, [nowParameter, text(instanceId), maxPending]),
    ]);
    const [instance] = inputs;
    if (instance === undefined) return undefined;
    await this.#definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    );
    return { input: instance.input, pending: rows.map((row) => this.#toItem(row)) };
  }

  #toItem(row: ItemRow): PendingItem {
    const { definitionKey, isHeld, worker, claimedAt, lockedUntil, ...others } = row;
    const { cancelTrigger, cancelReason, ...item } = others;
    const { kind, name } = this.#definitions.get(definitionKey);
    return {
      kind: kind !== 'task' ? 'activity' : row.operation === onFailOperation ? 'onFail' : 'task',
      name,
      ...item,
      held: isHeld && lockedUntil !== null ? { worker, claimedAt, lockedUntil } : null,
      cancel:
        cancelTrigger === null || cancelReason === null
          ? null
          : { reason: cancelReason, trigger: cancelTrigger },
    };
  }
}

export function createInspectionStore(store: Store): InspectionStore {
  return {
    inspectInstance: (params) =>
      store.read('inspectInstance', (tx) => store.inspection.read(tx, params, store.nowParameter)),
  };
}
