import type { ClaimedAtInsert, CommitResult, Turn, TurnOutcome } from '../../contract/turn.ts';
import type { TurnAck } from '../../contract/work-queue.ts';
import { Effects } from '../../shared/effects.ts';
import { formatToken, parseToken, type Secrets } from '../../shared/lock-token.ts';
import type { BatchResult, PathParts } from '../batches/batching.ts';
import { fromStoredText } from '../driver/arrays.ts';
import { clock, keys, prepare, rowsOf, type Column } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { undefinedIfRefused } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import type { Definitions } from '../tables/definitions.ts';
import { PauseChecks, type PauseCheck } from '../tables/pause-checks.ts';
import { listEnd, ownOutput, removeLive } from '../tables/instance-rows.ts';
import { hasPausedDefinitions, isAnyPaused } from '../tables/pause-rows.ts';
import { eventRows, type EventRow } from '../tables/history.ts';
import {
  freesPlace,
  limitedAmong,
  newItemColumns,
  newItemTarget,
  newItemValues,
  newLaneColumns,
  type ItemRow,
  type NewItem,
} from '../tables/work-items.ts';

/** A turn that only appends history, schedules activities, and leaves its instance running, completed or failed. */
export interface EligibleTurn extends Turn {
  readonly outcome: Extract<TurnOutcome, { status: 'running' | 'completed' | 'failed' }>;
}

/** Whether a single statement can commit a turn. */
export function isEligible(turn: Turn): turn is EligibleTurn {
  const { outcome } = turn;
  return (
    (outcome.status === 'running' ||
      outcome.status === 'completed' ||
      outcome.status === 'failed') &&
    turn.events.length > 0 &&
    turn.timers.length === 0 &&
    turn.timerWithdrawals.length === 0 &&
    turn.children.length === 0 &&
    turn.childCancels.length === 0 &&
    turn.messages.length === 0 &&
    turn.activityCancels.length === 0 &&
    turn.customStatus === undefined &&
    turn.tags === undefined &&
    turn.emitted === undefined &&
    turn.bufferedEvents === undefined &&
    turn.updateReplies === undefined &&
    turn.awakeables === undefined &&
    turn.state === undefined
  );
}

interface EligibleAck extends TurnAck {
  readonly turn: EligibleTurn;
}

interface TurnItem extends ItemRow, NewItem {
  /** The index of the ack whose turn schedules the item. */
  readonly index: number;
}

interface Token {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly key: number;
  readonly secret: string;
}

interface Committed {
  readonly now: number;
  /** Whether all fences held. Nothing was written otherwise. */
  readonly ok: boolean;
  readonly hasPaused: boolean;
  /** `null` without new items. */
  readonly itemKeys: readonly string[] | null;
  /** The limited definitions of the new items, which are not claimed. `null` without new items. */
  readonly limited: readonly number[] | null;
  /** The keys and ids of instances that have ended, in the same order. `null` if no turn ends. */
  readonly finishedKeys: readonly string[] | null;
  readonly finishedIds: readonly string[] | null;
}

// Maximum batches in a row that skip this path after a failed fence.
const maxSkipped = 64;

/**
 * Settles activities and commits the turns that follow from them, in one round trip. The first statement locks the
 * instances and then the items. The second checks all fences on the locked rows and writes only if all of them hold.
 */
export class SingleStatementTurnAcks {
  readonly #connections: Connections;
  readonly #definitions: Definitions;
  readonly #secrets: Secrets;
  readonly #lock: ReturnType<typeof lockStatement>;
  readonly #limited: PathParts['limited'];
  readonly #commits: (shape: Shape) => PauseChecks<ReturnType<typeof commitStatement>>;
  readonly #backoff = new Backoff();

  constructor({ connections, definitions, limited, secrets, schema }: PathParts) {
    this.#connections = connections;
    this.#definitions = definitions;
    this.#limited = limited;
    this.#secrets = secrets;
    this.#lock = lockStatement(schema);
    this.#commits = commitStatements(schema);
  }

  /** Commits the turns, or returns `undefined` if the caller has to use the general path. */
  async commit(
    acks: readonly TurnAck[],
    nowParameter: number | null,
  ): Promise<BatchResult<CommitResult> | undefined> {
    if (this.#backoff.takeSkip() || !areEligible(acks)) return undefined;
    const items = this.#newItems(acks);
    if (items === undefined) return undefined;
    const committed = await this.#send(acks, items, nowParameter);
    const isCommitted = committed?.ok === true;
    this.#backoff.record(isCommitted);
    return isCommitted ? toResult(acks, items, committed) : undefined;
  }

  #send(
    acks: readonly EligibleAck[],
    items: readonly TurnItem[],
    now: number | null,
  ): Promise<Committed | undefined> {
    const tokens = acks.flatMap(toTokens);
    const instanceKeys = acks.map(({ instanceKey }) => instanceKey);
    const itemKeys = tokens.map(({ key }) => key);
    return this.#commits(shapeOf(acks, items)).run(async (commit) => {
      const sent = this.#connections.lockedStatement<Committed>(
        'ackTurns',
        this.#lock({ instanceKeys, itemKeys }),
        commit.deferred(() => ({
          now,
          turns: acks,
          tokens,
          events: acks.flatMap(toEvents),
          items,
        })),
      );
      return (await undefinedIfRefused(sent))?.[0];
    });
  }

  /** Returns the activities that the turns schedule, or `undefined` if a name is not in the cache. */
  #newItems(acks: readonly EligibleAck[]): readonly TurnItem[] | undefined {
    const items: TurnItem[] = [];
    for (const [index, { instanceKey, executionId, turn }] of acks.entries()) {
      for (const item of turn.workItems) {
        const wanted = { kind: 'activity', name: item.name, version: null } as const;
        const definitionKey = this.#definitions.find(wanted);
        if (definitionKey === undefined) return undefined;
        // The general path makes the definition limited.
        const limitKey = this.#definitions.findLimited(item.name) ?? 0;
        if (item.lane !== undefined && !this.#limited.has(limitKey)) return undefined;
        const secret = item.claimMs === undefined ? null : this.#secrets.next();
        items.push({ index, instanceKey, executionId, definitionKey, item, secret });
      }
    }
    return items;
  }
}

/**
 * Skips a growing number of batches while they fail, because each failed attempt costs a round trip. Some instances fail
 * every time: one with a pending timer has a row in `instance_locks`, and its turns always take the general path.
 */
export class Backoff {
  /** The number of batches that are still to be skipped. */
  #remaining = 0;
  #next = 1;

  /** Whether to skip this batch. Counts the skip. */
  takeSkip(): boolean {
    if (this.#remaining === 0) return false;
    this.#remaining -= 1;
    return true;
  }

  record(isCommitted: boolean): void {
    this.#remaining = isCommitted ? 0 : this.#next;
    this.#next = isCommitted ? 1 : Math.min(this.#next * 2, maxSkipped);
  }
}

/** Whether all turns are eligible, of different instances, and settle different items. */
function areEligible(acks: readonly TurnAck[]): acks is readonly EligibleAck[] {
  const instances = new Set<number>();
  const tokens = new Set<string>();
  return acks.every(({ instanceKey, lockTokens, timers = [], turn }) => {
    if (instances.has(instanceKey) || timers.length > 0 || !isEligible(turn)) return false;
    instances.add(instanceKey);
    for (const token of lockTokens) {
      if (tokens.has(token)) return false;
      tokens.add(token);
    }
    return true;
  });
}

function toTokens({ instanceKey, executionId, lockTokens }: EligibleAck): readonly Token[] {
  return lockTokens.map((token) => ({ instanceKey, executionId, ...parseToken(token) }));
}

function toEvents({ instanceKey, executionId, turn }: EligibleAck): readonly EventRow[] {
  return turn.events.map((event, index) => ({
    instanceKey,
    executionId,
    eventId: turn.firstEventId + index,
    ...event,
  }));
}

function toResult(
  acks: readonly EligibleAck[],
  items: readonly TurnItem[],
  committed: Committed,
): BatchResult<CommitResult> {
  const effects = new Effects();
  addFinished(effects, acks, committed);
  const claimed: ClaimedAtInsert[][] = acks.map(() => []);
  if (acks.some(({ lockTokens }) => lockTokens.some(freesPlace))) effects.due('work', 0);
  for (const [position, { index, item, secret, definitionKey }] of items.entries()) {
    const isLimited = committed.limited?.includes(definitionKey) === true;
    effects.due('work', committed.now + (isLimited ? 0 : (item.claimMs ?? 0)));
    if (secret === null || isLimited) continue;
    const lockToken = formatToken(Number(committed.itemKeys?.[position]), secret);
    claimed[index]?.push({ operation: item.operation, lockToken });
  }
  const results = claimed.map((ofTurn): CommitResult => ({ ok: true, claimed: ofTurn }));
  return { results, effects };
}

function addFinished(
  effects: Effects,
  acks: readonly EligibleAck[],
  { finishedKeys, finishedIds }: Committed,
): void {
  if (finishedIds === null) return;
  const byKey = new Map(acks.map((ack) => [ack.instanceKey, ack]));
  for (const [index, id] of finishedIds.entries()) {
    const ack = byKey.get(Number(finishedKeys?.[index]));
    const instanceId = fromStoredText(id);
    const outcome = ack?.turn.outcome;
    if (ack !== undefined && outcome?.status === 'completed') {
      const { incarnation } = ack;
      effects.completed(instanceId, { incarnation, output: outcome.payload });
    } else effects.finished.push(instanceId);
  }
}

// Every transaction locks instances before their items. The count makes the second list wait for the first.
function lockStatement(schema: string) {
  return prepare(
    'perdure_lock_for_plain_turns',
    { instanceKeys: keys(), itemKeys: keys() },
    ({ instanceKeys, itemKeys }) => `WITH instance AS MATERIALIZED (
          SELECT FROM ${schema}.instances WHERE instance_key = ANY (${instanceKeys}) ORDER BY instance_key FOR NO KEY UPDATE
        ), item AS MATERIALIZED (
          SELECT FROM ${schema}.worker_queue
          WHERE item_key = ANY (${itemKeys}) AND (SELECT count(*) FROM instance) IS NOT NULL
          ORDER BY item_key FOR UPDATE
        )
        SELECT FROM item`,
  );
}

const turnColumns = {
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  incarnation: ['text', ({ incarnation }) => incarnation],
  execution_id: ['int', ({ executionId }) => executionId],
  last_turn: ['text', ({ lastTurn }) => lastTurn],
  first_event_id: ['int', ({ turn }) => turn.firstEventId],
  version: ['text', ({ turn }) => turn.version],
  turn_id: ['text', ({ turn }) => turn.turnId],
  history_length: ['int', ({ turn }) => turn.firstEventId - 1 + turn.events.length],
} as const satisfies Record<string, Column<EligibleAck>>;
const turnRowsOf = {
  running: rowsOf<EligibleAck>()(turnColumns),
  ends: rowsOf<EligibleAck>()({
    ...turnColumns,
    tokens: ['int', ({ lockTokens }) => lockTokens.length],
    status: ['text', ({ turn }) => turn.outcome.status],
    output: ['text', ({ turn }) => ownOutput(turn)],
    failure: [
      'text',
      ({ turn: { outcome: end } }) => (end.status === 'failed' ? end.failure : null),
    ],
  }),
} as const;

const tokenRows = rowsOf<Token>()({
  item_key: ['bigint', ({ key }) => key],
  secret: ['text', ({ secret }) => secret],
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  execution_id: ['int', ({ executionId }) => executionId],
});

const itemColumns = {
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  execution_id: ['int', ({ executionId }) => executionId],
  ...newItemColumns,
} as const satisfies Record<string, Column<TurnItem>>;
const itemRows = rowsOf<TurnItem>()(itemColumns);
const itemRowsOf = {
  // A parameter that the text does not contain would have no type.
  none: { ...itemRows, size: 0, encode: () => [] },
  items: itemRows,
  lanes: rowsOf<TurnItem>()({ ...itemColumns, ...newLaneColumns }),
} as const satisfies Record<Shape['items'], typeof itemRows>;

/** The conditions of an end: no children, and no items except those that the turn acks. */
function mayEnd(schema: string): string {
  return `AND (turn.status = 'running' OR NOT instance.has_children AND turn.tokens = (
          SELECT count(*) FROM (SELECT 1 FROM ${schema}.worker_queue AS item
            WHERE item.instance_key = turn.instance_key LIMIT turn.tokens + 1) AS items))`;
}

/**
 * The parts of a statement. PostgreSQL initializes every part of a plan for each execution, even parts without rows. For one
 * turn, a statement with only the parts that its turns need takes 0.95 × the time.
 */
interface Shape {
  readonly items: 'none' | 'items' | 'lanes';
  /** Whether a turn ends its instance. */
  readonly ends: boolean;
}

function shapeOf(acks: readonly EligibleAck[], items: readonly TurnItem[]): Shape {
  const hasLanes = items.some(({ item }) => item.lane !== undefined);
  return {
    items: hasLanes ? 'lanes' : items.length > 0 ? 'items' : 'none',
    ends: acks.some(({ turn }) => turn.outcome.status !== 'running'),
  };
}

/** Returns the statements by shape. Each is made when it is first needed. */
function commitStatements(schema: string) {
  const made = new Map<string, PauseChecks<ReturnType<typeof commitStatement>>>();
  return (shape: Shape) => {
    const key = `${shape.items} ${shape.ends}`;
    const known = made.get(key);
    if (known !== undefined) return known;
    const checks = new PauseChecks((check) => commitStatement(schema, check, shape));
    made.set(key, checks);
    return checks;
  };
}

/**
 * The statement that commits turns. `turn` has the turns whose instances pass their fences, with the ctid of the instance
 * as `row_id` so that it is looked up once. `verdict` counts turns and tokens that pass; every write depends on it. FULL
 * JOIN reads all items by one index scan; a condition after it would turn it into an inner join, and FILTER does not.
 *
 * The statement accepts only instances without a row in `instance_locks`. By invariant L1 of that table, such an instance
 * is not claimed and has no messages, not even one that becomes visible later. An instance with a pending timer has such
 * a message, so its turns always take the general path. A paused instance has a row too.
 */
function commitStatement(schema: string, check: PauseCheck, { items: itemsOf, ends }: Shape) {
  const ifOk = 'WHERE (SELECT ok FROM verdict)';
  const now = '(SELECT now FROM drawn)';
  const name =
    check === 'any' ? 'perdure_commit_plain_turns' : 'perdure_commit_turns_beside_pauses';
  // Each subquery is a plan of its own, so the rows of items are joined to the row of `drawn` instead.
  const ofItems = { now: 'drawn.now', limited: 'drawn.limited' };
  const hasLanes = itemsOf === 'lanes';
  const hasItems = itemsOf !== 'none';
  return prepare(
    `${name}${hasItems ? `_with_${itemsOf}` : ''}${ends ? '_with_ends' : ''}`,
    {
      now: clock,
      turns: turnRowsOf[ends ? 'ends' : 'running'],
      tokens: tokenRows,
      events: eventRows,
      items: itemRowsOf[itemsOf],
    },
    ({ turns, tokens, events, items }) => `WITH drawn AS MATERIALIZED (
      SELECT ${nowSql} AS now, ${hasPausedDefinitions(schema)} AS has_paused, ${
        hasItems
          ? `ARRAY(SELECT nextval('${schema}.worker_queue_item_key_seq')
        FROM generate_series(1, cardinality(${items.column('operation')}))) AS item_keys,
        ${limitedAmong(schema, items.column('definition_key'))} AS limited`
          : `NULL::bigint[] AS item_keys, NULL::int[] AS limited`
      }
    ), turn AS MATERIALIZED (
      SELECT turn.*, instance.row_id${check === 'own' ? ', instance.definition_key' : ''}
      FROM ${turns.as('turn')}
      CROSS JOIN LATERAL (
        SELECT one.ctid AS row_id, one.definition_key, one.status, one.incarnation, one.execution_id, one.last_turn,
          one.history_length, one.has_children
        FROM ${schema}.instances AS one WHERE one.instance_key = turn.instance_key LIMIT 1) AS instance
      WHERE instance.status = 'running' AND instance.incarnation = turn.incarnation
        AND instance.execution_id = turn.execution_id AND instance.last_turn = turn.last_turn
        AND instance.history_length = turn.first_event_id - 1 AND turn.version = (
          SELECT version FROM ${schema}.definitions AS definition
          WHERE definition.definition_key = instance.definition_key)
        AND (SELECT 1 FROM ${schema}.instance_locks AS lock WHERE lock.instance_key = turn.instance_key) IS NULL
        ${ends ? mayEnd(schema) : ''}
    ), verdict AS MATERIALIZED (
      SELECT (SELECT count(*) FROM turn) = cardinality(${turns.column('instance_key')}) AND (
        SELECT count(*) FILTER (WHERE item.lock_token = token.secret AND item.locked_until > ${now}
          AND NOT item.cancel_requested AND item.instance_key = token.instance_key AND item.execution_id = token.execution_id)
        FROM ${tokens.as('token')}
        FULL JOIN (
          SELECT item_key AS held_key, lock_token, locked_until, cancel_requested, instance_key, execution_id
          FROM ${schema}.worker_queue WHERE item_key = ANY (${tokens.column('item_key')})) AS item ON held_key = item_key
      ) = cardinality(${tokens.column('item_key')}) AND NOT ${
        check === 'any'
          ? '(SELECT has_paused FROM drawn)'
          : isAnyPaused(
              schema,
              `ARRAY(SELECT definition_key FROM turn)${hasItems ? ` || ${items.column('definition_key')}` : ''}`,
            )
      } AS ok
    ), settled AS (
      DELETE FROM ${schema}.worker_queue ${ifOk} AND item_key = ANY (${tokens.column('item_key')})
    ), recorded AS (
      INSERT INTO ${schema}.history (${events.names})
      SELECT ${events.names} FROM ${events.as('event')}
      ${ifOk}
    )${
      hasItems
        ? `, scheduled AS (
      INSERT INTO ${schema}.worker_queue (item_key, instance_key, execution_id, ${newItemTarget})
      OVERRIDING SYSTEM VALUE
      SELECT drawn.item_keys[place], instance_key, execution_id, ${newItemValues(schema, { ...ofItems, hasLanes, row: 'item' })}
      FROM drawn CROSS JOIN ${items.withPlace('item')}
      ${ifOk}
    )`
        : ''
    }, committed AS (
      UPDATE ${schema}.instances AS instance
      SET last_turn = turn.turn_id, history_length = turn.history_length${
        ends
          ? `, status = turn.status, output = turn.output, failure = turn.failure,
          ended_at = CASE WHEN turn.status <> 'running' THEN ${now} END,
          completed_at = CASE WHEN turn.status = 'completed' THEN ${now} END,
          failed_at = CASE WHEN turn.status = 'failed' THEN ${now} END,
          ${listEnd("nullif(turn.status, 'running')")}`
          : ''
      }
      FROM turn ${ifOk} AND instance.ctid = turn.row_id
      ${ends ? 'RETURNING instance.instance_key, instance.instance_id, instance.ended_at' : ''}
    )${
      ends
        ? `, ${removeLive(schema, 'ARRAY(SELECT instance_key FROM committed WHERE ended_at IS NOT NULL)')}`
        : ''
    }
    SELECT now, ok, has_paused AS "hasPaused", item_keys AS "itemKeys", limited, ${
      ends
        ? `ARRAY(SELECT instance_key FROM committed WHERE ended_at IS NOT NULL ORDER BY instance_key) AS "finishedKeys",
      ARRAY(SELECT instance_id FROM committed WHERE ended_at IS NOT NULL ORDER BY instance_key) AS "finishedIds"`
        : `NULL::bigint[] AS "finishedKeys", NULL::text[] AS "finishedIds"`
    }
    FROM verdict, drawn`,
  );
}
