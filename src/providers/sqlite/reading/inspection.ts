import type Database from 'better-sqlite3';
import type { CancelTrigger } from '../../../model/failures/errors.ts';
import {
  maxShownLength,
  type InspectionStore,
  type InstanceDetails,
  type PendingItem,
  type TurnState,
} from '../../contract/inspection.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { StoreAccess } from '../batches/group-commit.ts';
import { toTurnState, type TurnStateRow } from '../../shared/turn-state-row.ts';
import { itemKind, toCancelRecord } from '../../shared/work-item-row.ts';

interface InputRow {
  readonly instanceKey: number;
  readonly input: string | null;
}

interface ItemRow extends Omit<
  PendingItem,
  'kind' | 'name' | 'held' | 'expired' | 'pointOfNoReturn' | 'cancel'
> {
  readonly definitionKey: number;
  readonly worker: string | null;
  readonly claimedAt: number;
  readonly lockedUntil: number | null;
  readonly pointOfNoReturn: 0 | 1;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
}

/** Reads details of an instance for operators. */
export class Inspection {
  readonly #definitions: Definitions;
  readonly #selectInput;
  readonly #selectPending;
  readonly #selectTurn;

  constructor(db: Database.Database, definitions: Definitions) {
    this.#definitions = definitions;
    // The input is in the first event of an execution. Before the first turn it is in the start message.
    this.#selectInput = db.prepare<[string], InputRow>(
      `SELECT instance_key AS instanceKey, CASE
         WHEN priority IS NOT NULL THEN input
         WHEN history_length > 0 THEN (
           SELECT payload FROM history AS first WHERE first.instance_key = instances.instance_key
             AND first.execution_id = instances.execution_id AND event_id = 1 AND kind = 'executionStarted')
         ELSE (SELECT payload FROM orchestrator_queue AS message
               WHERE message.instance_key = instances.instance_key AND kind = 'start' LIMIT 1)
       END AS input
       FROM instances WHERE instance_id = ?`,
    );
    this.#selectPending = db.prepare<[number, number], ItemRow>(
      `SELECT definition_key AS definitionKey, execution_id AS executionId, operation, options, failures,
              max_attempts AS maxAttempts,
              CASE WHEN length(last_failure) <= ${maxShownLength} THEN last_failure
                   WHEN last_failure IS NOT NULL THEN '' END AS lastFailure,
              CASE WHEN length(heartbeat) <= ${maxShownLength} THEN heartbeat END AS heartbeat,
              heartbeat_at AS heartbeatAt, point_of_no_return AS pointOfNoReturn,
              next_at AS dueAt, claimed_by AS worker, coalesce(claimed_at, created_at) AS claimedAt,
              locked_until AS lockedUntil, cancel_trigger AS cancelTrigger, cancel_reason AS cancelReason
       FROM worker_queue WHERE instance_key = ? ORDER BY execution_id, operation LIMIT +?`,
    );
    this.#selectTurn = db.prepare<[string], TurnStateRow>(
      `SELECT history_length AS historyLength, closing_reason IS NOT NULL AS isClosing, next_at AS nextAt,
              held_until AS heldUntil, cleanup_at AS cleanupAt, claims, locked_until AS lockedUntil,
              claimed_by AS claimedBy, claimed_at AS claimedAt, session_id AS sessionId, state AS sessionState,
              sessions.expires_at AS sessionExpiresAt, abandoned_at AS abandonedAt
       FROM instances LEFT JOIN instance_locks USING (instance_key) LEFT JOIN jobs USING (instance_key)
         LEFT JOIN sessions USING (session_key)
       WHERE instance_id = ?`,
    );
  }

  read(instanceId: string, maxPending: number, now: number): InstanceDetails | undefined {
    const instance = this.#selectInput.get(instanceId);
    if (instance === undefined) return undefined;
    const { instanceKey, input } = instance;
    const rows = this.#selectPending.all(instanceKey, maxPending);
    return { input, pending: rows.map((row) => this.#toItem(row, now)) };
  }

  turn(instanceId: string, now: number): TurnState | undefined {
    const row = this.#selectTurn.get(instanceId);
    return row && toTurnState(row, now);
  }

  #toItem(row: ItemRow, now: number): PendingItem {
    const { definitionKey, worker, claimedAt, lockedUntil, pointOfNoReturn, ...others } = row;
    const { cancelTrigger, cancelReason, ...item } = others;
    const { kind, name } = this.#definitions.get(definitionKey);
    const isHeld = lockedUntil !== null && lockedUntil > now;
    return {
      kind: itemKind(kind === 'task', row.operation),
      name,
      ...item,
      held: isHeld ? { worker, claimedAt, lockedUntil } : null,
      expired: lockedUntil === null || isHeld ? null : { worker, at: lockedUntil },
      pointOfNoReturn: pointOfNoReturn === 1,
      cancel: toCancelRecord({ cancelTrigger, cancelReason }),
    };
  }
}

export function createInspectionStore(
  store: StoreAccess & { readonly inspection: Inspection },
): InspectionStore {
  return {
    inspectInstance: ({ instanceId, maxPending }) =>
      store.read('inspectInstance', () =>
        store.inspection.read(instanceId, maxPending, store.now()),
      ),
    inspectTurn: (instanceId) =>
      store.read('inspectTurn', () => store.inspection.turn(instanceId, store.now())),
  };
}
