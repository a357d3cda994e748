import type { OrchestrationAck } from '../../contract/orchestration-queue.ts';
import type { CommitResult, Turn, TurnOutcome } from '../../contract/turn.ts';
import { Effects } from '../../shared/effects.ts';
import { parseToken } from '../../shared/lock-token.ts';
import type { BatchResult, PathParts } from '../batches/batching.ts';
import { fromStoredText } from '../driver/arrays.ts';
import { clock, prepare, rowsOf } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { undefinedIfRefused } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import { listEnd, removeLive } from '../tables/instance-rows.ts';
import { lockClaimedTurns } from './claimed-turns.ts';

interface CanceledTurn {
  readonly key: number;
  readonly secret: string;
  readonly turn: Turn;
  readonly outcome: Extract<TurnOutcome, { status: 'canceled' }>;
}

interface TurnEvent {
  readonly instanceKey: number;
  readonly eventId: number;
  readonly event: Turn['events'][number];
}

interface Committed {
  /** Whether all fences held. Nothing was written otherwise. */
  readonly ok: boolean;
  /** The ids of instances that have no items left. */
  readonly finishedIds: readonly string[];
}

/**
 * Commits turns that end claimed instances as canceled, in one round trip. The request has reached all their items, and they
 * have no children and no parent. An instance without items is `canceled`; another one closes until its last item is settled.
 * Any other ack takes the general path.
 */
export class SingleStatementCanceledTurns {
  readonly #connections: Connections;
  readonly #lock: ReturnType<typeof lockClaimedTurns>;
  readonly #commit: ReturnType<typeof commitStatement>;

  constructor({ connections, schema }: PathParts) {
    this.#connections = connections;
    this.#lock = lockClaimedTurns(schema);
    this.#commit = commitStatement(schema);
  }

  /** Commits the turns, or returns `undefined` if the caller has to use the general path. */
  async commit(
    acks: readonly OrchestrationAck[],
    now: number | null,
  ): Promise<BatchResult<CommitResult> | undefined> {
    const turns = acks.flatMap(toCanceledTurn);
    const instanceKeys = turns.map(({ key }) => key);
    if (turns.length < acks.length || new Set(instanceKeys).size < acks.length) return undefined;
    const committed = await undefinedIfRefused(
      this.#connections.pipeline('ackOrchestrationItems', async (tx) => {
        const [, [row]] = await Promise.all([
          tx.execute(...this.#lock({ instanceKeys })),
          tx.query<Committed>(...this.#commit({ now, turns, events: turns.flatMap(toEvents) })),
        ]);
        return row;
      }),
    );
    if (committed?.ok !== true) return undefined;
    const effects = new Effects();
    effects.finished.push(...committed.finishedIds.map(fromStoredText));
    return { results: acks.map(() => ({ ok: true, claimed: [] })), effects };
  }
}

/** The turn, if it ends its instance as canceled and writes nothing else. It may withdraw activities: all are flagged. */
function toCanceledTurn({ lockToken, turn, keep }: OrchestrationAck): readonly CanceledTurn[] {
  const { outcome } = turn;
  const isEligible =
    keep !== true &&
    turn.events.length > 0 &&
    turn.workItems.length === 0 &&
    turn.timers.length === 0 &&
    turn.timerWithdrawals.length === 0 &&
    turn.children.length === 0 &&
    turn.childCancels.length === 0 &&
    turn.messages.length === 0 &&
    turn.customStatus === undefined &&
    turn.tags === undefined &&
    turn.emitted === undefined &&
    turn.bufferedEvents === undefined &&
    turn.updateReplies === undefined &&
    turn.awakeables === undefined &&
    turn.state === undefined;
  if (!isEligible || outcome.status !== 'canceled') return [];
  return [{ ...parseToken(lockToken), turn, outcome }];
}

function toEvents({ key: instanceKey, turn }: CanceledTurn): readonly TurnEvent[] {
  return turn.events.map((event, index) => ({
    instanceKey,
    eventId: turn.firstEventId + index,
    event,
  }));
}

const turnRows = rowsOf<CanceledTurn>()({
  instance_key: ['bigint', ({ key }) => key],
  secret: ['text', ({ secret }) => secret],
  first_event_id: ['int', ({ turn }) => turn.firstEventId],
  version: ['text', ({ turn }) => turn.version],
  turn_id: ['text', ({ turn }) => turn.turnId],
  history_length: ['int', ({ turn }) => turn.firstEventId - 1 + turn.events.length],
  reason: ['text', ({ outcome }) => outcome.reason],
  cleanup_skipped: ['boolean', ({ outcome }) => outcome.cleanupSkipped],
});

const eventRows = rowsOf<TurnEvent>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  event_id: ['int', ({ eventId }) => eventId],
  kind: ['text', ({ event }) => event.kind],
  at: ['bigint', ({ event }) => event.at],
  data: ['text', ({ event }) => event.data],
  payload: ['text', ({ event }) => event.payload],
});

/**
 * The statement that commits turns which end as canceled. `turn` has those whose instances, claims and items pass their
 * fences, with whether items are left. Every write depends on `verdict`, which counts them.
 */
function commitStatement(schema: string) {
  const ifOk = 'WHERE (SELECT ok FROM verdict)';
  const isOfTurn = 'instance_key = ANY (ARRAY(SELECT instance_key FROM turn))';
  return prepare(
    'perdure_commit_canceled_turns',
    { now: clock, turns: turnRows, events: eventRows },
    ({ turns, events }) => `WITH turn AS MATERIALIZED (
      SELECT turn.*, instance.row_id, instance.execution_id, items.has_items
      FROM ${turns.as('turn')}
      CROSS JOIN LATERAL (
        SELECT one.ctid AS row_id, one.definition_key, one.status, one.closing_reason, one.execution_id, one.history_length,
          one.has_children, one.parent_instance_id, one.paused_at
        FROM ${schema}.instances AS one WHERE one.instance_key = turn.instance_key LIMIT 1) AS instance
      CROSS JOIN LATERAL (
        SELECT one.lock_token, one.locked_until
        FROM ${schema}.instance_locks AS one WHERE one.instance_key = turn.instance_key LIMIT 1) AS claim
      CROSS JOIN LATERAL (
        SELECT count(*) > 0 AS has_items, coalesce(bool_and(item.cancellation <> 'abandon'
          AND item.cancel_requested_at IS NOT NULL AND (item.locked_until > ${nowSql}) IS TRUE), TRUE) AS are_asked
        FROM ${schema}.worker_queue AS item WHERE item.instance_key = turn.instance_key) AS items
      WHERE instance.status = 'canceling' AND instance.closing_reason IS NULL AND instance.paused_at IS NULL
        AND claim.lock_token = turn.secret AND claim.locked_until > ${nowSql}
        AND instance.history_length = turn.first_event_id - 1 AND turn.version = (
          SELECT version FROM ${schema}.definitions AS definition
          WHERE definition.definition_key = instance.definition_key)
        AND NOT instance.has_children AND instance.parent_instance_id IS NULL AND items.are_asked
    ), verdict AS MATERIALIZED (
      SELECT (SELECT count(*) FROM turn) = cardinality(${turns.column('instance_key')}) AS ok
    ), dropped AS (
      DELETE FROM ${schema}.orchestrator_queue ${ifOk} AND ${isOfTurn}
    ), released AS (
      DELETE FROM ${schema}.instance_locks ${ifOk} AND ${isOfTurn}
    ), recorded AS (
      INSERT INTO ${schema}.history (${events.names}, execution_id)
      SELECT ${events.names}, execution_id FROM ${events.as('event')}
      JOIN (SELECT instance_key AS owner_key, execution_id FROM turn) AS owner ON owner_key = instance_key
      ${ifOk}
    ), committed AS (
      UPDATE ${schema}.instances AS instance
      SET status = CASE WHEN has_items THEN 'canceling' ELSE 'canceled' END, last_turn = turn.turn_id,
          history_length = turn.history_length, cleanup_skipped = turn.cleanup_skipped,
          closing_reason = CASE WHEN has_items THEN turn.reason END,
          ended_at = CASE WHEN has_items THEN NULL ELSE ${nowSql} END,
          canceled_at = CASE WHEN has_items THEN NULL ELSE ${nowSql} END,
          started_at = coalesce(started_at, ${nowSql}), execution_started_at = coalesce(execution_started_at, ${nowSql}),
          output = NULL, failure = NULL,
          ${listEnd("CASE WHEN has_items THEN NULL ELSE 'canceled' END")}
      FROM turn ${ifOk} AND instance.ctid = turn.row_id
      RETURNING instance.instance_key, instance.instance_id, instance.ended_at
    ), ${removeLive(schema, 'ARRAY(SELECT instance_key FROM committed WHERE ended_at IS NOT NULL)')}
    SELECT ok, ARRAY(SELECT instance_id FROM committed WHERE ended_at IS NOT NULL) AS "finishedIds" FROM verdict`,
  );
}
