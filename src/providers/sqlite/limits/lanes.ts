import type { Lane, Limits } from '../../contract/limits.ts';
import {
  allowance,
  checkLane,
  chooseFairly,
  isTatAhead,
  limitedShare,
  nextTokenAt,
  ratesOf,
  takeTokens,
  tokensAt,
  virtualCost,
  type FairLane,
  type Gcra,
} from '../../rules/limits.ts';
import type { Secrets } from '../../shared/lock-token.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { LaneItem, LaneRows, ReadyLane } from './lane-rows.ts';
import type { LimitRow, LimitRows } from './limit-rows.ts';

/** An item of a lane that a claim takes. */
export interface ChosenItem {
  readonly itemKey: number;
  readonly definitionKey: number;
  /** The definition whose limits count it. */
  readonly limitKey: number;
  readonly nextAt: number;
  readonly isExpired: boolean;
  /** Whether its definition has limits, and not only keys. */
  readonly isLimited: boolean;
}

/** How the items that a claim chooses are claimed or ended. */
interface ClaimSteps {
  /** Claims an item, or ends an expired run. */
  readonly claim: (item: ChosenItem) => void;
  /** How many expired runs this claim may still end. */
  readonly expired: { left: number };
}

// Bounds the time of one claim.
const maxLapsed = 500;
const maxExpired = 500;
const maxWoken = 1_000;
const maxConverted = 5_000;
const maxSuspects = 1_000;
const minPruned = 50;
const maxRounds = 10;
const aboveAll = 101;

/**
 * Claims items of limited definitions: see L1 to L7 in `providers/rules/limits.ts`.
 *
 * A claim first corrects what time has changed: leases that expired, lanes whose delay or rate has passed. Then it takes
 * lanes by virtual time. Its cost depends on the lanes and items that it takes, not on those that wait.
 */
export class Lanes {
  readonly #limits: LimitRows;
  readonly #lanes: LaneRows;
  readonly #secrets: Secrets;
  /** Alternates which side gets the odd item of a claim. */
  #plainFirst = false;

  constructor(parts: {
    readonly limitRows: LimitRows;
    readonly laneRows: LaneRows;
    readonly secrets: Secrets;
  }) {
    this.#limits = parts.limitRows;
    this.#lanes = parts.laneRows;
    this.#secrets = parts.secrets;
  }

  /** Whether a definition is limited. */
  isLimited(scope: Scope, definitionKey: number): boolean {
    return this.#limits.isLimited(scope, definitionKey);
  }

  /** Whether any definition is limited. */
  isAnyLimited(scope: Scope): boolean {
    return this.#limits.isAny(scope);
  }

  /** Records a new item. Returns its lane, or `null` if the definition that counts it is not limited. */
  enqueue(
    scope: Scope,
    item: {
      readonly limitKey: number;
      readonly lane: Lane | undefined;
      readonly nextAt: number;
    },
  ): string | null {
    const { limitKey: definitionKey, lane, nextAt } = item;
    if (lane !== undefined) {
      checkLane(lane);
      if (!this.#limits.isLimited(scope, definitionKey)) this.#limits.ensure(definitionKey);
    } else if (!this.#limits.isLimited(scope, definitionKey)) return null;
    const { key, weight } = lane ?? { key: '', weight: null };
    if (nextAt <= scope.now) this.#lanes.touch(definitionKey, key, weight);
    else this.#lanes.delay(definitionKey, key, weight, nextAt);
    return key;
  }

  /** How many items a claim takes from lanes, if `plain` items of unlimited definitions are due. */
  shareOf(max: number, plain: number): number {
    this.#plainFirst = !this.#plainFirst;
    return limitedShare(max, plain, this.#plainFirst);
  }

  /** Makes the places of expired leases free, with tokens that no worker has. */
  sweep({ now }: Scope): void {
    for (const { itemKey } of this.#lanes.lapsed(now, maxLapsed)) {
      this.#lanes.revoke(itemKey, this.#secrets.next());
    }
  }

  /** When an item of these definitions can be claimed. A past time means now; it may be too early. */
  nextAt(definitionKeys: readonly number[], now: number): number {
    // A place may become free when a lease expires.
    let first = this.#lanes.firstLapse();
    for (const definitionKey of definitionKeys) {
      if (first <= now) return first;
      first = Math.min(first, this.#nextAtOf(definitionKey, now));
    }
    return first;
  }

  #nextAtOf(definitionKey: number, now: number): number {
    const row = this.#limits.get(definitionKey);
    if (row === undefined) return Infinity;
    if (row.convertFrom !== null) return Number.NEGATIVE_INFINITY;
    const { shared, own } = ratesOf(row.limits);
    if (row.limits.global !== undefined && row.running >= row.limits.global) return Infinity;
    if (shared !== undefined && isTatAhead(shared, row.tatUs, now)) return now;
    const tokenAt = shared === undefined ? 0 : nextTokenAt(shared, row.tatUs, now);
    if (this.#lanes.hasReady(definitionKey)) return tokenAt;
    let first = this.#lanes.nextWake(definitionKey);
    for (const suspect of this.#lanes.suspects(definitionKey, maxSuspects)) {
      if (row.limits.perKey !== undefined && suspect.running >= row.limits.perKey) continue;
      const ownAt = own === undefined ? 0 : nextTokenAt(own, suspect.tatUs, now);
      first = Math.min(first, Math.max(suspect.nextAt, ownAt));
    }
    return Math.max(first, tokenAt);
  }

  /**
   * Claims trusted items of these definitions, at most `max`, divided among the definitions. `claim` claims one item: it
   * must set its place. Returns how many were claimed. It ends a bounded number of expired runs: their lane stays ready for
   * the next claim.
   */
  claim(
    scope: Scope,
    definitionKeys: readonly number[],
    max: number,
    claim: (item: ChosenItem) => void,
  ): number {
    let claimed = 0;
    const expired = { left: maxExpired };
    let open = definitionKeys.filter((definitionKey) => this.#prepare(scope, definitionKey));
    // Another round gives each definition what others do not use.
    while (open.length > 0 && claimed < max) {
      const still: number[] = [];
      for (const [index, definitionKey] of open.entries()) {
        const share = Math.ceil((max - claimed) / (open.length - index));
        if (share === 0) break;
        const count = this.#claimFrom(scope, definitionKey, share, { claim, expired });
        claimed += count;
        if (count === share) still.push(definitionKey);
      }
      open = still;
    }
    return claimed;
  }

  /** The suspect item of these definitions that is due longest and has a place. */
  dueSuspect({ now }: Scope, definitionKeys: readonly number[]): ChosenItem | undefined {
    let first: ChosenItem | undefined;
    for (const definitionKey of definitionKeys) {
      const row = this.#limits.get(definitionKey);
      if (row === undefined || row.convertFrom !== null || allowanceOf(row, now, 1) === 0) continue;
      const suspect = this.#lanes
        .suspects(definitionKey, maxSuspects)
        .find((one) => one.nextAt <= now && laneAllowance(row.limits, one, now) > 0);
      if (suspect === undefined || (first !== undefined && first.nextAt <= suspect.nextAt))
        continue;
      first = toChosen(row, suspect, now);
    }
    return first;
  }

  /** Counts the claim of a suspect. Call it before the claim. */
  claimSuspect(scope: Scope, { limitKey: definitionKey, itemKey }: ChosenItem): void {
    const { now } = scope;
    const row = this.#limits.get(definitionKey);
    const suspect = this.#lanes
      .suspects(definitionKey, maxSuspects)
      .find((one) => one.itemKey === itemKey);
    if (row === undefined || suspect === undefined) return;
    // Its lane may have been pruned.
    this.#lanes.touch(definitionKey, suspect.lane, null);
    const { own } = ratesOf(row.limits);
    const start = Math.max(suspect.vtime, row.vclock);
    this.#lanes.update(definitionKey, suspect.lane, {
      count: 1,
      vtime: start + virtualCost(suspect.weight),
      tatUs: own === undefined ? suspect.tatUs : takeTokens(own, suspect.tatUs, now, 1),
      // Too true: the next claim corrects it.
      more: true,
      ready: true,
      wakeAt: null,
    });
    this.#countClaims(row, { count: 1, vclock: start, now });
  }

  /** Corrects what time has changed. Returns whether items can be claimed. */
  #prepare(scope: Scope, definitionKey: number): boolean {
    const { now } = scope;
    const row = this.#limits.get(definitionKey);
    if (row === undefined) return false;
    this.#lanes.wake(definitionKey, now, maxWoken);
    const { shared } = ratesOf(row.limits);
    if (shared !== undefined && isTatAhead(shared, row.tatUs, now)) {
      this.#countClaims(row, { count: 0, vclock: row.vclock, now });
    }
    // Before the end of the conversion, running items may not be counted.
    return row.convertFrom === null || this.#convert(scope, row, row.convertFrom);
  }

  /** Gives lanes to items that were queued before the definition was limited. Returns whether all have one. */
  #convert(scope: Scope, { definitionKey, convertTo }: LimitRow, from: number): boolean {
    const to = convertTo ?? from;
    const { next, places } = this.#lanes.convert(definitionKey, from, to, maxConverted);
    this.#limits.converted(definitionKey, next, places);
    // The leases of some may have expired before: without places they keep their order among the others.
    if (places > 0) this.sweep(scope);
    return next === null;
  }

  /** Claims items of one definition. */
  #claimFrom(
    { now }: Scope,
    definitionKey: number,
    max: number,
    { claim, expired }: ClaimSteps,
  ): number {
    let claimed = 0;
    for (let round = 0; round < maxRounds; round++) {
      const row = this.#limits.get(definitionKey);
      const allowed = row === undefined ? 0 : allowanceOf(row, now, max - claimed);
      if (row === undefined || allowed === 0) break;
      const ready = this.#lanes.ready(definitionKey, allowed);
      if (ready.length === 0) break;
      const taken = this.#claimRound(row, { ready, allowed, now, claim, expired });
      claimed += taken;
      // Lanes that had nothing are not ready any more, and those that had have a later time: the next round reads others.
      if (taken === allowed || ready.length < allowed || expired.left === 0) break;
    }
    this.#lanes.prune(definitionKey, now, minPruned + 2 * claimed);
    return claimed;
  }

  #claimRound(
    row: LimitRow,
    {
      ready,
      allowed,
      now,
      claim,
      expired,
    }: ClaimSteps & {
      readonly ready: readonly ReadyLane[];
      readonly allowed: number;
      readonly now: number;
    },
  ): number {
    const { definitionKey, limits } = row;
    const batch = Math.ceil((2 * allowed) / ready.length);
    const lanes = ready.map((lane) => {
      const own = Math.min(laneAllowance(limits, lane, now), allowed);
      return new LaneCursor({ rows: this.#lanes, definitionKey, lane, allowance: own, batch, now });
    });
    const { shares, taken, vclock } = chooseFairly({
      lanes,
      max: allowed,
      vclock: row.vclock,
      hasOthers: ready.length === allowed,
      take: (lane) => {
        // An expired run ends without a place.
        for (let item = lane.peek(); item !== undefined; item = lane.peek()) {
          const chosen = toChosen(row, item, now);
          if (chosen.isExpired && expired.left === 0) return false;
          lane.skip();
          claim(chosen);
          if (!chosen.isExpired) return true;
          expired.left -= 1;
        }
        return false;
      },
    });
    for (const { lane, taken: count, vtime, isEmpty } of shares) {
      // The maximum was reached before its turn.
      if (count === 0 && !isEmpty && lane.allowance > 0) continue;
      this.#lanes.update(definitionKey, lane.row.lane, lane.after(limits, count, vtime));
    }
    // If no other lane is ready, the clock passes all of them: lanes of an idle definition owe nothing.
    const isIdle = taken > 0 && !this.#lanes.hasReady(definitionKey);
    const idleClock = Math.max(vclock, ...shares.map(({ vtime }) => vtime));
    this.#countClaims(row, { count: taken, vclock: isIdle ? idleClock : vclock, now });
    return taken;
  }

  #countClaims(
    row: LimitRow,
    {
      count,
      vclock,
      now,
    }: { readonly count: number; readonly vclock: number; readonly now: number },
  ): void {
    const { shared } = ratesOf(row.limits);
    const tatUs = shared === undefined ? row.tatUs : takeTokens(shared, row.tatUs, now, count);
    this.#limits.claimed(row.definitionKey, { count, tatUs, vclock });
  }
}

/** How many items of a definition can be claimed now, at most `max`. */
function allowanceOf({ limits, running, tatUs }: LimitRow, nowMs: number, max: number): number {
  const gcra = ratesOf(limits).shared;
  return allowance({ global: limits.global, gcra }, { running, tatUs }, { nowMs, max });
}

/** How many items of a lane can be claimed now. */
function laneAllowance(limits: Limits, { running, tatUs }: ReadyLane, nowMs: number): number {
  const gcra = ratesOf(limits).own;
  return allowance(
    { global: limits.perKey, gcra },
    { running, tatUs },
    { nowMs, max: Number.MAX_SAFE_INTEGER },
  );
}

function toChosen(row: LimitRow, item: LaneItem, now: number): ChosenItem {
  const { itemKey, definitionKey, nextAt, expiresAt } = item;
  const { global, perKey, rate } = row.limits;
  return {
    itemKey,
    definitionKey,
    limitKey: row.definitionKey,
    nextAt,
    isExpired: expiresAt !== null && expiresAt <= now,
    isLimited: global !== undefined || perKey !== undefined || rate !== undefined,
  };
}

/** Reads the due items of a lane in batches. */
class LaneCursor implements FairLane {
  readonly row: ReadyLane;
  readonly allowance: number;
  readonly weight: number;
  readonly vtime: number;
  readonly #rows: LaneRows;
  readonly #definitionKey: number;
  readonly #batch: number;
  readonly #now: number;
  #items: readonly LaneItem[] = [];
  #at = 0;
  #below = aboveAll;
  /** When the first item is due that is not due now. */
  #wakeAt = Infinity;
  #isEnd = false;
  #taken = 0;

  constructor(options: {
    readonly rows: LaneRows;
    readonly definitionKey: number;
    readonly lane: ReadyLane;
    readonly allowance: number;
    readonly batch: number;
    readonly now: number;
  }) {
    this.row = options.lane;
    this.allowance = options.allowance;
    this.weight = options.lane.weight;
    this.vtime = options.lane.vtime;
    this.#rows = options.rows;
    this.#definitionKey = options.definitionKey;
    // One more, to know whether the lane has others.
    this.#batch = Math.min(options.batch, options.allowance) + 1;
    this.#now = options.now;
  }

  /** Passes the item that `peek` has returned. It must be claimed or deleted before the next call of `peek`. */
  skip(): void {
    this.#at += 1;
    this.#taken += 1;
  }

  /** The state of the lane after `count` of its items were claimed. */
  after(limits: Limits, count: number, vtime: number) {
    const { tatUs: before, running } = this.row;
    const { own } = ratesOf(limits);
    const tatUs = own === undefined ? before : takeTokens(own, before, this.#now, count);
    const hasPlace = limits.perKey === undefined || running + count < limits.perKey;
    const hasToken = own === undefined || tokensAt(own, tatUs, this.#now) > 0;
    // A lane without allowance was not read.
    const more = this.allowance <= 0 || this.peek() !== undefined;
    const ready = more && hasPlace && hasToken;
    return {
      count,
      vtime,
      tatUs,
      more,
      ready,
      wakeAt: this.#wakeAfter(own, tatUs, { more, hasToken }),
    };
  }

  #wakeAfter(
    own: Gcra | undefined,
    tatUs: number,
    { more, hasToken }: { readonly more: boolean; readonly hasToken: boolean },
  ): number | null {
    if (!more) return this.#wakeAt === Infinity ? null : this.#wakeAt;
    return hasToken || own === undefined ? null : nextTokenAt(own, tatUs, this.#now);
  }

  /** The next due item. */
  peek(): LaneItem | undefined {
    for (;;) {
      const item = this.#items[this.#at];
      if (item === undefined) {
        if (this.#isEnd) return undefined;
        this.#read();
      } else if (item.nextAt <= this.#now) return item;
      else {
        // All others of its priority are due later.
        this.#wakeAt = Math.min(this.#wakeAt, item.nextAt);
        this.#below = item.priority;
        while (this.#items[this.#at]?.priority === item.priority) this.#at += 1;
      }
    }
  }

  /** Reads the next batch. Items that were returned have been claimed or deleted, so they are not read again. */
  #read(): void {
    const batch = this.#taken === 0 ? this.#batch : Math.max(this.#batch, this.#taken);
    this.#items = this.#rows.items(this.#definitionKey, this.row.lane, this.#below, batch);
    this.#at = 0;
    this.#isEnd = this.#items.length < batch;
  }
}
