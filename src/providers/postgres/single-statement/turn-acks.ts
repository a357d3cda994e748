import type { ClaimedAtInsert, CommitResult, Turn, TurnOutcome } from '../../contract/turn.ts';
import type { TurnAck } from '../../contract/work-queue.ts';
import { Effects } from '../../shared/effects.ts';
import { formatToken, parseToken, type Secrets } from '../../shared/lock-token.ts';
import { booleans, numbers, texts, fromStoredText } from '../driver/arrays.ts';
import type { Connections, Statement } from '../driver/connection.ts';
import { refusesData } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import type { Definitions } from '../tables/definitions.ts';

interface Row {
  readonly now: number;
  readonly ok: boolean;
  readonly itemKeys: readonly string[];
  /** The keys and the ids of those that have ended, in the same order. */
  readonly finishedKeys: readonly string[];
  readonly finishedIds: readonly string[];
}

interface PlainAck extends TurnAck {
  readonly turn: PlainTurn;
}

// How many batches go the other way after one that did not fit, at most.
const maxDetour = 64;

/**
 * Settles activities and commits the plain turns that they led to, in one round trip. One statement locks the instances
 * and then the items, another checks all fences and writes; it sees what the locks hold still. If one fence does not
 * hold, nothing is written.
 */
export class PlainTurns {
  readonly #connections: Connections;
  readonly #definitions: Definitions;
  readonly #secrets: Secrets;
  readonly #lock: Statement;
  readonly #commit: Statement;
  #detour = 0;
  #nextDetour = 1;

  constructor({
    connections,
    definitions,
    secrets,
    schema,
  }: {
    readonly connections: Connections;
    readonly definitions: Definitions;
    readonly secrets: Secrets;
    readonly schema: string;
  }) {
    this.#connections = connections;
    this.#definitions = definitions;
    this.#secrets = secrets;
    // The items wait for the count: everybody locks instances before their items.
    this.#lock = {
      name: 'perdure_lock_for_plain_turns',
      text: `WITH instance AS MATERIALIZED (
          SELECT FROM ${schema}.instances WHERE instance_key = ANY ($1::bigint[]) ORDER BY instance_key FOR NO KEY UPDATE
        ), item AS MATERIALIZED (
          SELECT FROM ${schema}.worker_queue
          WHERE item_key = ANY ($2::bigint[]) AND (SELECT count(*) FROM instance) IS NOT NULL
          ORDER BY item_key FOR UPDATE
        )
        SELECT FROM item`,
    };
    this.#commit = { name: 'perdure_commit_plain_turns', text: commitText(schema) };
  }

  /** Commits the turns, or answers `undefined` when they have to be committed in another way. */
  async commit(
    acks: readonly TurnAck[],
    nowParameter: number | null,
  ): Promise<{ readonly results: readonly CommitResult[]; readonly effects: Effects } | undefined> {
    // Where they rarely fit, trying costs more than it saves.
    if (this.#detour > 0) {
      this.#detour -= 1;
      return undefined;
    }
    const plain = arePlain(acks) ? acks : undefined;
    const items = plain && this.#newItems(plain);
    if (plain === undefined || items === undefined) return undefined;
    const row = await this.#run(plain, items, nowParameter);
    if (row?.ok !== true) {
      this.#detour = this.#nextDetour;
      this.#nextDetour = Math.min(this.#nextDetour * 2, maxDetour);
      return undefined;
    }
    this.#nextDetour = 1;
    return answer(plain, items, row);
  }

  async #run(
    acks: readonly PlainAck[],
    items: readonly NewItem[],
    nowParameter: number | null,
  ): Promise<Row | undefined> {
    const keys = numbers(acks.map(({ instanceKey }) => instanceKey));
    const tokens = acks.flatMap(({ instanceKey, executionId, lockTokens }) =>
      lockTokens.map((token) => ({ instanceKey, executionId, ...parseToken(token) })),
    );
    const itemKeys = numbers(tokens.map(({ key }) => key));
    const values = [nowParameter, keys, itemKeys, ...commitValues(acks, tokens, items)];
    try {
      return await this.#connections.pipeline('ackTurns', async (tx) => {
        const [, rows] = await Promise.all([
          tx.execute(this.#lock, [keys, itemKeys]),
          tx.query<Row>(this.#commit, values),
        ]);
        return rows[0];
      });
    } catch (error) {
      // An item is at fault: found out in the other way.
      if (refusesData(error)) return undefined;
      throw error;
    }
  }

  /** The activities that the turns schedule, if their names are known. */
  #newItems(acks: readonly PlainAck[]): readonly NewItem[] | undefined {
    const items: NewItem[] = [];
    for (const [index, { instanceKey, executionId, turn }] of acks.entries()) {
      for (const item of turn.workItems) {
        const wanted = { kind: 'activity', name: item.name, version: null } as const;
        const definitionKey = this.#definitions.find(wanted);
        if (definitionKey === undefined) return undefined;
        const secret = item.claimMs === undefined ? null : this.#secrets.next();
        items.push({ index, instanceKey, executionId, definitionKey, item, secret });
      }
    }
    return items;
  }
}

interface NewItem {
  readonly index: number;
  readonly instanceKey: number;
  readonly executionId: number;
  readonly definitionKey: number;
  readonly item: PlainTurn['workItems'][number];
  readonly secret: string | null;
}

interface Token {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly key: number;
  readonly secret: string;
}

/** Plain turns of different instances, that settle different items. */
function arePlain(acks: readonly TurnAck[]): acks is readonly PlainAck[] {
  const instances = new Set<number>();
  const tokens = new Set<string>();
  return acks.every(({ instanceKey, lockTokens, timers = [], turn }) => {
    if (instances.has(instanceKey) || timers.length > 0 || !isPlain(turn)) return false;
    instances.add(instanceKey);
    return lockTokens.every((token) => !tokens.has(token) && tokens.add(token));
  });
}

function commitText(schema: string): string {
  const ifOk = 'WHERE (SELECT ok FROM verdict)';
  const now = '(SELECT now FROM drawn)';
  // A turn that passes the fences of its instance takes along where that is, so that it is looked up once.
  return `WITH drawn AS MATERIALIZED (
      SELECT ${nowSql} AS now,
        ARRAY(SELECT nextval('${schema}.worker_queue_item_key_seq') FROM generate_series(1, $18::int)) AS item_keys
    ), turn AS MATERIALIZED (
      SELECT turn.*, instance.place
      FROM unnest($2::bigint[], $4::text[], $5::int[], $6::text[], $7::int[], $8::text[], $9::int[],
          $10::text[], $11::int[], $12::text[], $13::text[], $14::text[])
        AS turn (instance_key, incarnation, execution_id, last_turn, first_event_id, version, tokens, turn_id, history_length,
          status, output, failure)
      CROSS JOIN LATERAL (
        SELECT one.ctid AS place, one.definition_key, one.status, one.incarnation, one.execution_id, one.last_turn,
          one.history_length, one.has_children
        FROM ${schema}.instances AS one WHERE one.instance_key = turn.instance_key LIMIT 1) AS instance
      WHERE instance.status = 'running' AND instance.incarnation = turn.incarnation
        AND instance.execution_id = turn.execution_id AND instance.last_turn = turn.last_turn
        AND instance.history_length = turn.first_event_id - 1 AND turn.version = (
          SELECT version FROM ${schema}.definitions AS definition
          WHERE definition.definition_key = instance.definition_key)
        AND (SELECT 1 FROM ${schema}.instance_locks AS lock WHERE lock.instance_key = turn.instance_key) IS NULL
        AND (turn.status = 'running' OR NOT instance.has_children AND turn.tokens = (
          SELECT count(*) FROM (SELECT 1 FROM ${schema}.worker_queue AS item
            WHERE item.instance_key = turn.instance_key LIMIT turn.tokens + 1) AS items))
    ), verdict AS MATERIALIZED (
      SELECT (SELECT count(*) FROM turn) = cardinality($2::bigint[]) AND (
        SELECT count(*) FROM unnest($3::bigint[], $15::text[], $16::bigint[], $17::int[])
          AS token (item_key, secret, instance_key, execution_id)
        CROSS JOIN LATERAL (
          SELECT one.lock_token, one.locked_until, one.cancel_requested, one.instance_key, one.execution_id
          FROM ${schema}.worker_queue AS one WHERE one.item_key = token.item_key LIMIT 1) AS item
        WHERE item.lock_token = token.secret AND item.locked_until > ${now} AND NOT item.cancel_requested
          AND item.instance_key = token.instance_key AND item.execution_id = token.execution_id
      ) = cardinality($3::bigint[]) AS ok
    ), settled AS (
      DELETE FROM ${schema}.worker_queue ${ifOk} AND item_key = ANY ($3::bigint[])
    ), recorded AS (
      INSERT INTO ${schema}.history (instance_key, execution_id, event_id, kind, at, data, payload)
      SELECT * FROM unnest($19::bigint[], $20::int[], $21::int[], $22::text[], $23::bigint[], $24::text[], $25::text[])
      ${ifOk}
    ), scheduled AS (
      INSERT INTO ${schema}.worker_queue (item_key, instance_key, execution_id, operation, definition_key, priority, next_at,
        lock_token, locked_until, claimed_by, claims, cancellation, shielded, created_at, options, payload)
      OVERRIDING SYSTEM VALUE
      SELECT (SELECT item_keys FROM drawn)[place], instance_key, execution_id, operation, definition_key, priority,
        ${now} + coalesce(claim_ms, 0), secret, ${now} + claim_ms, claimed_by,
        CASE WHEN secret IS NULL THEN 0 ELSE 1 END, cancellation, shielded, ${now}, options, payload
      FROM unnest($26::bigint[], $27::int[], $28::int[], $29::int[], $30::bigint[], $31::text[], $32::text[],
          $33::boolean[], $34::text[], $35::text[], $36::smallint[], $37::text[]) WITH ORDINALITY
        AS item (instance_key, execution_id, operation, definition_key, claim_ms, secret, cancellation, shielded, options,
          payload, priority, claimed_by, place)
      ${ifOk}
    ), committed AS (
      UPDATE ${schema}.instances AS instance
      SET status = turn.status, last_turn = turn.turn_id, history_length = turn.history_length, output = turn.output,
          failure = turn.failure, started_at = coalesce(started_at, ${now}),
          execution_started_at = coalesce(execution_started_at, ${now}),
          ended_at = CASE WHEN turn.status <> 'running' THEN ${now} END,
          completed_at = CASE WHEN turn.status = 'completed' THEN ${now} END,
          failed_at = CASE WHEN turn.status = 'failed' THEN ${now} END
      FROM turn ${ifOk} AND instance.ctid = turn.place
      RETURNING instance.instance_key, instance.instance_id, instance.ended_at
    )
    SELECT now, ok, item_keys AS "itemKeys",
      ARRAY(SELECT instance_key FROM committed WHERE ended_at IS NOT NULL ORDER BY instance_key) AS "finishedKeys",
      ARRAY(SELECT instance_id FROM committed WHERE ended_at IS NOT NULL ORDER BY instance_key) AS "finishedIds"
    FROM verdict, drawn`;
}

function commitValues(
  acks: readonly PlainAck[],
  tokens: readonly Token[],
  items: readonly NewItem[],
): readonly unknown[] {
  const events = acks.flatMap(({ instanceKey, executionId, turn }) =>
    turn.events.map((event, place) => ({
      instanceKey,
      executionId,
      eventId: turn.firstEventId + place,
      event,
    })),
  );
  return [
    texts(acks.map(({ incarnation }) => incarnation)),
    numbers(acks.map(({ executionId }) => executionId)),
    texts(acks.map(({ lastTurn }) => lastTurn)),
    numbers(acks.map(({ turn }) => turn.firstEventId)),
    texts(acks.map(({ turn }) => turn.version)),
    numbers(acks.map(({ lockTokens }) => lockTokens.length)),
    texts(acks.map(({ turn }) => turn.turnId)),
    numbers(acks.map(({ turn }) => turn.firstEventId - 1 + turn.events.length)),
    texts(acks.map(({ turn }) => turn.outcome.status)),
    texts(
      acks.map(({ turn: { outcome } }) =>
        outcome.status === 'completed' ? outcome.payload : null,
      ),
    ),
    texts(
      acks.map(({ turn: { outcome } }) => (outcome.status === 'failed' ? outcome.failure : null)),
    ),
    texts(tokens.map(({ secret }) => secret)),
    numbers(tokens.map(({ instanceKey }) => instanceKey)),
    numbers(tokens.map(({ executionId }) => executionId)),
    items.length,
    numbers(events.map(({ instanceKey }) => instanceKey)),
    numbers(events.map(({ executionId }) => executionId)),
    numbers(events.map(({ eventId }) => eventId)),
    texts(events.map(({ event }) => event.kind)),
    numbers(events.map(({ event }) => event.at)),
    texts(events.map(({ event }) => event.data)),
    texts(events.map(({ event }) => event.payload)),
    numbers(items.map(({ instanceKey }) => instanceKey)),
    numbers(items.map(({ executionId }) => executionId)),
    numbers(items.map(({ item }) => item.operation)),
    numbers(items.map(({ definitionKey }) => definitionKey)),
    numbers(
      items.map(({ item: { claimMs } }) => (claimMs === undefined ? null : Math.ceil(claimMs))),
    ),
    texts(items.map(({ secret }) => secret)),
    texts(items.map(({ item }) => item.cancellation)),
    booleans(items.map(({ item }) => item.shielded)),
    texts(items.map(({ item }) => item.options)),
    texts(items.map(({ item }) => item.payload)),
    numbers(items.map(({ item }) => item.priority ?? 0)),
    texts(items.map(({ item }) => item.claimedBy ?? null)),
  ];
}

function answer(acks: readonly PlainAck[], items: readonly NewItem[], row: Row) {
  const effects = new Effects();
  const byKey = new Map(acks.map((ack) => [ack.instanceKey, ack]));
  for (const [place, id] of row.finishedIds.entries()) {
    const ack = byKey.get(Number(row.finishedKeys[place]));
    const instanceId = fromStoredText(id);
    const outcome = ack?.turn.outcome;
    if (ack !== undefined && outcome?.status === 'completed') {
      const { incarnation } = ack;
      effects.completed(instanceId, { incarnation, output: outcome.payload });
    } else effects.finished.push(instanceId);
  }
  const claimed: ClaimedAtInsert[][] = acks.map(() => []);
  for (const [place, { index, item, secret }] of items.entries()) {
    effects.due('work', row.now + (item.claimMs ?? 0));
    if (secret === null) continue;
    const lockToken = formatToken(Number(row.itemKeys[place]), secret);
    claimed[index]?.push({ operation: item.operation, lockToken });
  }
  const results = acks.map((_, index): CommitResult => ({
    ok: true,
    claimed: claimed[index] ?? [],
  }));
  return { results, effects };
}

/** A turn that concerns nobody but its instance, and of that only its history, its activities and its end. */
export interface PlainTurn extends Turn {
  readonly outcome: Extract<TurnOutcome, { status: 'running' | 'completed' | 'failed' }>;
}

/** Says whether a turn is plain. */
export function isPlain(turn: Turn): turn is PlainTurn {
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
    turn.bufferedEvents === undefined
  );
}
