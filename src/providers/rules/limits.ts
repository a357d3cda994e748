import { PerdureError } from '../../model/failures/errors.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { HoldingLimit, Lane, LimitOverride, Limits, RateLimit } from '../contract/limits.ts';

/*
 * A definition is limited if it has a row in `limits`. Its items wait in lanes: one per key, and one for items without a
 * key. A claim gives an item a place, which is counted in its lane and its definition.
 *
 * L1.  An unflagged item of a lane with a valid token has exactly one place.
 * L2.  `running` of a lane is the number of places of its items. PostgreSQL: plus freed places that are not yet drained.
 * L3.  `running` of a definition is the sum of its lanes.
 * L4.  The transaction that deletes a place does the accounting.
 * L5.  An item of a lane is claimed only while it has no place. The place of an expired lease is revoked first, with
 *      its token.
 * L6.  An item that is due, trusted and has no place implies that `more` of its lane is set, its `wake_at` has come, or a
 *      signal waits. PostgreSQL, before the first claim or limit of a store: a signal of its definition waits.
 * L7.  `ready` of a lane may be too true, never too false.
 * L8.  An enqueue locks no shared row (PostgreSQL). Exception: the first run with a key of a definition inserts the row of
 *      that definition. Until it commits, other transactions with a first key of the definition wait for it.
 * L9.  Lanes change only under the row of their definition. SQLite: there is one writer.
 * L10. Items and limits are read after that row is locked, in a later snapshot.
 * L11. The time that moves or bounds the account of a rate is read after that row is locked, so it never precedes the last
 *      claim. A bound by an earlier time would give tokens back.
 */

/** Maximum of a limit, of a rate and of a burst. */
const maxLimit = 1_000_000;
/** Maximum period of a rate: 31 days. */
const maxPeriodMs = 2_678_400_000;
/** Maximum length of a key, in characters. */
const maxKeyLength = 255;
/** Maximum weight of a lane. */
const maxWeight = 100;
/** Declarations that are kept per definition, for their rank. The build of a deleted one would count as the newest. */
export const keptDeclarations = 1_000;
/** The newest declarations of a definition that are compared with those of a build that declares limits. */
export const comparedDeclarations = 10;

// One item of a lane with weight 1. Divisible by many weights, so that shares stay exact.
const quantum = 720_720;
// 366 days in microseconds: sums of times stay exact integers.
const maxToleranceUs = 31_622_400_000_000;

/** Throws `INVALID_OPTION` unless all figures are in range. */
export function checkLimits(limits: Limits | LimitOverride): void {
  const { global, perKey, rate } = limits;
  if (global != null) checkInteger('global', global, 1, maxLimit);
  if (perKey != null) checkInteger('perKey', perKey, 1, maxLimit);
  if (rate == null) return;
  checkInteger('rate.limit', rate.limit, 1, maxLimit);
  checkInteger('rate.perMs', rate.perMs, 1, maxPeriodMs);
  checkInteger('rate.burst', rate.burst, 0, maxLimit);
  const { toleranceUs } = gcraOf(rate);
  if (toleranceUs <= maxToleranceUs) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid \`rate.burst\` ${rate.burst}: \`burst\` runs must fit into 366 days at ${rate.limit} per ${rate.perMs} ms.`,
  );
}

/** Whether the key and the weight of a run are valid. */
export function isValidLane({ key, weight }: Lane): boolean {
  return (
    typeof key === 'string' &&
    key !== '' &&
    key.length <= maxKeyLength &&
    Number.isInteger(weight) &&
    weight >= 1 &&
    weight <= maxWeight
  );
}

/** Throws `INVALID_OPTION` unless the key and the weight of a run are valid. */
export function checkLane({ key, weight }: Lane): void {
  if (typeof key !== 'string' || key === '' || key.length > maxKeyLength) {
    const shown = JSON.stringify(typeof key === 'string' ? key.slice(0, 50) : key);
    throw new PerdureError(
      'INVALID_OPTION',
      `Invalid \`key\` ${shown}: must be a string of 1 to ${maxKeyLength} characters.`,
    );
  }
  checkInteger('weight', weight, 1, maxWeight);
}

function checkInteger(name: string, value: number, min: number, max: number): void {
  if (Number.isInteger(value) && value >= min && value <= max) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid \`${name}\` ${JSON.stringify(value) ?? 'undefined'}: must be an integer from ${min} to ${max}.`,
  );
}

/** The limits that hold: each figure of the operator replaces the declared one. */
export function mergeLimits(declared: Limits, override: LimitOverride | null): Limits {
  const pick = <T>(own: T | null | undefined, other: T | undefined): T | undefined =>
    own === undefined ? other : (own ?? undefined);
  const global = pick(override?.global, declared.global);
  const perKey = pick(override?.perKey, declared.perKey);
  const rate = pick(override?.rate, declared.rate);
  return {
    ...(global !== undefined && { global }),
    ...(perKey !== undefined && { perKey }),
    ...(rate !== undefined && { rate: rateOf(rate) }),
  };
}

/** Adds figures to those that an operator set before. `null` deletes all. */
export function mergeOverride(
  before: LimitOverride | null,
  change: LimitOverride | null,
): LimitOverride | null {
  if (change === null) return null;
  const { global = before?.global, perKey = before?.perKey, rate = before?.rate } = change;
  const merged = {
    ...(global !== undefined && { global }),
    ...(perKey !== undefined && { perKey }),
    ...(rate !== undefined && { rate: rate === null ? null : rateOf(rate) }),
  };
  return Object.keys(merged).length === 0 ? null : merged;
}

// In a fixed order without other properties, so that equal rates have equal JSON text.
function rateOf({ limit, perMs, burst, perKey }: RateLimit): RateLimit {
  return { limit, perMs, burst, perKey };
}

/** The JSON text of limits. Equal limits have equal texts. */
export function limitsText(limits: Limits): string {
  return JSON.stringify(mergeLimits(limits, null));
}

/** A declaration of one build. */
export interface Declaration {
  readonly buildId: string;
  /** When the build first declared limits of the definition. */
  readonly firstAt: number;
  readonly limits: Limits;
}

/**
 * The declaration that counts: of the build that declared the definition first at the latest time. So an older build that
 * restarts does not win back. Pass the declarations in the order of their first storing, newest first.
 */
export function chooseDeclaration(newestFirst: readonly Declaration[]): {
  readonly chosen: Declaration | undefined;
  readonly contradictions: readonly Declaration[];
} {
  const [chosen, ...others] = newestFirst;
  if (chosen === undefined) return { chosen, contradictions: [] };
  const text = limitsText(chosen.limits);
  return {
    chosen,
    contradictions: others.filter(({ limits }) => limitsText(limits) !== text),
  };
}

/** A rate as GCRA counts it, in microseconds. */
export interface Gcra {
  /** Time of one token: the period divided by the limit, rounded up. */
  readonly intervalUs: number;
  /** How far the theoretical arrival time may be ahead. */
  readonly toleranceUs: number;
}

/** Converts a rate. */
export function gcraOf({ limit, perMs, burst }: RateLimit): Gcra {
  const intervalUs = Math.ceil((perMs * 1_000) / limit);
  return { intervalUs, toleranceUs: burst * intervalUs };
}

/**
 * The latest theoretical arrival time (`tat`) that claims leave: that of a rate without tokens. A store must bound the
 * times to it when it changes a rate, also those of lanes without items. A bound at the next claim is too late: the new
 * rate would count only from there.
 */
export function latestTat({ intervalUs, toleranceUs }: Gcra, nowMs: number): number {
  return nowMs * 1_000 + toleranceUs + intervalUs;
}

/** The theoretical arrival time, bounded. A later time comes from a clock that was set back, and would stop the definition. */
function boundedTat(gcra: Gcra, tatUs: number, nowMs: number): number {
  return Math.min(Math.max(tatUs, nowMs * 1_000), latestTat(gcra, nowMs));
}

/**
 * Whether the theoretical arrival time is later than any claim leaves it. A claim must then store a bounded one, which
 * `takeTokens` returns for no tokens: otherwise the bound moves with the clock, and the next token never comes.
 */
export function isTatAhead(gcra: Gcra, tatUs: number, nowMs: number): boolean {
  return tatUs > latestTat(gcra, nowMs);
}

/** How many tokens are available now. */
export function tokensAt(gcra: Gcra, tatUs: number, nowMs: number): number {
  const left = nowMs * 1_000 + gcra.toleranceUs - boundedTat(gcra, tatUs, nowMs);
  return left < 0 ? 0 : Math.floor(left / gcra.intervalUs) + 1;
}

/** The theoretical arrival time after `count` tokens were taken. */
export function takeTokens(gcra: Gcra, tatUs: number, nowMs: number, count: number): number {
  return boundedTat(gcra, tatUs, nowMs) + count * gcra.intervalUs;
}

/** When a token is available, in milliseconds: now, or later. */
export function nextTokenAt(gcra: Gcra, tatUs: number, nowMs: number): number {
  const at = boundedTat(gcra, tatUs, nowMs) - gcra.toleranceUs;
  return Math.max(nowMs, Math.ceil(at / 1_000));
}

/** The rate that all keys share, or that each key has. */
export function ratesOf({ rate }: Limits): {
  readonly shared: Gcra | undefined;
  readonly own: Gcra | undefined;
} {
  if (rate === undefined) return { shared: undefined, own: undefined };
  const gcra = gcraOf(rate);
  return rate.perKey ? { shared: undefined, own: gcra } : { shared: gcra, own: undefined };
}

/** How many items of a definition can be claimed now, at most `max`. */
export function allowance(
  { global, gcra }: { readonly global: number | undefined; readonly gcra: Gcra | undefined },
  { running, tatUs }: { readonly running: number; readonly tatUs: number },
  { nowMs, max }: { readonly nowMs: number; readonly max: number },
): number {
  const places = global === undefined ? max : Math.max(global - running, 0);
  const tokens = gcra === undefined ? max : tokensAt(gcra, tatUs, nowMs);
  return Math.min(max, places, tokens);
}

/** The virtual time that one item of a lane takes. */
export function virtualCost(weight: number): number {
  return Math.ceil(quantum / weight);
}

/** A lane as the fair choice needs it. */
export interface FairLane {
  readonly weight: number;
  /** Virtual time of its next item. */
  readonly vtime: number;
  /** Its free places and tokens. */
  readonly allowance: number;
}

/** What the fair choice takes of one lane. */
export interface FairShare<L> {
  readonly lane: L;
  readonly taken: number;
  /** The virtual time of its next item. */
  readonly vtime: number;
  /** Whether it has no other item that is due. */
  readonly isEmpty: boolean;
}

/**
 * Chooses items by start-time fair queueing: each time from the lane with the smallest virtual time. A lane begins at the
 * clock of its definition, so a new lane does not catch up on the past. A lane with twice the weight gets two items for
 * one of another. While two lanes have items and allowance, the service of each divided by its weight differs by at most
 * one item of each.
 *
 * `take` claims the next item of a lane, and returns `false` if it has none. Lanes with equal times are chosen in the given
 * order.
 *
 * `hasOthers`: only the lanes with the smallest virtual times were read. The choice then ends before a lane gets ahead of
 * those that were not read. Lanes that turn out to be empty must not give their turns to the read ones alone.
 */
export function chooseFairly<L extends FairLane>(options: {
  readonly lanes: readonly L[];
  readonly max: number;
  readonly vclock: number;
  readonly hasOthers?: boolean;
  readonly take: (lane: L) => boolean;
}): { readonly shares: readonly FairShare<L>[]; readonly taken: number; readonly vclock: number } {
  const { max, take } = options;
  let { vclock } = options;
  const heap = new LaneHeap<L>();
  const seen: Turn<L>[] = options.lanes.map((lane, order) => {
    const turn = { lane, order, taken: 0, vtime: Math.max(lane.vtime, vclock), isEmpty: false };
    if (lane.allowance > 0) heap.push(turn);
    return turn;
  });
  const lastVtime = seen.at(-1)?.vtime ?? Infinity;
  const horizon = options.hasOthers === true ? lastVtime : Infinity;
  let taken = 0;
  while (taken < max) {
    const turn = heap.pop();
    if (turn === undefined || turn.vtime > horizon) break;
    if (!take(turn.lane)) {
      turn.isEmpty = true;
      continue;
    }
    vclock = Math.max(vclock, turn.vtime);
    turn.vtime += virtualCost(turn.lane.weight);
    turn.taken += 1;
    taken += 1;
    if (turn.taken < turn.lane.allowance) heap.push(turn);
  }
  const shares = seen.map(({ lane, taken: own, vtime, isEmpty }) => ({
    lane,
    taken: own,
    vtime,
    isEmpty,
  }));
  return { shares, taken, vclock };
}

interface Turn<L> {
  readonly lane: L;
  readonly order: number;
  taken: number;
  vtime: number;
  isEmpty: boolean;
}

/** A binary heap: a claim may read hundreds of lanes. */
class LaneHeap<L> {
  readonly #turns: Turn<L>[] = [];

  push(turn: Turn<L>): void {
    const turns = this.#turns;
    let at = turns.push(turn) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#swapIfLess(at, parent)) break;
      at = parent;
    }
  }

  pop(): Turn<L> | undefined {
    const turns = this.#turns;
    const [first] = turns;
    const last = turns.pop();
    if (first === undefined || last === undefined || turns.length === 0) return first;
    turns[0] = last;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const least = isLess(turns[left + 1], turns[left]) ? left + 1 : left;
      if (least >= turns.length || !this.#swapIfLess(least, at)) return first;
      at = least;
    }
  }

  #swapIfLess(one: number, other: number): boolean {
    const [a, b] = [this.#turns[one], this.#turns[other]];
    if (a === undefined || b === undefined || !isLess(a, b)) return false;
    this.#turns[one] = b;
    this.#turns[other] = a;
    return true;
  }
}

function isLess<L>(a: Turn<L> | undefined, b: Turn<L> | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  return a.vtime < b.vtime || (a.vtime === b.vtime && a.order < b.order);
}

/**
 * Whether a due instance of a limited orchestration waits for a place if it has none. A running one has none after it was
 * retried, replaced or forked. A canceling one begins in any case: its clean-up must run before its time limit.
 */
export function waitsForPlace(status: InstanceStatus): boolean {
  return status === 'pending' || status === 'running';
}

/** The limit that keeps due items of a lane from being claimed, or `null`. */
export function holdingLimit(
  limits: Limits,
  definition: { readonly running: number; readonly tatUs: number },
  lane: { readonly running: number; readonly tatUs: number },
  nowMs: number,
): { readonly limit: HoldingLimit; readonly max: number; readonly nextAt: number | null } | null {
  const { global, perKey, rate } = limits;
  if (perKey !== undefined && lane.running >= perKey) {
    return { limit: 'perKey', max: perKey, nextAt: null };
  }
  if (global !== undefined && definition.running >= global) {
    return { limit: 'global', max: global, nextAt: null };
  }
  if (rate === undefined) return null;
  const gcra = gcraOf(rate);
  const { tatUs } = rate.perKey ? lane : definition;
  if (tokensAt(gcra, tatUs, nowMs) > 0) return null;
  return { limit: 'rate', max: rate.limit, nextAt: nextTokenAt(gcra, tatUs, nowMs) };
}

/**
 * How many of `max` items a claim takes from limited definitions, with `plain` due items of unlimited ones. Neither
 * starves the other: each gets half, and what the other does not use. `plainFirst` alternates for an odd `max`.
 */
export function limitedShare(max: number, plain: number, plainFirst: boolean): number {
  const half = plainFirst ? Math.ceil(max / 2) : Math.floor(max / 2);
  return max - Math.min(plain, half);
}
