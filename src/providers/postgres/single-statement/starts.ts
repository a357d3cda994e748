import type { CreateResult, NewInstance } from '../../contract/instances.ts';
import type { ClaimedAtInsert } from '../../contract/turn.ts';
import { booleans, numbers, texts } from '../driver/arrays.ts';
import type { Connections, Statement } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';
import { Effects } from '../../shared/effects.ts';
import { formatToken, type Secrets } from '../../shared/lock-token.ts';
import { isPlain, type PlainTurn } from './turn-acks.ts';
import { refusesData } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';

interface Row {
  readonly now: number;
  readonly instanceKeys: readonly string[];
  readonly itemKeys: readonly string[];
}

/**
 * Creates instances together with their first turns in one statement, which is its own transaction: for turns that
 * only record events and schedule activities, of ids that are free and names that are known. If one id is taken the
 * whole statement fails, and nothing of it is kept.
 */
export class PlainStarts {
  readonly #connections: Connections;
  readonly #definitions: Definitions;
  readonly #secrets: Secrets;
  readonly #statement: Statement;

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
    // The keys are drawn first, so that the rows need not be joined to learn them; the clock is read once and not by each
    // row, which costs as much as an index entry.
    const now = '(SELECT now FROM drawn)';
    this.#statement = {
      name: 'perdure_start_plainly',
      text: `WITH drawn AS MATERIALIZED (
          SELECT ${nowSql} AS now,
            ARRAY(SELECT nextval('${schema}.instances_instance_key_seq') FROM generate_series(1, $2::int)) AS instance_keys,
            ARRAY(SELECT nextval('${schema}.worker_queue_item_key_seq') FROM generate_series(1, $3::int)) AS item_keys
        ), created AS (
          INSERT INTO ${schema}.instances (instance_key, instance_id, incarnation, definition_key, status, execution_id,
            history_length, last_turn, input_hash, created_at, started_at, execution_started_at)
          OVERRIDING SYSTEM VALUE
          SELECT (SELECT instance_keys FROM drawn)[place], instance_id, incarnation, definition_key, 'running', 1,
            history_length, turn_id, input_hash, ${now}, ${now}, ${now}
          FROM unnest($4::text[], $5::text[], $6::int[], $7::int[], $8::text[], $9::text[]) WITH ORDINALITY
            AS new (instance_id, incarnation, definition_key, history_length, turn_id, input_hash, place)
        ), recorded AS (
          INSERT INTO ${schema}.history (instance_key, execution_id, event_id, kind, at, data, payload)
          SELECT (SELECT instance_keys FROM drawn)[instance], 1, event_id, kind, at, data, payload
          FROM unnest($10::int[], $11::int[], $12::text[], $13::bigint[], $14::text[], $15::text[])
            AS event (instance, event_id, kind, at, data, payload)
        ), scheduled AS (
          INSERT INTO ${schema}.worker_queue (item_key, instance_key, execution_id, operation, definition_key, priority, next_at,
            lock_token, locked_until, claimed_by, claims, cancellation, shielded, created_at, options, payload)
          OVERRIDING SYSTEM VALUE
          SELECT (SELECT item_keys FROM drawn)[place], (SELECT instance_keys FROM drawn)[instance], 1, operation,
            definition_key, priority, ${now} + coalesce(claim_ms, 0), secret, ${now} + claim_ms,
            claimed_by, CASE WHEN secret IS NULL THEN 0 ELSE 1 END, cancellation, shielded, ${now}, options, payload
          FROM unnest($16::int[], $17::int[], $18::int[], $19::bigint[], $20::text[], $21::text[], $22::boolean[],
              $23::text[], $24::text[], $25::smallint[], $26::text[]) WITH ORDINALITY
            AS item (instance, operation, definition_key, claim_ms, secret, cancellation, shielded, options, payload,
              priority, claimed_by, place)
        )
        SELECT now, instance_keys AS "instanceKeys", item_keys AS "itemKeys" FROM drawn`,
    };
  }

  /** Creates the instances, or answers `undefined` when they have to be created in another way. */
  async create(
    instances: readonly NewInstance[],
    nowParameter: number | null,
  ): Promise<{ readonly results: readonly CreateResult[]; readonly effects: Effects } | undefined> {
    const starts = this.#toStarts(instances);
    if (starts === undefined) return undefined;
    const items = starts.flatMap(({ turn: { workItems } }, index) =>
      workItems.map((item, place) => {
        const definitionKey = starts[index]?.itemKeys[place] ?? 0;
        const secret = item.claimMs === undefined ? null : this.#secrets.next();
        return { index, item, definitionKey, secret };
      }),
    );
    const events = starts.flatMap(({ turn }, index) =>
      turn.events.map((event, place) => ({ index, eventId: place + 1, event })),
    );
    const row = await this.#run([
      nowParameter,
      starts.length,
      items.length,
      texts(starts.map(({ instance }) => instance.instanceId)),
      texts(starts.map(({ instance }) => instance.incarnation)),
      numbers(starts.map(({ definitionKey }) => definitionKey)),
      numbers(starts.map(({ turn }) => turn.events.length)),
      texts(starts.map(({ turn }) => turn.turnId)),
      texts(starts.map(({ instance }) => instance.inputHash)),
      numbers(events.map(({ index }) => index + 1)),
      numbers(events.map(({ eventId }) => eventId)),
      texts(events.map(({ event }) => event.kind)),
      numbers(events.map(({ event }) => event.at)),
      texts(events.map(({ event }) => event.data)),
      texts(events.map(({ event }) => event.payload)),
      numbers(items.map(({ index }) => index + 1)),
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
    ]);
    if (row === undefined) return undefined;
    const effects = new Effects();
    const claimed: ClaimedAtInsert[][] = starts.map(() => []);
    for (const [place, { index, item, secret }] of items.entries()) {
      effects.due('work', row.now + (item.claimMs ?? 0));
      if (secret === null) continue;
      const lockToken = formatToken(Number(row.itemKeys[place]), secret);
      claimed[index]?.push({ operation: item.operation, lockToken });
    }
    const results = starts.map((_, index): CreateResult => ({
      kind: 'created',
      instanceKey: Number(row.instanceKeys[index]),
      claimed: claimed[index] ?? [],
    }));
    return { results, effects };
  }

  async #run(values: readonly unknown[]): Promise<Row | undefined> {
    try {
      const [row] = await this.#connections.statement<Row>(
        'createInstances',
        this.#statement,
        values,
      );
      return row;
    } catch (error) {
      // An id is taken, or an item is at fault: found out in the other way.
      if (refusesData(error)) return undefined;
      throw error;
    }
  }

  /** What to write, if everything about all of them is plain and known. */
  #toStarts(instances: readonly NewInstance[]): readonly Start[] | undefined {
    const ids = new Set<string>();
    const starts: Start[] = [];
    for (const instance of instances) {
      const { firstTurn: turn, instanceId, name } = instance;
      if (turn === undefined || turn.firstEventId !== 1 || !isPlain(turn)) return undefined;
      if (turn.outcome.status !== 'running' || ids.has(instanceId)) return undefined;
      ids.add(instanceId);
      const definitionKey = this.#definitions.find({
        kind: 'orchestration',
        name,
        version: turn.version,
      });
      const itemKeys = turn.workItems.flatMap(
        (item) =>
          this.#definitions.find({ kind: 'activity', name: item.name, version: null }) ?? [],
      );
      if (definitionKey === undefined || itemKeys.length < turn.workItems.length) return undefined;
      starts.push({ instance, turn, definitionKey, itemKeys });
    }
    return starts;
  }
}

interface Start {
  readonly instance: NewInstance;
  readonly turn: PlainTurn;
  readonly definitionKey: number;
  readonly itemKeys: readonly number[];
}
