import assert from 'node:assert/strict';
import type { Limits, RateLimit } from '../../src/providers/contract/limits.ts';
import type { WorkItem } from '../../src/providers/contract/work-queue.ts';

/** The state of a run in the reference scheduler. */
export interface Run {
  readonly id: string;
  readonly task: string;
  readonly key: string;
  readonly priority: number;
  /** The order of creation. */
  readonly order: number;
  dueAt: number;
  /** It was due before the clock was set back. A store may claim it, or wait until it is due again. */
  wasDue: boolean;
  expiresAt: number | null;
  claims: number;
  paused: boolean;
  flagged: boolean;
  /** The claim that is valid until its lease expires. */
  held: { readonly token: string; until: number } | null;
}

interface Counted {
  readonly limits: Limits;
  readonly changedAt: number;
  /** Admissions since the last change of limits or of the clock. */
  readonly admissions: { readonly at: number; readonly key: string }[];
  /** Used time of the rate, in microseconds: of the definition, or of each key. */
  readonly debts: Map<string, number>;
  debtsAt: number;
}

/** Served items of two keys since both have been claimable without a break. */
interface Pair {
  readonly served: [number, number];
}

/**
 * A scheduler that is written from the semantics, without lanes and counters. It does not choose: it checks each choice
 * of a store.
 */
export class ReferenceScheduler {
  readonly runs = new Map<string, Run>();
  readonly #limits = new Map<string, Counted>();
  readonly #weights = new Map<string, number>();
  readonly #leastWeights = new Map<string, number>();
  readonly #pairs = new Map<string, Pair>();
  #created = 0;
  #wasSetBack = false;

  /** The limits of a task. A task without an entry is not limited. */
  setLimits(task: string, limits: Limits, now: number): void {
    const before = this.#limits.get(task);
    const isSame =
      JSON.stringify(before?.limits.rate) === JSON.stringify(limits.rate) && before !== undefined;
    const counted = {
      limits,
      changedAt: now,
      admissions: isSame ? before.admissions : [],
      debts: before?.debts ?? new Map<string, number>(),
      debtsAt: before?.debtsAt ?? now,
    };
    // A debt of the former rate is at most a full debt of the new one, from the change on.
    this.#payOff(counted, now);
    this.#limits.set(task, counted);
    this.#pairs.clear();
  }

  isLimited(task: string): boolean {
    return this.#limits.has(task);
  }

  limitsOf(task: string): Limits {
    return this.#limits.get(task)?.limits ?? {};
  }

  /** The clock was set back, from `before`: windows of rates begin anew. */
  setBack(before: number): void {
    for (const run of this.runs.values()) run.wasDue ||= run.dueAt <= before;
    for (const counted of this.#limits.values()) counted.admissions.length = 0;
    this.#wasSetBack = true;
    this.#pairs.clear();
  }

  create(
    run: Omit<Run, 'order' | 'wasDue' | 'claims' | 'paused' | 'flagged' | 'held'>,
    weight: number | null,
    now: number,
  ): void {
    this.runs.set(run.id, {
      ...run,
      order: this.#created++,
      wasDue: false,
      claims: 0,
      paused: false,
      flagged: false,
      held: null,
    });
    if (weight !== null) {
      const lane = laneOf(run);
      if (this.#weights.get(lane) !== weight) this.#pairs.clear();
      this.#weights.set(lane, weight);
      this.#leastWeights.set(lane, Math.min(this.#leastWeights.get(lane) ?? weight, weight));
      if (!this.isLimited(run.task)) this.setLimits(run.task, {}, now);
    }
  }

  /** Places in use of a task, or of one of its keys. */
  running(task: string, now: number, key?: string): number {
    let count = 0;
    for (const run of this.runs.values()) {
      const isOwn = run.task === task && (key === undefined || run.key === key);
      if (isOwn && run.held !== null && run.held.until > now) count += 1;
    }
    return count;
  }

  /** Before a claim: expired leases of limited tasks are revoked, and expired runs end. */
  beforeClaim(now: number): void {
    for (const run of this.runs.values()) {
      const { held } = run;
      if (held !== null && held.until <= now) {
        run.dueAt = held.until;
        if (this.isLimited(run.task)) run.held = null;
      }
      if (run.expiresAt !== null && run.expiresAt <= now) this.runs.delete(run.id);
    }
  }

  /** Checks a claim of at most `max` items, and records it. `isLast`: a worker with free slots would not fetch again. */
  claimed(
    items: readonly WorkItem[],
    {
      max,
      now,
      lockMs,
      isLast,
    }: {
      readonly max: number;
      readonly now: number;
      readonly lockMs: number;
      readonly isLast: boolean;
    },
  ): void {
    const before = this.#claimableLanes(now);
    assert.ok(items.length <= max, 'no more than the maximum');
    const suspects = items.filter(({ claims, cancel }) => claims > 2 && cancel === null);
    if (suspects.length > 0) assert.equal(items.length, 1, 'a suspect is claimed alone');
    for (const item of items) this.#admit(item, now, lockMs);
    // The lane of a suspect may have been deleted with its weight. Its claim then counts with weight 1.
    for (const { instanceId } of suspects) {
      const run = this.runs.get(instanceId);
      if (run !== undefined) this.#leastWeights.set(laneOf(run), 1);
    }
    this.#checkPlaces(items, now);
    this.#checkRates(now);
    if (isLast && items.length < max && suspects.length === 0) {
      this.#checkNothingWaits(now, items.length > 0);
    }
    this.#checkFairness(items, before, now);
  }

  #admit(item: WorkItem, now: number, lockMs: number): void {
    const run = this.runs.get(item.instanceId);
    assert.ok(run, `${item.instanceId} exists`);
    assert.ok(run.held === null || run.held.until <= now, `${run.id} is not held`);
    assert.ok(run.dueAt <= now || run.wasDue, `${run.id} is due`);
    assert.equal(item.cancel !== null, run.flagged, `${run.id} is flagged`);
    if (!run.flagged) {
      assert.equal(run.paused, false, `${run.id} is not paused`);
      const isFirst = (other: Run) =>
        other !== run && laneOf(other) === laneOf(run) && this.#isWaiting(other, now);
      if (this.isLimited(run.task) && run.claims <= 1) {
        const before = [...this.runs.values()].find(
          (other) => isFirst(other) && other.claims <= 1 && comesBefore(other, run),
        );
        assert.equal(before?.id, undefined, `${before?.id} comes before ${run.id}`);
      }
      const counted = this.#limits.get(run.task);
      counted?.admissions.push({ at: now, key: run.key });
      if (counted?.limits.rate !== undefined) {
        this.#payOff(counted, now);
        const account = accountOf(counted.limits.rate, run.key);
        const debt = counted.debts.get(account) ?? 0;
        counted.debts.set(account, debt + intervalOf(counted.limits.rate));
      }
    }
    run.claims += 1;
    run.expiresAt = null;
    run.held = { token: item.lockToken, until: now + lockMs };
    assert.equal(item.claims, run.claims, `${run.id} counts its claims`);
  }

  /** L1 to L3 from outside: after an admission no limit is exceeded. */
  #checkPlaces(items: readonly WorkItem[], now: number): void {
    for (const { instanceId, cancel } of items) {
      const run = this.runs.get(instanceId);
      if (run === undefined || cancel !== null) continue;
      const { global, perKey } = this.limitsOf(run.task);
      if (global !== undefined) {
        const running = this.#placesOf(run.task, now);
        assert.ok(running <= global, `${run.task}: ${running} of ${global} run`);
      }
      if (perKey !== undefined) {
        const running = this.#placesOf(run.task, now, run.key);
        assert.ok(running <= perKey, `${run.task} ${run.key}: ${running} of ${perKey} run`);
      }
    }
  }

  /** Places: a flagged item that was claimed to end has none. */
  #placesOf(task: string, now: number, key?: string): number {
    let count = 0;
    for (const run of this.runs.values()) {
      const isOwn = run.task === task && (key === undefined || run.key === key);
      if (isOwn && run.held !== null && run.held.until > now && !run.flagged) count += 1;
    }
    return count;
  }

  #checkRates(now: number): void {
    for (const [task, { limits, admissions }] of this.#limits) {
      const { rate } = limits;
      if (rate === undefined) continue;
      const accounts = rate.perKey
        ? Map.groupBy(admissions, ({ key }) => key)
        : new Map([['', admissions]]);
      for (const [account, own] of accounts) {
        const inWindow = own.filter(({ at }) => at > now - rate.perMs).length;
        const most = rate.limit + rate.burst;
        assert.ok(inWindow <= most, `${task} ${account}: ${inWindow} of ${most} in a period`);
      }
    }
  }

  #checkNothingWaits(now: number, hasClaimed: boolean): void {
    for (const run of this.runs.values()) {
      if (!this.#isClaimable(run, now)) continue;
      // A suspect waits while others are claimed.
      if (run.claims > 1 && !run.flagged && hasClaimed) continue;
      // A clock that was set back uses up rates, each at its next use.
      if (this.#wasSetBack && this.limitsOf(run.task).rate !== undefined) continue;
      assert.fail(`${run.id} waits although it can be claimed`);
    }
  }

  #isWaiting(run: Run, now: number): boolean {
    return (
      !run.flagged &&
      !run.paused &&
      run.dueAt <= now &&
      (run.held === null || run.held.until <= now)
    );
  }

  /** Whether a run can be claimed now, alone. */
  #isClaimable(run: Run, now: number): boolean {
    if (run.flagged) return run.held !== null ? run.held.until <= now : run.dueAt <= now;
    return this.#isWaiting(run, now) && this.#hasAllowance(run, now);
  }

  #hasAllowance({ task, key }: Run, now: number): boolean {
    const counted = this.#limits.get(task);
    if (counted === undefined) return true;
    const { global, perKey, rate } = counted.limits;
    if (global !== undefined && this.#countedPlaces(task, now) >= global) return false;
    if (perKey !== undefined && this.#countedPlaces(task, now, key) >= perKey) return false;
    if (rate === undefined) return true;
    this.#payOff(counted, now);
    const debt = counted.debts.get(accountOf(rate, key)) ?? 0;
    return debt <= rate.burst * intervalOf(rate);
  }

  /** Places that block others: also of items that were flagged while they ran. */
  #countedPlaces(task: string, now: number, key?: string): number {
    let count = 0;
    for (const run of this.runs.values()) {
      const isOwn = run.task === task && (key === undefined || run.key === key);
      if (isOwn && run.held !== null && run.held.until > now && !this.#endsOnly.has(run.id)) {
        count += 1;
      }
    }
    return count;
  }

  readonly #endsOnly = new Set<string>();

  /** A flagged item was claimed again, only to end it. */
  endsOnly(id: string): void {
    this.#endsOnly.add(id);
  }

  #payOff(counted: Counted, now: number): void {
    const { rate } = counted.limits;
    const passed = (now - counted.debtsAt) * 1_000;
    counted.debtsAt = now;
    for (const [account, debt] of counted.debts) {
      const isCounted = rate !== undefined && account.startsWith(rate.perKey ? 'key' : 'all');
      // A clock that is set back costs at most a full debt.
      const most = isCounted ? (rate.burst + 1) * intervalOf(rate) : Infinity;
      counted.debts.set(account, Math.min(Math.max(debt - passed, 0), most));
    }
  }

  #claimableLanes(now: number): ReadonlySet<string> {
    const lanes = new Set<string>();
    for (const run of this.runs.values()) {
      const isTrusted = run.claims <= 1 && !run.flagged;
      if (this.isLimited(run.task) && isTrusted && this.#isClaimable(run, now)) {
        lanes.add(laneOf(run));
      }
    }
    return lanes;
  }

  /** While two keys of a task are claimable, their services by weight differ by at most one item of each. */
  #checkFairness(items: readonly WorkItem[], before: ReadonlySet<string>, now: number): void {
    const after = this.#claimableLanes(now);
    const both = [...before].filter((lane) => after.has(lane)).toSorted();
    const served = Map.groupBy(
      // Suspects do not wait for their turn. Nor do flagged runs: such a claim only ends the run, without a place.
      items.flatMap(({ instanceId, claims, cancel }) =>
        claims > 2 || cancel !== null ? [] : (this.runs.get(instanceId) ?? []),
      ),
      laneOf,
    );
    const kept = new Set<string>();
    for (const [index, one] of both.entries()) {
      for (const other of both.slice(index + 1)) {
        if (taskOf(one) !== taskOf(other)) continue;
        const name = `${one} ${other}`;
        kept.add(name);
        const pair = this.#pairs.get(name) ?? { served: [0, 0] };
        pair.served[0] += served.get(one)?.length ?? 0;
        pair.served[1] += served.get(other)?.length ?? 0;
        this.#pairs.set(name, pair);
        const [mine, its] = [this.#weights.get(one) ?? 1, this.#weights.get(other) ?? 1];
        const difference = Math.abs(pair.served[0] / mine - pair.served[1] / its);
        // The last item before a change of weight was counted with the former one.
        const least = (lane: string) => this.#leastWeights.get(lane) ?? 1;
        const bound = 1 / least(one) + 1 / least(other) + 1e-9;
        assert.ok(difference <= bound, `${name}: ${pair.served.join()} with ${mine}:${its}`);
      }
    }
    for (const name of this.#pairs.keys()) if (!kept.has(name)) this.#pairs.delete(name);
  }
}

function laneOf({ task, key }: Pick<Run, 'task' | 'key'>): string {
  return `${task}/${key}`;
}

function taskOf(lane: string): string {
  return lane.slice(0, lane.indexOf('/'));
}

/** Each key has a rate, or all share one. */
function accountOf({ perKey }: RateLimit, key: string): string {
  return perKey ? `key ${key}` : 'all';
}

function intervalOf({ limit, perMs }: RateLimit): number {
  return Math.ceil((perMs * 1_000) / limit);
}

function comesBefore(one: Run, other: Run): boolean {
  if (one.priority !== other.priority) return one.priority > other.priority;
  return one.dueAt < other.dueAt;
}
