import type { Lane } from '../../contract/limits.ts';
import type {
  FetchOrchestrationItemsParams,
  Runnable,
} from '../../contract/orchestration-queue.ts';
import { chooseFairly, virtualCost, type FairLane } from '../../rules/limits.ts';
import { keys, one, optional, prepare, rowsOf, type ListText } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql, type Scope } from '../driver/scope.ts';

/** The orchestrations that a worker can run, in a statement. */
type RunnableText = ListText<'name' | 'version'>;

/** A limited orchestration. */
interface Gate {
  /** Of the name without a version. */
  readonly definitionKey: number;
  readonly name: string;
}

/** The row of a limited orchestration, read after its lock. */
interface LockedGate {
  readonly global: number | null;
  readonly perKey: number | null;
  readonly running: number;
  readonly vclock: number;
}

interface WaitingLane {
  readonly lane: string;
  readonly weight: number;
  readonly vtime: number;
  readonly running: number;
  /**
   * The keys of the instances that have waited longest: those that can begin, and one more. Negative: of a version that this
   * worker cannot run.
   */
  readonly instanceKeys: readonly string[];
}

interface NewLane {
  readonly instanceKey: number;
  readonly lane: Lane | undefined;
}

// Bounds the work of one claim. The next claim continues.
const maxSignals = 5_000;
const maxLanes = 200;
const maxRounds = 20;

/**
 * Limits of the instances of an orchestration that have begun and not ended.
 *
 * An instance takes a place with its first claim. If no place is free it waits in its lane: its row in `instance_locks`
 * has a negative definition key, like that of a paused instance, so that no claim finds it. The next claim of a worker
 * that can run the orchestration admits waiting instances while places are free. Triggers free the place of an instance
 * that ends or is deleted.
 *
 * An instance that began before its definition was limited takes a place even if none is free. So does one that is canceled
 * while it waits again: see `waitsForPlace`.
 *
 * A worker gives no place to an instance of a version that it cannot run: perhaps no worker can. Such an instance stops
 * waiting, and the next claim of a worker that can run it decides again.
 *
 * The claim that finds a lane without places and without waiting instances deletes it.
 *
 * A claim locks the rows of the limited definitions first, and waits for no other row while it holds them.
 */
export class BeginLimits {
  readonly #sql: ReturnType<typeof statements>;
  #isKnown = false;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Whether this process has seen a limited orchestration. It stays limited. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** The limited orchestrations of the store. */
  async gates(tx: Transaction): Promise<readonly Gate[]> {
    const gates = await tx.query<Gate>(...this.#sql.gates({}));
    if (gates.length > 0) this.#isKnown = true;
    return gates;
  }

  /** The limited orchestrations of a worker, locked and up to date with the places that were freed. */
  async lock(
    tx: Transaction,
    runnable: readonly { readonly name: string }[] | undefined,
  ): Promise<readonly Gate[]> {
    const isWanted = ({ name }: Gate): boolean =>
      runnable === undefined || runnable.some((wanted) => wanted.name === name);
    const gates = (await this.gates(tx)).filter(isWanted);
    if (gates.length === 0) return [];
    const definitionKeys = gates.map(({ definitionKey }) => definitionKey);
    await Promise.all([
      tx.execute(...this.#sql.lock({ definitionKeys })),
      tx.execute(...this.#sql.drain({ definitionKeys })),
    ]);
    return gates;
  }

  /**
   * Lets due instances wait if they need a place. Returns those that can be claimed. One that another transaction is
   * changing is left for the next claim.
   */
  async holdBack<Due extends { readonly instanceKey: number }>(
    tx: Transaction,
    gates: readonly Gate[],
    due: readonly Due[],
  ): Promise<readonly Due[]> {
    if (due.length === 0) return [];
    const held = await tx.query<{ instanceKey: number }>(
      ...this.#sql.holdBack({ gates, instanceKeys: due.map(({ instanceKey }) => instanceKey) }),
    );
    const heldKeys = new Set(held.map(({ instanceKey }) => instanceKey));
    return due.filter(({ instanceKey }) => !heldKeys.has(instanceKey));
  }

  /** Gives free places to waiting instances that a worker can run, at most `max` per orchestration. They can be claimed now. */
  async admit(
    tx: Transaction,
    gates: readonly Gate[],
    params: Pick<FetchOrchestrationItemsParams, 'max' | 'runnable'>,
  ): Promise<void> {
    for (const gate of gates) {
      let rounds = 1;
      while ((await this.#admitOne(tx, gate, params)) && rounds < maxRounds) rounds += 1;
    }
  }

  /** Stores the keys of new instances, for those that have one. */
  async addLanes(tx: Transaction, instances: readonly NewLane[]): Promise<void> {
    const rows = instances.flatMap(({ instanceKey, lane }) =>
      lane === undefined ? [] : [{ instanceKey, lane: lane.key, weight: lane.weight }],
    );
    if (rows.length > 0) await tx.execute(...this.#sql.addLanes({ rows }));
  }

  /** Notes that this process has limited an orchestration. */
  opened(): void {
    this.#isKnown = true;
  }

  /** Wakes workers for the instances that wait for the places of those that a transaction has ended. */
  wake({ effects }: Pick<Scope, 'effects'>): void {
    if (this.#isKnown && effects.finished.length > 0) effects.due('orchestrations', 0);
  }

  /** Gives a fork the key of its source, if it has one. */
  async copyLane(tx: Transaction, fromKey: number, toKey: number): Promise<void> {
    await tx.execute(...this.#sql.copyLane({ fromKey, toKey }));
  }

  /** Returns whether others may begin in place of those that the worker cannot run. */
  async #admitOne(
    tx: Transaction,
    { definitionKey }: Gate,
    { max, runnable }: Pick<FetchOrchestrationItemsParams, 'max' | 'runnable'>,
  ): Promise<boolean> {
    // Not with the gates: those were read before the lock, and the limits may have been lowered meanwhile.
    const [locked] = await tx.query<LockedGate>(...this.#sql.state({ definitionKey }));
    if (locked === undefined) return false;
    const { global, perKey } = locked;
    const free = Math.min(max, global === null ? max : global - locked.running);
    if (free <= 0) return false;
    const rows = await tx.query<WaitingLane>(
      ...this.#sql.waiting({ definitionKey, limit: free, perKey, runnable }),
    );
    if (rows.length === 0) return false;
    const lanes = rows.map((row) => new AdmittedLane(row, perKey));
    const { vclock } = chooseFairly({
      lanes,
      max: free,
      vclock: locked.vclock,
      take: (lane) => lane.take(),
    });
    const chosen = lanes.flatMap(({ chosen }) => chosen);
    const begun = await tx.query<{ instanceKey: number }>(
      ...this.#sql.begin({ instanceKeys: chosen }),
    );
    const begunKeys = new Set(begun.map(({ instanceKey }) => instanceKey));
    const skipped = lanes.flatMap(({ skipped }) => skipped);
    const left =
      skipped.length === 0
        ? []
        : await tx.query<{ instanceKey: number }>(...this.#sql.leave({ instanceKeys: skipped }));
    const leftKeys = new Set(left.map(({ instanceKey }) => instanceKey));
    const changed = lanes.flatMap((lane) => lane.after(begunKeys, leftKeys, locked.vclock) ?? []);
    await tx.execute(
      ...this.#sql.update({ definitionKey, vclock, taken: begun.length, lanes: changed }),
    );
    return left.length > 0;
  }
}

/** A lane with waiting instances, and those that were chosen. */
class AdmittedLane implements FairLane {
  readonly weight: number;
  readonly vtime: number;
  readonly allowance: number;
  readonly chosen: number[] = [];
  /** Those that the worker cannot run. */
  readonly skipped: number[] = [];
  readonly #row: WaitingLane;

  constructor(row: WaitingLane, perKey: number | null) {
    this.#row = row;
    this.weight = row.weight;
    this.vtime = row.vtime;
    this.allowance = perKey === null ? Infinity : Math.max(perKey - row.running, 0);
  }

  take(): boolean {
    const { instanceKeys } = this.#row;
    for (;;) {
      const next = instanceKeys[this.chosen.length + this.skipped.length];
      if (next === undefined) return false;
      const key = Number(next);
      if (key > 0) return this.chosen.push(key) > 0;
      this.skipped.push(-key);
    }
  }

  /**
   * The row after some of the chosen instances began and some of the skipped ones left, or `undefined` if it stays the same.
   * `vclock`: before the choice.
   */
  after(begun: ReadonlySet<number>, left: ReadonlySet<number>, vclock: number) {
    const { lane, instanceKeys } = this.#row;
    const taken = this.chosen.filter((key) => begun.has(key)).length;
    const gone = this.skipped.filter((key) => left.has(key)).length;
    // If all that were read are gone, others may wait.
    const more = instanceKeys.length > taken + gone || (taken === 0 && gone > 0);
    const ready = more && taken < this.allowance;
    if (taken === 0 && ready) return undefined;
    // A key that was idle does not catch up on the past.
    const start = Math.max(this.vtime, vclock);
    return { lane, taken, vtime: start + taken * virtualCost(this.weight), more, ready };
  }
}

/** SQL text: the time now if a waiting instance of a wanted orchestration may find a place, else NULL. */
export function beginDueText(schema: string, runnable: RunnableText): string {
  return `(SELECT ${nowSql} FROM ${schema}.limits AS lim CROSS JOIN LATERAL (
        SELECT kind, name FROM ${schema}.definitions AS one WHERE one.definition_key = lim.definition_key LIMIT 1) AS named
      WHERE kind = 'orchestration'
        AND (${runnable.column('name')} IS NULL OR name = ANY (${runnable.column('name')}))
        AND ((SELECT 1 FROM ${schema}.lane_signals AS signal
              WHERE signal.definition_key = lim.definition_key AND freed <> 0 LIMIT 1) IS NOT NULL
          OR (global_limit IS NULL OR lim.running < global_limit)
            AND (SELECT 1 FROM ${schema}.lanes AS lane
                 WHERE lane.definition_key = lim.definition_key AND ready LIMIT 1) IS NOT NULL)
      LIMIT 1)`;
}

/** SQL text: whether any orchestration is limited. */
export function hasBeginLimits(schema: string): string {
  return `EXISTS (SELECT FROM ${schema}.limits AS lim CROSS JOIN LATERAL (
        SELECT kind, name FROM ${schema}.definitions AS one WHERE one.definition_key = lim.definition_key LIMIT 1) AS named
      WHERE kind = 'orchestration')`;
}

/** SQL text: whether one of the orchestrations with these keys is limited. */
export function isAnyBeginLimited(schema: string, definitionKeys: string): string {
  return `EXISTS (SELECT FROM ${schema}.limits AS lim CROSS JOIN LATERAL (
        SELECT kind, name FROM ${schema}.definitions AS one WHERE one.definition_key = lim.definition_key LIMIT 1) AS named
      CROSS JOIN LATERAL (
        SELECT FROM ${schema}.definitions AS version WHERE version.kind = 'orchestration' AND version.name = named.name
          AND version.definition_key = ANY (${definitionKeys}) LIMIT 1) AS one
      WHERE named.kind = 'orchestration')`;
}

// See `isCounted` of the first limits.
const hasCounted = '(lim.declared_by IS NOT NULL OR lim.override IS NOT NULL)';

const runnableRows = optional(
  rowsOf<Runnable>()({
    name: ['text', ({ name }) => name],
    version: ['text', ({ version }) => version ?? ''],
  }),
);

function statements(schema: string) {
  const [limits, lanes, places, instances, locks] = [
    `${schema}.limits`,
    `${schema}.lanes`,
    `${schema}.instance_places`,
    `${schema}.instances`,
    `${schema}.instance_locks`,
  ];
  const definitionKey = one<number>('int');
  const definitionKeys = keys('int');
  const instanceKeys = keys();
  return {
    gates: prepare(
      'perdure_begin_limits',
      {},
      () => `SELECT definition_key AS "definitionKey", name
        FROM ${limits} AS lim CROSS JOIN LATERAL (
        SELECT kind, name FROM ${schema}.definitions AS one WHERE one.definition_key = lim.definition_key LIMIT 1) AS named
        WHERE kind = 'orchestration'
        ORDER BY definition_key`,
    ),
    lock: prepare(
      'perdure_lock_begin_limits',
      { definitionKeys },
      ({ definitionKeys }) => `SELECT FROM ${limits} WHERE definition_key = ANY (${definitionKeys})
        ORDER BY definition_key FOR UPDATE`,
    ),
    drain: prepare(
      'perdure_drain_begin_limits',
      { definitionKeys },
      ({ definitionKeys }) => `WITH signal AS (
          DELETE FROM ${schema}.lane_signals WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM ${schema}.lane_signals WHERE definition_key = ANY (${definitionKeys})
              AND freed <> 0 ORDER BY definition_key, signal_key LIMIT ${maxSignals}))
          RETURNING definition_key, lane, freed
        ), change AS MATERIALIZED (
          SELECT definition_key, lane, sum(freed)::int AS freed FROM signal GROUP BY definition_key, lane
        ), idle AS (
          DELETE FROM ${lanes} AS lane USING change
          WHERE lane.definition_key = change.definition_key AND lane.lane = change.lane
            AND lane.running = change.freed AND NOT more
        ), updated AS (
          UPDATE ${lanes} AS lane SET running = lane.running - change.freed, ready = more FROM change
          WHERE lane.definition_key = change.definition_key AND lane.lane = change.lane
            AND (lane.running <> change.freed OR more)
        )
        UPDATE ${limits} AS lim SET running = lim.running - total.freed
        FROM (SELECT definition_key, sum(freed)::int AS freed FROM change GROUP BY definition_key) AS total
        WHERE lim.definition_key = total.definition_key`,
    ),
    state: prepare(
      'perdure_begin_limit',
      { definitionKey },
      ({ definitionKey }) =>
        `SELECT global_limit AS "global", key_limit AS "perKey", running, vclock FROM ${limits}
        WHERE definition_key = ${definitionKey}`,
    ),
    holdBack: prepare(
      'perdure_hold_back_beginnings',
      {
        gates: rowsOf<Gate>()({ definition_key: 'int', name: 'text' }),
        instanceKeys,
      },
      ({ gates, instanceKeys }) => `WITH found AS MATERIALIZED (
          SELECT instance.instance_key, status = 'pending' OR status = 'running' AND gate.has_counted AS waits,
            gate.definition_key AS gate_key,
            coalesce(kept.lane, '') AS lane, coalesce(kept.weight, 1) AS weight
          FROM ${instances} AS instance CROSS JOIN LATERAL (
              SELECT name FROM ${schema}.definitions AS one WHERE one.definition_key = instance.definition_key LIMIT 1
            ) AS named CROSS JOIN LATERAL (
              SELECT wanted.definition_key, ${hasCounted} AS has_counted
              FROM ${gates.as('wanted')} CROSS JOIN ${limits} AS lim
              WHERE wanted.name = named.name AND lim.definition_key = wanted.definition_key LIMIT 1
            ) AS gate LEFT JOIN LATERAL (
              SELECT has_begun FROM ${places} AS one WHERE one.instance_key = instance.instance_key LIMIT 1
            ) AS place ON TRUE LEFT JOIN LATERAL (
              SELECT lane, weight FROM ${schema}.run_lanes AS one WHERE one.instance_key = instance.instance_key LIMIT 1
            ) AS kept ON TRUE
          WHERE instance.instance_key = ANY (${instanceKeys}) AND has_begun IS NOT TRUE
        ), mine AS MATERIALIZED (
          SELECT instance_key FROM ${instances} WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM found))
          FOR NO KEY UPDATE SKIP LOCKED
        ), marked AS (
          UPDATE ${instances} SET limited = TRUE
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM mine)) AND NOT limited
        ), changed AS MATERIALIZED (
          SELECT * FROM found WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM mine))
        ), placed AS (
          INSERT INTO ${places} (instance_key, definition_key, lane, has_begun)
          SELECT instance_key, gate_key, lane, NOT waits FROM changed
          ON CONFLICT (instance_key) DO UPDATE SET has_begun = excluded.has_begun
        ), parked AS (
          UPDATE ${locks} SET definition_key = -abs(definition_key)
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM changed WHERE waits))
        ), lane AS (
          INSERT INTO ${lanes} AS known (definition_key, lane, weight, running, vtime, more, ready)
          SELECT gate_key, lane, max(weight), count(*) FILTER (WHERE NOT waits), vclock, bool_or(waits), bool_or(waits)
          FROM changed CROSS JOIN LATERAL (
            SELECT vclock FROM ${limits} AS one WHERE one.definition_key = gate_key LIMIT 1) AS lim
          GROUP BY gate_key, lane, vclock
          ON CONFLICT (definition_key, lane) DO UPDATE SET running = known.running + excluded.running,
            weight = excluded.weight, more = known.more OR excluded.more, ready = known.ready OR excluded.ready
        ), total AS (
          UPDATE ${limits} AS lim SET running = lim.running + begun.count
          FROM (SELECT gate_key, count(*)::int AS count FROM changed WHERE NOT waits GROUP BY gate_key) AS begun
          WHERE lim.definition_key = gate_key
        )
        SELECT instance_key AS "instanceKey" FROM found
        WHERE waits OR instance_key <> ALL (ARRAY(SELECT instance_key FROM mine))`,
    ),
    waiting: prepare(
      'perdure_waiting_beginnings',
      {
        definitionKey,
        limit: one<number>('bigint'),
        perKey: one<number | null>('int'),
        runnable: runnableRows,
      },
      ({
        definitionKey,
        limit,
        perKey,
        runnable,
      }) => `SELECT lane.lane, weight, vtime, running, ARRAY(
            SELECT (CASE WHEN ${runnable.column('name')} IS NULL OR (
                SELECT 1 FROM (
                    SELECT abs(definition_key) AS own_key FROM ${locks} AS one
                    WHERE one.instance_key = place.instance_key LIMIT 1) AS lock
                  CROSS JOIN LATERAL (
                    SELECT name, version FROM ${schema}.definitions AS one WHERE one.definition_key = own_key LIMIT 1) AS named
                  JOIN ${runnable.as('runnable')} ON runnable.name = named.name AND runnable.version = named.version
                LIMIT 1) IS NOT NULL
              THEN place.instance_key ELSE -place.instance_key END)::text FROM ${places} AS place
            WHERE place.definition_key = ${definitionKey} AND place.lane = lane.lane AND NOT has_begun
            ORDER BY place.instance_key
            LIMIT least(${limit}, greatest(coalesce(${perKey} - running, ${limit}), 0)) + 1) AS "instanceKeys"
        FROM (SELECT * FROM ${lanes} WHERE definition_key = ${definitionKey} AND ready
              ORDER BY vtime, lane LIMIT ${maxLanes}) AS lane
        ORDER BY vtime, lane.lane`,
    ),
    // Locked rows are changed by others, who wait for none of this transaction's. They are left for the next claim.
    begin: prepare(
      'perdure_begin_instances',
      { instanceKeys },
      ({ instanceKeys }) => `WITH lock AS MATERIALIZED (
          SELECT instance_key FROM ${locks} WHERE instance_key = ANY (${instanceKeys}) FOR UPDATE SKIP LOCKED
        ), place AS MATERIALIZED (
          SELECT instance_key FROM ${places}
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM lock)) AND coalesce(has_begun, TRUE) = FALSE
          FOR UPDATE SKIP LOCKED
        ), free AS (
          UPDATE ${locks} SET definition_key = abs(definition_key)
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM place))
        )
        UPDATE ${places} SET has_begun = TRUE WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM place))
        RETURNING instance_key AS "instanceKey"`,
    ),
    // They are due without a place, as before their first claim.
    leave: prepare(
      'perdure_leave_lane',
      { instanceKeys },
      ({ instanceKeys }) => `WITH lock AS MATERIALIZED (
          SELECT instance_key FROM ${locks} WHERE instance_key = ANY (${instanceKeys}) FOR UPDATE SKIP LOCKED
        ), place AS MATERIALIZED (
          SELECT instance_key FROM ${places}
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM lock)) AND coalesce(has_begun, TRUE) = FALSE
          FOR UPDATE SKIP LOCKED
        ), gone AS (
          DELETE FROM ${places} WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM place))
        )
        UPDATE ${locks} SET definition_key = abs(definition_key)
        WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM place))
        RETURNING instance_key AS "instanceKey"`,
    ),
    update: prepare(
      'perdure_update_begin_limit',
      {
        definitionKey,
        vclock: one<number>('bigint'),
        taken: one<number>('int'),
        lanes: rowsOf<NonNullable<ReturnType<AdmittedLane['after']>>>()({
          lane: 'text',
          taken: 'int',
          vtime: 'bigint',
          more: 'boolean',
          ready: 'boolean',
        }),
      },
      ({ definitionKey, vclock, taken, lanes: changed }) => `WITH idle AS (
          DELETE FROM ${lanes} AS lane USING ${changed.as('next')}
          WHERE lane.definition_key = ${definitionKey} AND lane.lane = next.lane COLLATE "C"
            AND lane.running + next.taken = 0 AND NOT next.more
        ), updated AS (
          UPDATE ${lanes} AS lane SET running = lane.running + next.taken, vtime = next.vtime, more = next.more,
            ready = next.ready
          FROM ${changed.as('next')} WHERE lane.definition_key = ${definitionKey} AND lane.lane = next.lane COLLATE "C"
            AND (lane.running + next.taken > 0 OR next.more)
        )
        UPDATE ${limits} SET running = running + ${taken}, vclock = greatest(vclock, ${vclock})
        WHERE definition_key = ${definitionKey}`,
    ),
    copyLane: prepare(
      'perdure_copy_run_lane',
      { fromKey: one<number>('bigint'), toKey: one<number>('bigint') },
      ({ fromKey, toKey }) => `INSERT INTO ${schema}.run_lanes (instance_key, lane, weight)
        SELECT ${toKey}, lane, weight FROM ${schema}.run_lanes WHERE instance_key = ${fromKey}`,
    ),
    addLanes: prepare(
      'perdure_add_run_lanes',
      {
        rows: rowsOf<{ instanceKey: number; lane: string; weight: number }>()({
          instance_key: 'bigint',
          lane: 'text',
          weight: 'smallint',
        }),
      },
      ({
        rows,
      }) => `INSERT INTO ${schema}.run_lanes (${rows.names}) SELECT ${rows.names} FROM ${rows.as('new')}
        ON CONFLICT (instance_key) DO UPDATE SET lane = excluded.lane, weight = excluded.weight`,
    ),
  };
}
