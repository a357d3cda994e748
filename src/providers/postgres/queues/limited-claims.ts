import { maxSuspectWaitMs } from '../../rules/claims.ts';
import { virtualCost } from '../../rules/limits.ts';
import { clock, one, optional, prepare } from '../driver/columns.ts';
import { nowSql } from '../driver/scope.ts';
import { claimText } from './item-claims.ts';
import { countedKeys } from '../tables/definitions.ts';
import {
  arrival,
  inLane,
  laneHasRoom,
  laneState,
  limitColumns,
  nextDueText,
  startsLeft,
  suspectInLane,
} from '../limits/limit-text.ts';

// Bound the work of one claim. The next claim continues.
const maxFreed = 10_000;
const maxMoved = 500;
// If a claim cannot read all signals, it also reads the first signal of each of this many further lanes.
const maxSkipped = 32;

/** The virtual time that one item of a lane takes, as `virtualCost` of the rules returns it. */
const cost = `((${virtualCost(1)} + weight - 1) / weight)`;

/**
 * The statements of a claim of one limited definition, in this order, in one transaction. The first locks the row of the
 * definition; each later one reads in a newer snapshot (invariants 9 and 10). None waits for a row of another transaction:
 * they skip items and places that are locked.
 */
export function claimStatements(schema: string) {
  return {
    lock: lockStatement(schema),
    revoke: revokeStatement(schema),
    drain: drainStatement(schema),
    claim: limitedClaimStatement(schema),
    next: nextStatement(schema),
  };
}

const definition = { now: clock, definitionKey: one<number>('int') };

/** Whether the definition is paused. Reads one empty table while none is. */
function isPaused(schema: string, definitionKey: string): string {
  return `((SELECT 1 FROM ${schema}.paused_definitions LIMIT 1) IS NOT NULL AND (
          SELECT (SELECT 1 FROM ${schema}.paused_definitions AS paused
            WHERE paused.kind = named.kind AND paused.name = named.name)
          FROM ${schema}.definitions AS named WHERE named.definition_key = ${definitionKey}) IS NOT NULL)`;
}

function lockStatement(schema: string) {
  return prepare(
    'perdure_lock_limits',
    { definitionKey: one<number>('int') },
    ({ definitionKey }) =>
      `SELECT FROM ${schema}.limits WHERE definition_key = ${definitionKey} FOR UPDATE`,
  );
}

/**
 * Revokes claims whose lease expired, and gives stragglers a lane. A renewal does not change the place: it is moved here.
 * The trigger frees the place of a revoked item. A straggler that is claimed takes a place, unless its lease expired.
 */
function revokeStatement(schema: string) {
  const [items, places] = [`${schema}.worker_queue`, `${schema}.places`];
  const lapsed = `locked_until <= ${nowSql}`;
  return prepare(
    'perdure_revoke_places',
    definition,
    ({ definitionKey }) => `WITH lapsed AS MATERIALIZED (
        SELECT item_key, ctid AS row_id FROM ${places} WHERE definition_key = ${definitionKey} AND until <= ${nowSql}
        ORDER BY until LIMIT ${maxMoved} FOR UPDATE SKIP LOCKED
      ), item AS MATERIALIZED (
        SELECT item_key, row_id, locked_until FROM lapsed CROSS JOIN LATERAL (
          SELECT locked_until FROM ${items} AS one WHERE one.item_key = lapsed.item_key LIMIT 1) AS held
      ), renewed AS (
        UPDATE ${places} AS place SET until = item.locked_until FROM item
        WHERE item.locked_until > ${nowSql} AND place.ctid = item.row_id
      ), expired AS MATERIALIZED (
        SELECT item_key FROM ${items}
        WHERE item_key = ANY (ARRAY(SELECT item_key FROM item WHERE locked_until <= ${nowSql}))
          AND locked_until <= ${nowSql} FOR UPDATE SKIP LOCKED
      ), revoked AS (
        UPDATE ${items} SET next_at = locked_until, lock_token = NULL, locked_until = NULL
        WHERE item_key = ANY (ARRAY(SELECT item_key FROM expired))
      ), straggler AS MATERIALIZED (
        SELECT item_key FROM ${items}
        WHERE definition_key = ANY (${countedKeys(schema, definitionKey)}) AND lane IS NULL AND NOT cancel_requested
        LIMIT ${maxMoved} FOR UPDATE SKIP LOCKED
      ), converted AS (
        UPDATE ${items} SET lane = '', limit_key = ${definitionKey}, next_at = CASE WHEN ${lapsed} THEN locked_until ELSE next_at END,
          lock_token = CASE WHEN ${lapsed} THEN NULL ELSE lock_token END,
          locked_until = CASE WHEN ${lapsed} THEN NULL ELSE locked_until END
        WHERE item_key = ANY (ARRAY(SELECT item_key FROM straggler))
        RETURNING item_key, locked_until
      ), placed AS (
        INSERT INTO ${places} (item_key, definition_key, lane, until)
        SELECT item_key, ${definitionKey}, '', locked_until FROM converted WHERE locked_until IS NOT NULL
      )
      INSERT INTO ${schema}.lane_signals (definition_key, lane, due, freed)
      SELECT ${definitionKey}, '', FALSE, -1 FROM converted WHERE locked_until IS NOT NULL`,
  );
}

/**
 * Reads signals, wakes delayed items and lanes that the rate held back, and updates the lanes. Deletes lanes that are idle.
 * No row of `lanes` is changed twice: a statement does not see its own changes.
 *
 * A lane has the weight of the newest run. A lane without due items may be deleted. When one of its delayed runs wakes, the
 * lane gets the weight of the newest of them.
 *
 * Signals of new items are read by lane, starting after the last lane of the previous claim. A backlog of signals therefore
 * does not slow a claim down, and many signals of one lane do not delay the first of another.
 */
function drainStatement(schema: string) {
  const [items, lanes, signals] = [
    `${schema}.worker_queue`,
    `${schema}.lanes`,
    `${schema}.lane_signals`,
  ];
  const state = laneState({ more: 'more', running: 'running', tat: 'tat' });
  const woken = (definitionKey: string, which: string) => `(SELECT lane FROM ${lanes}
          WHERE definition_key = ${definitionKey} AND wake_at IS NOT NULL AND ${which} AND wake_at <= ${nowSql}
          ORDER BY wake_at LIMIT ${maxMoved})`;
  return prepare(
    'perdure_drain_lane_signals',
    { ...definition, signals: one<number>('bigint') },
    ({ definitionKey, signals: limit }) => {
      const due = `${signals} AS one WHERE one.definition_key = ${definitionKey} AND one.freed = 0`;
      const isFull = `(SELECT count(*) FROM near) = ${limit}`;
      return `WITH RECURSIVE lim AS MATERIALIZED (
        SELECT ${limitColumns} FROM ${schema}.limits AS one WHERE definition_key = ${definitionKey}
      ), later AS MATERIALIZED (
        SELECT ctid AS signal_row, lane AS near_lane FROM ${due} AND one.lane > (SELECT signal_cursor FROM lim)
        ORDER BY one.lane, signal_key LIMIT ${limit}
      ), near AS MATERIALIZED (
        SELECT signal_row, near_lane, FALSE AS is_wrapped FROM later
        UNION ALL (SELECT ctid, lane, TRUE FROM ${due} AND one.lane <= (SELECT signal_cursor FROM lim)
          ORDER BY one.lane, signal_key LIMIT ${limit} - (SELECT count(*) FROM later))
      ), skipped (skipped_lane, number) AS (
        SELECT (SELECT near_lane FROM near ORDER BY is_wrapped DESC, near_lane DESC LIMIT 1), 0 WHERE ${isFull}
        UNION ALL
        SELECT (SELECT one.lane FROM ${due} AND one.lane > skipped_lane ORDER BY one.lane LIMIT 1), number + 1
        FROM skipped WHERE skipped_lane IS NOT NULL AND number < ${maxSkipped}
      ), signal AS (
        DELETE FROM ${signals} WHERE ctid = ANY (
          ARRAY(SELECT ctid FROM ${signals} WHERE definition_key = ${definitionKey} AND freed <> 0
            ORDER BY signal_key LIMIT ${maxFreed})
          || ARRAY(SELECT signal_row FROM near)
          || ARRAY(SELECT signal_row FROM skipped CROSS JOIN LATERAL (
              SELECT ctid AS signal_row FROM ${due} AND one.lane = skipped_lane ORDER BY signal_key LIMIT 1) AS first
            WHERE number > 0))
        RETURNING signal_key, lane, due, weight, freed
      ), awake AS (
        UPDATE ${items} SET awake_at = ${nowSql} WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM ${items} WHERE limit_key = ${definitionKey} AND lane IS NOT NULL AND delayed
            AND NOT cancel_requested AND next_at <= ${nowSql} AND lock_token IS NULL
          ORDER BY next_at LIMIT ${maxMoved} FOR UPDATE SKIP LOCKED))
        RETURNING item_key, lane, weight, suspect
      ), change AS MATERIALIZED (
        SELECT lane AS changed_lane, sum(freed)::int AS freed, bool_or(due) AS due,
          (array_agg(new.weight ORDER BY signal_key DESC) FILTER (WHERE new.weight IS NOT NULL))[1] AS new_weight,
          (array_agg(old_weight ORDER BY woken_key DESC) FILTER (WHERE old_weight IS NOT NULL))[1] AS old_weight
        FROM (
          SELECT signal_key, lane, due, weight, freed, NULL::bigint AS woken_key, NULL::smallint AS old_weight FROM signal
          UNION ALL
          SELECT 0, lane, NOT suspect, NULL, 0, item_key, coalesce(weight, 1::smallint) FROM awake
          UNION ALL
          SELECT 0, lane, FALSE, NULL, 0, NULL, NULL FROM ${woken(definitionKey, 'more')} AS held
          UNION ALL
          SELECT 0, lane, FALSE, NULL, 0, NULL, NULL FROM ${woken(definitionKey, 'NOT more')} AS idle) AS new
        GROUP BY lane
      ), next AS MATERIALIZED (
        SELECT lim.*, change.*, row_id, coalesce(known.running, 0) - freed AS running_after,
          coalesce(known.more, FALSE) OR due AS more_after, coalesce(new_weight, known.weight, old_weight, 1) AS weight_after,
          ${arrival('coalesce(known.tat, 0)')} AS tat_after
        FROM lim CROSS JOIN change LEFT JOIN LATERAL (
          SELECT lane.ctid AS row_id, lane.* FROM ${lanes} AS lane
          WHERE lane.definition_key = ${definitionKey} AND lane.lane = changed_lane LIMIT 1) AS known ON TRUE
      ), state AS MATERIALIZED (
        SELECT row_id, changed_lane, vclock, weight_after AS weight, running, more, tat,
          ${state.ready} AS ready, ${state.wakeAt} AS wake_at, ${state.isIdle} AS is_idle
        FROM (SELECT row_id, changed_lane, vclock, now, now_us, key_limit, key_rate_us, key_tau, weight_after,
            running_after AS running, more_after AS more, tat_after AS tat FROM next) AS lane
      ), updated AS (
        UPDATE ${lanes} AS lane SET weight = state.weight, running = state.running, more = state.more,
          ready = state.ready, wake_at = state.wake_at, tat = state.tat
        FROM state WHERE lane.ctid = state.row_id AND NOT is_idle
      ), deleted AS (
        DELETE FROM ${lanes} WHERE ctid = ANY (ARRAY(SELECT row_id FROM state WHERE is_idle AND row_id IS NOT NULL))
      ), inserted AS (
        INSERT INTO ${lanes} (definition_key, lane, weight, running, vtime, more, ready, wake_at)
        SELECT ${definitionKey}, changed_lane, weight, running, vclock, more, ready, wake_at FROM state
        WHERE row_id IS NULL AND NOT is_idle
      )
      UPDATE ${schema}.limits SET running = running - coalesce((SELECT sum(freed) FROM change), 0)::int,
        signal_cursor = coalesce((SELECT max(skipped_lane) FROM skipped), signal_cursor)
      WHERE definition_key = ${definitionKey} AND ((SELECT sum(freed) FROM change) <> 0 OR ${isFull})`;
    },
  );
}

/**
 * Chooses lanes by virtual time and items within them, and claims the items. Reads one more item of each lane than it
 * may take, to know whether the lane has more. Claims nothing while stragglers are left: running ones are not counted
 * yet. A suspect is claimed alone. Stores a bounded `tat` of the shared rate even if it claims nothing. Otherwise, after the
 * clock was set back, the bound would move with the clock, and no token would come. FULL JOIN forces hash joins: rows without a
 * lane are ignored later.
 */
function limitedClaimStatement(schema: string) {
  const [items, lanes] = [`${schema}.worker_queue`, `${schema}.lanes`];
  const state = laneState({ more: 'more', running: 'running', tat: 'tat' });
  const unexpired = `(expires_at IS NULL OR expires_at > ${nowSql})`;
  return prepare(
    'perdure_claim_limited',
    {
      ...definition,
      lockMs: one<number>('bigint'),
      limit: one<number>('bigint'),
      suspects: one<boolean>('boolean'),
      taskKey: one<number>('int'),
      secret: one<string>('text'),
      taskSecret: one<string>('text'),
      worker: optional(one<string>('text')),
    },
    ({
      definitionKey,
      lockMs,
      limit,
      suspects,
      taskKey,
      secret,
      taskSecret,
      worker,
    }) => `WITH lim AS MATERIALIZED (
        SELECT lim.*, least(${limit}, CASE WHEN global_limit IS NULL THEN ${limit} ELSE greatest(global_limit - running, 0) END,
          CASE WHEN rate_us IS NULL OR rate_per_key THEN ${limit}
            ELSE ${startsLeft('start_tat', 'rate_us', 'rate_tau')} END) AS n
        FROM (SELECT lim.*, ${arrival('tat')} AS start_tat FROM (
            SELECT ${limitColumns} FROM ${schema}.limits AS one WHERE definition_key = ${definitionKey}) AS lim) AS lim
        WHERE NOT ${isPaused(schema, definitionKey)} AND (
          SELECT 1 FROM ${items} AS straggler WHERE straggler.definition_key = ANY (${countedKeys(schema, definitionKey)})
            AND lane IS NULL AND NOT cancel_requested LIMIT 1) IS NULL
      ), lane AS MATERIALIZED (
        SELECT lim.*, row_id, lane, weight, lane_running, greatest(lane_vtime, vclock) AS start_vtime,
          ${arrival('lane_tat')} AS lane_tat
        FROM lim CROSS JOIN LATERAL (
          SELECT ready.ctid AS row_id, ready.lane, ready.weight, ready.running AS lane_running, ready.vtime AS lane_vtime,
            ready.tat AS lane_tat
          FROM ${lanes} AS ready WHERE ready.definition_key = ${definitionKey} AND ready.ready
          ORDER BY ready.vtime, ready.lane LIMIT n) AS ready
      ), share AS MATERIALIZED (
        SELECT lane.*, least(n, CASE WHEN key_limit IS NULL THEN n ELSE greatest(key_limit - lane_running, 0) END,
          CASE WHEN key_rate_us IS NULL THEN n ELSE ${startsLeft('lane_tat', 'key_rate_us', 'key_tau')} END,
          ceil(n * weight::float8 / sum(weight) OVER ())::bigint) AS take
        FROM lane
      ), found AS MATERIALIZED (
        SELECT lane, take, item.*, start_vtime + (place - 1) * ${cost} AS tag
        FROM share CROSS JOIN LATERAL (
          SELECT item.item_row, item.due_at, row_number() OVER () AS place FROM (
            SELECT ctid AS item_row, next_at AS due_at FROM ${items} AS one
            WHERE one.limit_key = ${definitionKey} AND one.lane = share.lane AND ${inLane} AND ${unexpired}
            ORDER BY priority DESC, next_at, item_key LIMIT take + 1) AS item) AS item
      ), trusted AS MATERIALIZED (
        SELECT item_row, due_at, tag FROM found WHERE place <= take ORDER BY tag, lane LIMIT (SELECT n FROM lim)
      ), suspect AS MATERIALIZED (
        SELECT item.* FROM lim CROSS JOIN LATERAL (
          SELECT ctid AS item_row, lane AS suspect_lane, next_at AS due_at FROM ${items} AS one
          WHERE one.limit_key = ${definitionKey} AND ${suspectInLane} AND ${unexpired}
            AND ${laneHasRoom(schema, 'one.lane')}
          ORDER BY next_at, item_key LIMIT 1) AS item
        WHERE n > 0 AND ${suspects} AND (SELECT min(due_at) FROM trusted) - item.due_at <= ${maxSuspectWaitMs} IS NOT TRUE
      ), mine AS MATERIALIZED (
        SELECT ctid AS item_row FROM ${items}
        WHERE ctid = ANY (CASE WHEN (SELECT 1 FROM suspect) IS NULL THEN ARRAY(SELECT item_row FROM trusted)
            ELSE ARRAY(SELECT item_row FROM suspect) END)
          AND lock_token IS NULL AND NOT cancel_requested FOR UPDATE SKIP LOCKED
      ), ${claimText(schema, {
        which: 'ctid = ANY (ARRAY(SELECT item_row FROM mine))',
        taskKeys: `ARRAY[${taskKey}]`,
        secret,
        taskSecret,
        worker,
        now: nowSql,
        until: `${nowSql} + ${lockMs}`,
        more: `, placed AS (
        INSERT INTO ${schema}.places (item_key, definition_key, lane, until)
        SELECT item_key, ${definitionKey}, lane, locked_until FROM claimed
      ), counted AS MATERIALIZED (
        SELECT lane AS counted_lane, count(*)::int AS taken FROM claimed GROUP BY lane
      ), seen AS MATERIALIZED (
        SELECT lane AS seen_lane, count(*)::int AS seen FROM found GROUP BY lane
      ), touched AS MATERIALIZED (
        SELECT row_id, lane, weight, start_vtime, lane_running, lane_tat, coalesce(taken, 0) AS taken,
          coalesce(seen, 0) > CASE WHEN (SELECT 1 FROM suspect) IS NULL THEN coalesce(taken, 0) ELSE 0 END AS more
        FROM share FULL JOIN counted ON counted_lane = lane FULL JOIN seen ON seen_lane = lane
        UNION ALL
        SELECT row_id, suspect_lane, coalesce(weight, 1), greatest(vtime, vclock), coalesce(known.running, 0),
          ${arrival('coalesce(known.tat, 0)')}, taken, coalesce(more, FALSE)
        FROM suspect CROSS JOIN lim CROSS JOIN LATERAL (
          SELECT taken FROM counted WHERE counted_lane = suspect_lane LIMIT 1) AS counted LEFT JOIN LATERAL (
          SELECT ctid AS row_id, weight, vtime, running, tat, more FROM ${lanes} AS lane
          WHERE lane.definition_key = ${definitionKey} AND lane.lane = suspect_lane LIMIT 1) AS known ON TRUE
        WHERE suspect_lane <> ALL (ARRAY(SELECT lane FROM share))
      ), state AS MATERIALIZED (
        SELECT row_id, lane, weight, vtime, running, tat, more, ${state.ready} AS ready, ${state.wakeAt} AS wake_at
        FROM (SELECT now, now_us, key_limit, key_rate_us, key_tau, row_id, lane, weight, more,
            lane_running + taken AS running, lane_tat + taken * coalesce(key_rate_us, 0) AS tat,
            start_vtime + taken * ${cost} AS vtime
          FROM touched CROSS JOIN lim) AS lane
      ), updated AS (
        UPDATE ${lanes} AS lane SET running = state.running, vtime = state.vtime, tat = state.tat, more = state.more,
          ready = state.ready, wake_at = state.wake_at
        FROM state WHERE lane.ctid = state.row_id
      ), inserted AS (
        INSERT INTO ${lanes} (definition_key, lane, weight, running, vtime, tat, more, ready, wake_at)
        SELECT ${definitionKey}, lane, weight, running, vtime, tat, more, ready, wake_at FROM state
        WHERE row_id IS NULL AND lane IS NOT NULL
      ), total AS (
        UPDATE ${schema}.limits AS lim SET running = lim.running + taken.starts,
          tat = CASE WHEN lim.rate_us IS NULL OR lim.rate_per_key THEN lim.tat ELSE start_tat + taken.starts * lim.rate_us END,
          vclock = greatest(lim.vclock, CASE WHEN (SELECT 1 FROM suspect) IS NULL THEN (SELECT max(tag) FROM trusted)
            ELSE (SELECT max(start_vtime) FROM touched WHERE taken > 0) END)
        FROM (SELECT count(*)::int AS starts, (SELECT start_tat FROM lim) AS start_tat FROM claimed) AS taken
        WHERE definition_key = ${definitionKey} AND (taken.starts > 0
          OR lim.rate_us IS NOT NULL AND NOT lim.rate_per_key AND lim.tat > taken.start_tat)
      )`,
      })}`,
  );
}

/** Reads when the next claim of the definition can find something. */
function nextStatement(schema: string) {
  return prepare(
    'perdure_next_of_limits',
    definition,
    ({
      definitionKey,
    }) => `SELECT now, global_limit IS NOT NULL OR key_limit IS NOT NULL AS "hasPlaces", rate_us IS NOT NULL AS "hasRate",
        CASE WHEN NOT ${isPaused(schema, definitionKey)} THEN ${nextDueText(schema)} END AS "nextAt"
      FROM (SELECT ${limitColumns} FROM ${schema}.limits AS one WHERE definition_key = ${definitionKey}) AS lim`,
  );
}
