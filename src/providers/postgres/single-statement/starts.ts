import type { CreateResult, NewInstance } from '../../contract/instances.ts';
import type { ClaimedAtInsert } from '../../contract/turn.ts';
import { Effects } from '../../shared/effects.ts';
import { formatToken, type Secrets } from '../../shared/lock-token.ts';
import type { BatchResult, PathParts } from '../batches/batching.ts';
import { clock, prepare, rowsOf, type Column } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { undefinedIfRefused } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import type { Definitions } from '../tables/definitions.ts';
import { PauseChecks, type PauseCheck } from '../tables/pause-checks.ts';
import { hasBeginLimits, isAnyBeginLimited } from '../limits/begin-limits.ts';
import { addLive } from '../tables/instance-rows.ts';
import { hasPausedDefinitions, isAnyPaused } from '../tables/pause-rows.ts';
import {
  limitedAmong,
  newItemColumns,
  newItemTarget,
  newItemValues,
  newLaneColumns,
  type NewItem,
} from '../tables/work-items.ts';
import { isEligible, type EligibleTurn } from './turn-acks.ts';

interface Start {
  readonly instance: NewInstance;
  readonly turn: EligibleTurn;
  readonly definitionKey: number;
  readonly items: readonly NewItem[];
}

interface Created {
  readonly now: number;
  /** Whether none of the definitions is paused. Nothing was written otherwise. */
  readonly ok: boolean;
  readonly hasPaused: boolean;
  readonly instanceKeys: readonly string[];
  readonly itemKeys: readonly string[];
  /** The limited definitions of the new items, which are not claimed. */
  readonly limited: readonly number[];
}

/**
 * Creates instances with their first turns in one statement, which is its own transaction. The turns may only record
 * events and schedule activities, and their names must be in the cache. If an id is taken, the statement fails as a
 * whole. If a definition is paused, it writes nothing.
 */
export class SingleStatementStarts {
  readonly #connections: Connections;
  readonly #definitions: Definitions;
  readonly #secrets: Secrets;
  readonly #limited: PathParts['limited'];
  readonly #start: PauseChecks<ReturnType<typeof startStatement>>;
  readonly #startWithExtras: PauseChecks<ReturnType<typeof startStatement>>;

  constructor({ connections, definitions, limited, secrets, schema }: PathParts) {
    this.#connections = connections;
    this.#definitions = definitions;
    this.#limited = limited;
    this.#secrets = secrets;
    this.#start = new PauseChecks((check) => startStatement(schema, check));
    this.#startWithExtras = new PauseChecks((check) => startStatement(schema, check, true));
  }

  /** Creates the instances, or returns `undefined` if the caller has to use the general path. */
  async create(
    instances: readonly NewInstance[],
    now: number | null,
  ): Promise<BatchResult<CreateResult> | undefined> {
    const starts = this.#toStarts(instances);
    if (starts === undefined) return undefined;
    const rows = {
      now,
      starts,
      events: starts.flatMap(({ turn }, index) =>
        turn.events.map((event, place) => ({ index, place, event })),
      ),
      items: starts.flatMap(({ items }, index) => items.map((item) => ({ index, ...item }))),
    };
    const hasExtras = starts.some(
      ({ instance, items }) =>
        instance.headers !== undefined || items.some(({ item }) => item.lane !== undefined),
    );
    const statement = hasExtras ? this.#startWithExtras : this.#start;
    const created = await statement.run(async (start) => {
      const sent = this.#connections.statement<Created>('createInstances', ...start(rows));
      return (await undefinedIfRefused(sent))?.[0];
    });
    return created?.ok === true ? toResult(starts, created) : undefined;
  }

  /** Returns the starts, or `undefined` if one of them is not eligible. */
  #toStarts(instances: readonly NewInstance[]): readonly Start[] | undefined {
    const ids = new Set<string>();
    const starts: Start[] = [];
    for (const instance of instances) {
      const { firstTurn: turn, instanceId, name, tags, timeoutMs } = instance;
      const { dedupeKey, debounce, event, onConflict, lane, isRepeat } = instance;
      const extras = [tags, timeoutMs, dedupeKey, debounce, event, onConflict, lane, isRepeat];
      if (extras.some((extra) => extra !== undefined)) return undefined;
      if (turn === undefined || turn.firstEventId !== 1 || !isEligible(turn)) return undefined;
      if (turn.outcome.status !== 'running' || ids.has(instanceId)) return undefined;
      ids.add(instanceId);
      const wanted = { kind: 'orchestration', name, version: turn.version } as const;
      const definitionKey = this.#definitions.find(wanted);
      const items = this.#newItems(turn);
      if (definitionKey === undefined || items === undefined) return undefined;
      starts.push({ instance, turn, definitionKey, items });
    }
    return starts;
  }

  #newItems({ workItems }: EligibleTurn): readonly NewItem[] | undefined {
    const items: NewItem[] = [];
    for (const item of workItems) {
      const wanted = { kind: 'activity', name: item.name, version: null } as const;
      const definitionKey = this.#definitions.find(wanted);
      if (definitionKey === undefined) return undefined;
      // The general path makes the definition limited.
      const limitKey = this.#definitions.findLimited(item.name) ?? 0;
      if (item.lane !== undefined && !this.#limited.has(limitKey)) return undefined;
      const secret = item.claimMs === undefined ? null : this.#secrets.next();
      items.push({ definitionKey, item, secret });
    }
    return items;
  }
}

function toResult(
  starts: readonly Start[],
  { now, instanceKeys, itemKeys, limited }: Created,
): BatchResult<CreateResult> {
  const effects = new Effects();
  let place = 0;
  const results = starts.map(({ items }, index): CreateResult => {
    const claimed: ClaimedAtInsert[] = [];
    for (const { item, secret, definitionKey } of items) {
      const itemKey = Number(itemKeys[place]);
      place += 1;
      const isLimited = limited.includes(definitionKey);
      effects.due('work', now + (isLimited ? 0 : (item.claimMs ?? 0)));
      if (secret === null || isLimited) continue;
      claimed.push({ operation: item.operation, lockToken: formatToken(itemKey, secret) });
    }
    return { kind: 'created', instanceKey: Number(instanceKeys[index]), claimed };
  });
  return { results, effects };
}

const startColumns = {
  instance_id: ['text', ({ instance }: Start) => instance.instanceId],
  incarnation: ['text', ({ instance }: Start) => instance.incarnation],
  definition_key: ['int', ({ definitionKey }: Start) => definitionKey],
  history_length: ['int', ({ turn }: Start) => turn.events.length],
  turn_id: ['text', ({ turn }: Start) => turn.turnId],
  input_hash: ['text', ({ instance }: Start) => instance.inputHash],
} as const;

const startRows = rowsOf<Start>()(startColumns);
// Sent only for starts with headers or keys, so that other starts do not pay for the columns.
const startRowsWithHeaders = rowsOf<Start>()({
  ...startColumns,
  headers: ['text', ({ instance }) => instance.headers ?? null],
});

interface FirstEvent {
  /** The index of the start. */
  readonly index: number;
  readonly place: number;
  readonly event: EligibleTurn['events'][number];
}

const eventRows = rowsOf<FirstEvent>()({
  instance: ['int', ({ index }) => index + 1],
  event_id: ['int', ({ place }) => place + 1],
  kind: ['text', ({ event }) => event.kind],
  at: ['bigint', ({ event }) => event.at],
  data: ['text', ({ event }) => event.data],
  payload: ['text', ({ event }) => event.payload],
});

type StartItem = NewItem & { readonly index: number };

const itemColumns = {
  instance: ['int', ({ index }) => index + 1],
  ...newItemColumns,
} as const satisfies Record<string, Column<StartItem>>;
const itemRows = rowsOf<StartItem>()(itemColumns);
const laneItemRows = rowsOf<StartItem>()({ ...itemColumns, ...newLaneColumns });

// Draws all keys first, so that no join is needed to find them. Reads the clock once, because reading it per row costs as
// much as an index entry.
function startStatement(schema: string, check: PauseCheck, withExtras = false) {
  const name = check === 'any' ? 'perdure_start_plainly' : 'perdure_start_beside_pauses';
  const headers = withExtras ? ', headers' : '';
  const limited = '(SELECT limited FROM drawn)::int[]';
  const now = '(SELECT now FROM drawn)';
  const ifOk = 'WHERE (SELECT ok FROM drawn)';
  const instanceKey = '(SELECT instance_keys FROM drawn)[instance]';
  const hasPaused = `(${hasPausedDefinitions(schema)} OR ${hasBeginLimits(schema)})`;
  const drawKeys = (sequence: string, column: string) =>
    `ARRAY(SELECT nextval('${schema}.${sequence}') FROM generate_series(1, cardinality(${column})))`;
  return prepare(
    withExtras ? `${name}_with_extras` : name,
    {
      now: clock,
      starts: withExtras ? startRowsWithHeaders : startRows,
      events: eventRows,
      items: withExtras ? laneItemRows : itemRows,
    },
    ({ starts, events, items }) => `WITH drawn AS MATERIALIZED (
          SELECT ${nowSql} AS now, NOT ${
            check === 'any'
              ? hasPaused
              : `(${isAnyPaused(
                  schema,
                  `${starts.column('definition_key')} || ${items.column('definition_key')}`,
                )} OR ${isAnyBeginLimited(schema, starts.column('definition_key'))})`
          } AS ok,
            ${drawKeys('instances_instance_key_seq', starts.column('instance_id'))} AS instance_keys,
            ${drawKeys('worker_queue_item_key_seq', items.column('instance'))} AS item_keys,
            ${limitedAmong(schema, items.column('definition_key'))} AS limited
        ), created AS (
          INSERT INTO ${schema}.instances (instance_key, instance_id, incarnation, definition_key, status, execution_id,
            history_length, last_turn, input_hash, created_at, started_at, execution_started_at${headers})
          OVERRIDING SYSTEM VALUE
          SELECT (SELECT instance_keys FROM drawn)[place], instance_id, incarnation, definition_key, 'running', 1,
            history_length, turn_id, input_hash, ${now}, ${now}, ${now}${headers}
          FROM ${starts.withPlace('new')} ${ifOk}
        ), ${addLive(schema, `SELECT unnest((SELECT instance_keys FROM drawn)) ${ifOk}`)}, recorded AS (
          INSERT INTO ${schema}.history (instance_key, execution_id, event_id, kind, at, data, payload)
          SELECT ${instanceKey}, 1, event_id, kind, at, data, payload FROM ${events.as('event')} ${ifOk}
        ), scheduled AS (
          INSERT INTO ${schema}.worker_queue (item_key, instance_key, execution_id, ${newItemTarget})
          OVERRIDING SYSTEM VALUE
          SELECT (SELECT item_keys FROM drawn)[place], ${instanceKey}, 1, ${newItemValues(schema, { now, limited, hasLanes: withExtras, row: 'item' })}
          FROM ${items.withPlace('item')} ${ifOk}
        )
        SELECT now, ok, ${check === 'any' ? 'NOT ok' : hasPaused} AS "hasPaused", instance_keys AS "instanceKeys", item_keys AS "itemKeys", limited
        FROM drawn`,
  );
}
