import type Database from 'better-sqlite3';
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
import type { Definitions } from '../tables/definitions.ts';
import { eventPayload } from '../tables/history.ts';
import type { LimitReads } from '../limits/limit-reads.ts';
import type { InstanceRecords } from './instance-records.ts';
import { needsEvents } from '../../rules/inspection.ts';
import type { StoreAccess } from '../batches/group-commit.ts';
import { payloadColumns, textsOfInstance } from '../../shared/payload-columns.ts';
import { toTurnState, type TurnStateRow } from '../../shared/turn-state-row.ts';
import { itemKind, toCancelRecord } from '../../shared/work-item-row.ts';

interface InputRow {
  readonly instanceKey: number;
  readonly input: string | null;
}

interface ItemRow extends Omit<
  PendingItem,
  'kind' | 'name' | 'held' | 'expired' | 'limitHold' | 'pointOfNoReturn' | 'cancel'
> {
  readonly definitionKey: number;
  /** Set with a lane. */
  readonly limitKey: number;
  readonly itemKey: number;
  readonly priority: number;
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
  readonly #records: InstanceRecords;
  readonly #limitReads: LimitReads;
  readonly #selectInput;
  readonly #selectPending;
  readonly #selectListed;
  readonly #selectEvents;
  readonly #selectTurn;
  readonly #find;

  constructor(
    db: Database.Database,
    parts: {
      readonly definitions: Definitions;
      readonly instanceRecords: InstanceRecords;
      readonly limitReads: LimitReads;
    },
  ) {
    this.#definitions = parts.definitions;
    this.#records = parts.instanceRecords;
    this.#limitReads = parts.limitReads;
    // The input is in the first event of an execution. Before the first turn it is in the start message.
    this.#selectInput = db.prepare<[string], InputRow>(
      `SELECT instance_key AS instanceKey, CASE
         WHEN priority IS NOT NULL THEN input
         WHEN history_length > 0 THEN (
           SELECT ${eventPayload('first')} FROM history AS first WHERE first.instance_key = instances.instance_key
             AND first.execution_id = instances.execution_id AND event_id = 1 AND kind = 'executionStarted')
         ELSE (SELECT payload FROM orchestrator_queue AS message
               WHERE message.instance_key = instances.instance_key AND kind = 'start' LIMIT 1)
       END AS input
       FROM instances WHERE instance_id = ?`,
    );
    const items = (values: string) =>
      db.prepare<[number, number], ItemRow>(
        `SELECT definition_key AS definitionKey, execution_id AS executionId, operation, failures,
                max_attempts AS maxAttempts, ${values},
                heartbeat_at AS heartbeatAt, point_of_no_return AS pointOfNoReturn,
                next_at AS dueAt, claimed_by AS worker, coalesce(claimed_at, created_at) AS claimedAt,
                locked_until AS lockedUntil, cancel_trigger AS cancelTrigger, cancel_reason AS cancelReason,
                lane, limit_key AS limitKey, item_key AS itemKey, priority
         FROM worker_queue WHERE instance_key = ? ORDER BY execution_id, operation LIMIT +?`,
      );
    this.#selectPending = items(
      `options, CASE WHEN length(last_failure) <= ${maxShownLength} THEN last_failure
                     WHEN last_failure IS NOT NULL THEN '' END AS lastFailure,
       CASE WHEN length(heartbeat) <= ${maxShownLength} THEN heartbeat END AS heartbeat`,
    );
    this.#selectListed = items(
      `CASE WHEN length(options) <= ${maxListedLength} THEN options END AS options,
       NULL AS lastFailure, NULL AS heartbeat`,
    );
    this.#selectEvents = db.prepare<[number, number, number], StoredEvent>(
      `SELECT kind, at, data, NULL AS payload FROM history WHERE instance_key = ? AND execution_id = ?
       ORDER BY event_id DESC LIMIT +?`,
    );
    const tables = { ...payloadColumns, large_payloads: ['payload'] };
    const instanceKey = '(SELECT instance_key FROM instances WHERE instance_id = :instanceId)';
    const matches = (column: string) => `instr(${column}, :text) > 0`;
    this.#find = db
      .prepare<[{ instanceId: string; text: string }], string>(
        textsOfInstance(tables, { prefix: '', instanceKey, matches }),
      )
      .pluck();
    this.#selectTurn = db.prepare<[string], TurnStateRow>(
      `SELECT history_length AS historyLength, closing_reason IS NOT NULL AS isClosing, next_at AS nextAt,
              held_until AS heldUntil, iif(has_begun = 0, lane, NULL) AS waitingKey, cleanup_at AS cleanupAt, claims, locked_until AS lockedUntil,
              claimed_by AS claimedBy, claimed_at AS claimedAt, start_key AS debounceKey, moves, run_at AS runAt,
              session_id AS sessionId, state AS sessionState,
              sessions.expires_at AS sessionExpiresAt, abandoned_at AS abandonedAt
       FROM instances LEFT JOIN instance_locks USING (instance_key)
         LEFT JOIN start_keys ON start_keys.instance_key = instances.instance_key AND kind = 'debounce'
           AND status = 'pending' AND execution_id = 1 AND locked_until IS NULL
         LEFT JOIN jobs ON jobs.instance_key = instances.instance_key
         LEFT JOIN instance_places ON instance_places.instance_key = instances.instance_key
         LEFT JOIN sessions USING (session_key)
       WHERE instance_id = ?`,
    );
  }

  /** The stored texts of an instance that contain a text. */
  find(params: { readonly instanceId: string; readonly text: string }): readonly string[] {
    return this.#find.all(params);
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

  many(params: InspectInstancesParams, now: number): readonly (InspectedInstance | undefined)[] {
    const { instanceIds, maxPending, maxEvents } = params;
    return instanceIds.map((id) => {
      const record = this.#records.getListed(id);
      const turn = record && this.turn(id, now);
      if (record === undefined || turn === undefined) return undefined;
      const { instanceKey, executionId } = record;
      const rows = this.#selectListed.all(instanceKey, maxPending);
      const found = { record, turn, pending: rows.map((row) => this.#toItem(row, now)) };
      const events = needsEvents(found)
        ? this.#selectEvents.all(instanceKey, executionId, maxEvents).toReversed()
        : [];
      return { ...found, events };
    });
  }

  #toItem(row: ItemRow, now: number): PendingItem {
    const { definitionKey, worker, claimedAt, lockedUntil, pointOfNoReturn, ...others } = row;
    const { cancelTrigger, cancelReason, itemKey, limitKey, priority, ...item } = others;
    const { kind, name } = this.#definitions.get(definitionKey);
    const isHeld = lockedUntil !== null && lockedUntil > now;
    const { lane, dueAt } = item;
    // An item of a paused instance has a negative key.
    const isLimited = lane !== null && limitKey > 0 && !isHeld && dueAt <= now;
    return {
      kind: itemKind(kind === 'task', row.operation),
      name,
      ...item,
      held: isHeld ? { worker, claimedAt, lockedUntil } : null,
      // The lease of a revoked place has the time 0.
      expired: lockedUntil === null || isHeld ? null : { worker, at: lockedUntil || dueAt },
      limitHold: isLimited
        ? this.#limitReads.hold({ itemKey, limitKey, lane, priority, dueAt }, now)
        : null,
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
    inspectInstances: (params) =>
      store.read('inspectInstances', () => store.inspection.many(params, store.now())),
    findStoredTexts: (params) => store.read('findStoredTexts', () => store.inspection.find(params)),
  };
}
