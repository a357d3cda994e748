import type { OrchestrationAck } from '../../contract/orchestration-queue.ts';
import type { ClaimedAtInsert, CommitResult } from '../../contract/turn.ts';
import { Effects } from '../../shared/effects.ts';
import { formatToken, parseToken, type Secrets } from '../../shared/lock-token.ts';
import type { BatchResult, PathParts } from '../batches/batching.ts';
import { fromStoredText } from '../driver/arrays.ts';
import { clock, keys, prepare, rowsOf } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { undefinedIfRefused } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { EventRow } from '../tables/history.ts';
import { listEnd, ownOutput, removeLive } from '../tables/instance-rows.ts';
import { hasPausedDefinitions } from '../tables/pause-rows.ts';
import {
  limitedAmong,
  newItemColumns,
  newItemTarget,
  newItemValues,
  type ItemRow,
  type NewItem,
} from '../tables/work-items.ts';
import { Backoff, isEligible, type EligibleTurn } from './turn-acks.ts';

interface ClaimedTurn {
  readonly key: number;
  readonly secret: string;
  readonly messageKeys: readonly number[];
  readonly turn: EligibleTurn;
}

interface TurnItem extends ItemRow, NewItem {
  /** The index of the ack whose turn schedules the item. */
  readonly index: number;
}

interface Committed {
  readonly now: number;
  /** Whether all fences held. Nothing was written otherwise. */
  readonly ok: boolean;
  readonly itemKeys: readonly string[];
  /** The limited definitions of the new items, which are not claimed. */
  readonly limited: readonly number[];
  /** The keys, ids and incarnations of instances that have ended, in the same order. */
  readonly finishedKeys: readonly string[];
  readonly finishedIds: readonly string[];
  readonly finishedIncarnations: readonly string[];
}

/**
 * Commits the turns of claimed instances in one round trip, and releases the instances. The turns only append history,
 * schedule activities, and leave their instances running, completed or failed. They have read all messages of their
 * instances. The first statement locks the instances and then their claims. The second checks all fences on the locked rows
 * and writes only if all of them hold. Any other ack, and any pause in the store, takes the general path.
 */
export class SingleStatementClaimedTurns {
  readonly #connections: Connections;
  readonly #definitions: Definitions;
  readonly #secrets: Secrets;
  readonly #lock: ReturnType<typeof lockClaimedTurns>;
  readonly #commit: ReturnType<typeof commitStatement>;
  readonly #backoff = new Backoff();

  constructor({ connections, definitions, secrets, schema }: PathParts) {
    this.#connections = connections;
    this.#definitions = definitions;
    this.#secrets = secrets;
    this.#lock = lockClaimedTurns(schema);
    this.#commit = commitStatement(schema);
  }

  /** Commits the turns, or returns `undefined` if the caller has to use the general path. */
  async commit(
    acks: readonly OrchestrationAck[],
    now: number | null,
  ): Promise<BatchResult<CommitResult> | undefined> {
    const turns = eligibleTurns(acks);
    const items = turns === undefined ? undefined : this.#newItems(turns);
    if (turns === undefined || items === undefined || this.#backoff.takeSkip()) return undefined;
    const instanceKeys = turns.map(({ key }) => key);
    const committed = await undefinedIfRefused(
      this.#connections.pipeline('ackOrchestrationItems', async (tx) => {
        const [, [row]] = await Promise.all([
          tx.execute(...this.#lock({ instanceKeys })),
          tx.query<Committed>(
            ...this.#commit({
              now,
              turns,
              messages: turns.flatMap(({ key: instanceKey, messageKeys }) =>
                messageKeys.map((messageKey) => ({ instanceKey, messageKey })),
              ),
              events: turns.flatMap(toEvents),
              items,
            }),
          ),
        ]);
        return row;
      }),
    );
    const isCommitted = committed?.ok === true;
    this.#backoff.record(isCommitted);
    return isCommitted ? toResult(turns, items, committed) : undefined;
  }

  /** Returns the activities that the turns schedule, or `undefined` if a name is not in the cache or has a lane. */
  #newItems(turns: readonly ClaimedTurn[]): readonly TurnItem[] | undefined {
    const items: TurnItem[] = [];
    for (const [index, { key: instanceKey, turn }] of turns.entries()) {
      for (const item of turn.workItems) {
        const wanted = { kind: 'activity', name: item.name, version: null } as const;
        const definitionKey = this.#definitions.find(wanted);
        if (definitionKey === undefined || item.lane !== undefined) return undefined;
        const secret = item.claimMs === undefined ? null : this.#secrets.next();
        // The statement takes the execution from the instance.
        items.push({ index, instanceKey, executionId: 0, definitionKey, item, secret });
      }
    }
    return items;
  }
}

/** The turns, if all are eligible and of different instances. */
function eligibleTurns(acks: readonly OrchestrationAck[]): readonly ClaimedTurn[] | undefined {
  const turns: ClaimedTurn[] = [];
  const instances = new Set<number>();
  for (const { lockToken, messageKeys, turn, keep } of acks) {
    if (keep === true || messageKeys.length === 0 || !isEligible(turn)) return undefined;
    const { key, secret } = parseToken(lockToken);
    if (instances.has(key)) return undefined;
    instances.add(key);
    turns.push({ key, secret, messageKeys, turn });
  }
  return turns;
}

/** An event of a turn. The statement takes the execution from the instance. */
type TurnEvent = Omit<EventRow, 'executionId'>;

function toEvents({ key: instanceKey, turn }: ClaimedTurn): readonly TurnEvent[] {
  return turn.events.map((event, index) => ({
    instanceKey,
    eventId: turn.firstEventId + index,
    ...event,
  }));
}

function toResult(
  turns: readonly ClaimedTurn[],
  items: readonly TurnItem[],
  committed: Committed,
): BatchResult<CommitResult> {
  const effects = new Effects();
  const byKey = new Map(turns.map(({ key, turn }) => [key, turn]));
  for (const [index, id] of committed.finishedIds.entries()) {
    const outcome = byKey.get(Number(committed.finishedKeys[index]))?.outcome;
    const incarnation = committed.finishedIncarnations[index];
    const instanceId = fromStoredText(id);
    if (outcome?.status === 'completed' && incarnation !== undefined)
      effects.completed(instanceId, { incarnation, output: outcome.payload });
    else effects.finished.push(instanceId);
  }
  const claimed: ClaimedAtInsert[][] = turns.map(() => []);
  for (const [position, { index, item, secret, definitionKey }] of items.entries()) {
    const isLimited = committed.limited.includes(definitionKey);
    effects.due('work', committed.now + (isLimited ? 0 : (item.claimMs ?? 0)));
    if (secret === null || isLimited) continue;
    const lockToken = formatToken(Number(committed.itemKeys[position]), secret);
    claimed[index]?.push({ operation: item.operation, lockToken });
  }
  const results = claimed.map((ofTurn): CommitResult => ({ ok: true, claimed: ofTurn }));
  return { results, effects };
}

/** Locks instances, then their claims, as every transaction does. The count makes the second list wait for the first. */
export function lockClaimedTurns(schema: string) {
  return prepare(
    'perdure_lock_for_claimed_turns',
    { instanceKeys: keys() },
    ({ instanceKeys }) => `WITH instance AS MATERIALIZED (
          SELECT FROM ${schema}.instances WHERE instance_key = ANY (${instanceKeys}) ORDER BY instance_key FOR NO KEY UPDATE
        ), claim AS MATERIALIZED (
          SELECT FROM ${schema}.instance_locks
          WHERE instance_key = ANY (${instanceKeys}) AND (SELECT count(*) FROM instance) IS NOT NULL
          ORDER BY instance_key FOR UPDATE
        )
        SELECT FROM claim`,
  );
}

const turnRows = rowsOf<ClaimedTurn>()({
  instance_key: ['bigint', ({ key }) => key],
  secret: ['text', ({ secret }) => secret],
  first_event_id: ['int', ({ turn }) => turn.firstEventId],
  version: ['text', ({ turn }) => turn.version],
  messages: ['int', ({ messageKeys }) => messageKeys.length],
  turn_id: ['text', ({ turn }) => turn.turnId],
  history_length: ['int', ({ turn }) => turn.firstEventId - 1 + turn.events.length],
  status: ['text', ({ turn }) => turn.outcome.status],
  output: ['text', ({ turn }) => ownOutput(turn)],
  failure: ['text', ({ turn: { outcome: end } }) => (end.status === 'failed' ? end.failure : null)],
});

const eventRows = rowsOf<TurnEvent>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  event_id: ['int', ({ eventId }) => eventId],
  kind: ['text', ({ kind }) => kind],
  at: ['bigint', ({ at }) => at],
  data: ['text', ({ data }) => data],
  payload: ['text', ({ payload }) => payload],
});

const messageRows = rowsOf<{ readonly instanceKey: number; readonly messageKey: number }>()({
  owner_key: ['bigint', ({ instanceKey }) => instanceKey],
  message_key: ['bigint', ({ messageKey }) => messageKey],
});

const itemRows = rowsOf<TurnItem>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  ...newItemColumns,
});

/**
 * The statement that commits turns of claimed instances. `turn` has the turns whose instances and claims pass their fences,
 * with the ctids of both rows. Each must have read all messages of its instance, visible or not, because a message that
 * stays, such as a timer, must set the time of the next claim. `verdict` counts turns and messages; every write depends on it.
 */
function commitStatement(schema: string) {
  const ifOk = 'WHERE (SELECT ok FROM verdict)';
  const now = '(SELECT now FROM drawn)';
  const limited = '(SELECT limited FROM drawn)::int[]';
  const withExecution =
    'JOIN (SELECT instance_key AS owner_key, execution_id FROM turn) AS owner ON owner_key = instance_key';
  return prepare(
    'perdure_commit_claimed_turns',
    { now: clock, turns: turnRows, messages: messageRows, events: eventRows, items: itemRows },
    ({ turns, messages, events, items }) => `WITH drawn AS MATERIALIZED (
      SELECT ${nowSql} AS now, ARRAY(SELECT nextval('${schema}.worker_queue_item_key_seq')
        FROM generate_series(1, cardinality(${items.column('operation')}))) AS item_keys,
        ${limitedAmong(schema, items.column('definition_key'))} AS limited
    ), turn AS MATERIALIZED (
      SELECT turn.*, instance.row_id, instance.execution_id, claim.row_id AS claim_id
      FROM ${turns.as('turn')}
      CROSS JOIN LATERAL (
        SELECT one.ctid AS row_id, one.definition_key, one.status, one.execution_id, one.history_length, one.has_children,
          one.paused_at
        FROM ${schema}.instances AS one WHERE one.instance_key = turn.instance_key LIMIT 1) AS instance
      CROSS JOIN LATERAL (
        SELECT one.ctid AS row_id, one.lock_token, one.locked_until
        FROM ${schema}.instance_locks AS one WHERE one.instance_key = turn.instance_key LIMIT 1) AS claim
      WHERE (instance.status = 'running' OR instance.status = 'pending') AND instance.paused_at IS NULL
        AND claim.lock_token = turn.secret AND claim.locked_until > ${now}
        AND instance.history_length = turn.first_event_id - 1 AND turn.version = (
          SELECT version FROM ${schema}.definitions AS definition
          WHERE definition.definition_key = instance.definition_key)
        AND turn.messages = (
          SELECT count(*) FROM (SELECT 1 FROM ${schema}.orchestrator_queue AS message
            WHERE message.instance_key = turn.instance_key LIMIT turn.messages + 1) AS found)
        AND (turn.status = 'running' OR NOT instance.has_children AND (
          SELECT 1 FROM ${schema}.worker_queue AS item WHERE item.instance_key = turn.instance_key LIMIT 1) IS NULL)
    ), verdict AS MATERIALIZED (
      SELECT (SELECT count(*) FROM turn) = cardinality(${turns.column('instance_key')})
        AND (SELECT count(*) FROM ${messages.as('read')} CROSS JOIN LATERAL (
          SELECT FROM ${schema}.orchestrator_queue AS one
          WHERE one.message_key = read.message_key AND one.instance_key = read.owner_key LIMIT 1) AS own
        ) = cardinality(${messages.column('message_key')})
        AND NOT ${hasPausedDefinitions(schema)} AS ok
    ), read AS (
      DELETE FROM ${schema}.orchestrator_queue ${ifOk} AND message_key = ANY (${messages.column('message_key')})
    ), released AS (
      DELETE FROM ${schema}.instance_locks ${ifOk} AND ctid = ANY (ARRAY(SELECT claim_id FROM turn))
    ), recorded AS (
      INSERT INTO ${schema}.history (${events.names}, execution_id)
      SELECT ${events.names}, execution_id FROM ${events.as('event')} ${withExecution}
      ${ifOk}
    ), scheduled AS (
      INSERT INTO ${schema}.worker_queue (item_key, instance_key, execution_id, ${newItemTarget})
      OVERRIDING SYSTEM VALUE
      SELECT (SELECT item_keys FROM drawn)[place], instance_key, execution_id,
        ${newItemValues(schema, { now, limited, hasLanes: false, row: 'item' })}
      FROM ${items.withPlace('item')} ${withExecution}
      ${ifOk}
    ), committed AS (
      UPDATE ${schema}.instances AS instance
      SET status = turn.status, last_turn = turn.turn_id, history_length = turn.history_length, output = turn.output,
          failure = turn.failure, started_at = coalesce(started_at, ${now}),
          execution_started_at = coalesce(execution_started_at, ${now}),
          ended_at = CASE WHEN turn.status <> 'running' THEN ${now} END,
          completed_at = CASE WHEN turn.status = 'completed' THEN ${now} END,
          failed_at = CASE WHEN turn.status = 'failed' THEN ${now} END,
          ${listEnd("nullif(turn.status, 'running')")}
      FROM turn ${ifOk} AND instance.ctid = turn.row_id
      RETURNING instance.instance_key, instance.instance_id, instance.incarnation, instance.ended_at
    ), ${removeLive(schema, 'ARRAY(SELECT instance_key FROM committed WHERE ended_at IS NOT NULL)')}
    SELECT now, ok, item_keys AS "itemKeys", limited,
      ARRAY(SELECT instance_key FROM committed WHERE ended_at IS NOT NULL ORDER BY instance_key) AS "finishedKeys",
      ARRAY(SELECT instance_id FROM committed WHERE ended_at IS NOT NULL ORDER BY instance_key) AS "finishedIds",
      ARRAY(SELECT incarnation FROM committed WHERE ended_at IS NOT NULL ORDER BY instance_key) AS "finishedIncarnations"
    FROM verdict, drawn`,
  );
}
