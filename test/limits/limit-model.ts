import assert from 'node:assert/strict';
import { randomToken } from '../../src/model/values/random-id.ts';
import type { Limits } from '../../src/providers/contract/limits.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { WorkItem } from '../../src/providers/contract/work-queue.ts';
import type { FakeClock } from '../../src/testing/fake-clock.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { ReferenceScheduler, type Run } from './reference-scheduler.ts';

/** A store to run the model on. */
export interface ModelStore {
  readonly provider: Provider;
  readonly clock: FakeClock;
  /** Throws if the rows of the store break an invariant. Called after every operation. */
  readonly checkInvariants: () => Promise<void> | void;
  /**
   * Whether a fetch may return less than what is due, so that the next one returns the rest. A worker with free slots
   * fetches until it gets nothing.
   */
  readonly mayDivideClaims: boolean;
  /** Begins the names of tasks and runs, if the store is used for several runs of the model. */
  readonly prefix?: string;
}

/** Random numbers from a seed. */
class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed * 2_654_435_761 + 1) >>> 0;
  }

  below(max: number): number {
    // mulberry32
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let value = this.#state;
    value = Math.imul(value ^ (value >>> 15), value | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return Math.floor((((value ^ (value >>> 14)) >>> 0) / 4_294_967_296) * max);
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T;
  }
}

const traced = Number(process.env['LIMIT_TRACE'] ?? 12);
const lockMs = 1_000;
const keys = ['', 'a', 'b', 'c', 'd'] as const;
const failure = '{"name":"Error","message":"no"}';

const figures: readonly Limits[] = [
  {},
  { global: 1 },
  { global: 3 },
  { perKey: 1 },
  { perKey: 2 },
  { global: 4, perKey: 2 },
  { rate: { limit: 5, perMs: 1_000, burst: 0, perKey: false } },
  { rate: { limit: 7, perMs: 333, burst: 3, perKey: false } },
  { rate: { limit: 2, perMs: 1_000, burst: 1, perKey: true } },
  { global: 3, rate: { limit: 20, perMs: 1_000, burst: 2, perKey: true } },
];

const sharedRates = figures.filter(({ rate }) => rate?.perKey === false);

/** Runs random operations on a store and checks each against the reference. Throws at the first difference. */
export async function runLimitModel(
  store: ModelStore,
  { seed, operations }: { readonly seed: number; readonly operations: number },
): Promise<void> {
  const model = new LimitModel(store, seed);
  for (let count = 0; count < operations; count++) await model.step();
  await model.drain();
}

class LimitModel {
  readonly #store: ModelStore;
  readonly #random: Random;
  /** Some checks do not hold after it. */
  readonly #maySetBack: boolean;
  readonly #reference = new ReferenceScheduler();
  #count = 0;
  readonly #trace: string[] = [];
  /** Tokens that were replaced, handed back or acked. */
  readonly #former: string[] = [];
  readonly #prefix: string;
  /** Tasks that get limits and keys. */
  readonly #limited: readonly string[];
  readonly #tasks: readonly string[];

  constructor(store: ModelStore, seed: number) {
    this.#store = store;
    this.#prefix = store.prefix ?? '';
    this.#limited = [`${this.#prefix}one`, `${this.#prefix}two`];
    this.#tasks = [...this.#limited, `${this.#prefix}plain`];
    this.#random = new Random(seed);
    this.#maySetBack = seed % 3 === 0;
  }

  async step(): Promise<void> {
    const operation = this.#random.pick(operationsByWeight);
    await this.#traced(async () => {
      await this[operation]();
      await this.#store.checkInvariants();
    });
  }

  /** Ends everything: all runs get a place, and no place stays in use. */
  drain(): Promise<void> {
    return this.#traced(() => this.#drain());
  }

  async #traced(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const trace = this.#trace.slice(-traced).join('\n');
      throw new Error(`after ${this.#trace.length} operations:\n${trace}`, { cause: error });
    }
  }

  async #drain(): Promise<void> {
    const { provider } = this.#store;
    for (const task of this.#limited) await this.#set(task, {});
    for (const run of this.#reference.runs.values()) if (run.paused) await this.#resume(run);
    for (let round = 0; this.#reference.runs.size > 0; round++) {
      assert.ok(round < 200, `${this.#reference.runs.size} runs are never claimed`);
      await this.#claim(8);
      for (const run of this.#held()) await this.#complete(run);
      // Delays may be days ahead of a clock that was set back.
      await this.#advance(round % 10 === 9 ? 3 * 86_400_000 : 500);
    }
    // A claim that returned a suspect run, alone, may not have reached runs that have expired.
    await this.#claim(8);
    await this.#store.checkInvariants();
    const { records } = await provider.listLimits({ limit: 1_000 });
    const counted = records.filter(({ running, waiting }) => running > 0 || waiting > 0);
    assert.deepEqual(counted, [], 'nothing is counted at the end');
  }

  get #now(): number {
    return this.#store.provider.clock?.now() ?? this.#store.clock.now();
  }

  #held(): readonly Run[] {
    return [...this.#reference.runs.values()].filter(
      ({ held }) => held !== null && held.until > this.#now,
    );
  }

  #any(): Run | undefined {
    const runs = [...this.#reference.runs.values()];
    return runs[this.#random.below(runs.length)];
  }

  #anyHeld(): Run | undefined {
    const runs = this.#held();
    return runs[this.#random.below(runs.length)];
  }

  async create(): Promise<void> {
    const random = this.#random;
    const now = this.#now;
    const created = Array.from({ length: 1 + random.below(4) }, () => {
      const task = random.pick(this.#tasks);
      const key = this.#limited.includes(task) ? random.pick(keys) : '';
      const weight = key === '' ? null : random.pick([1, 1, 2, 3]);
      const priority = random.pick([0, 0, 0, 5, -5]);
      const delayMs = random.pick([0, 0, 0, 0, 300, 2_000]);
      const expiresInMs = random.pick([undefined, undefined, undefined, 700]);
      const id = `${this.#prefix}r${this.#count++}`;
      const expiresAt = expiresInMs === undefined ? null : now + delayMs + expiresInMs;
      this.#reference.create(
        { id, task, key, priority, dueAt: now + delayMs, expiresAt },
        weight,
        now,
      );
      return newTask(id, {
        name: task,
        priority,
        ...(delayMs > 0 && { delayMs }),
        ...(expiresInMs !== undefined && { expiresInMs }),
        ...(weight !== null && { lane: { key, weight } }),
      });
    });
    this.#note(
      `create ${created.map(({ instanceId, name, lane }) => `${instanceId}:${name}/${lane?.key ?? ''}`).join()}`,
    );
    const results = await this.#store.provider.createTasks(created);
    assert.ok(results.every(({ kind }) => kind === 'created'));
  }

  /** Starts a run again with another key and input. A worker that holds it loses its lease. */
  async replace(): Promise<void> {
    const run = this.#any();
    if (run === undefined || run.flagged) return;
    const now = this.#now;
    const { id, task } = run;
    const key = this.#limited.includes(task) ? this.#random.pick(keys) : '';
    this.#note(`replace ${id}:${task}/${key}`);
    const weight = key === '' ? null : this.#random.pick([1, 2]);
    const [result] = await this.#store.provider.createTasks([
      newTask(id, {
        name: task,
        onConflict: 'terminateExisting',
        inputHash: randomToken(),
        ...(weight !== null && { lane: { key, weight } }),
      }),
    ]);
    assert.equal(result?.kind, 'created', `${id} is replaced`);
    if (run.held !== null) this.#former.push(run.held.token);
    const parts = { id, task, key, priority: 0, dueAt: now, expiresAt: null };
    this.#reference.create(parts, weight, now);
  }

  async claim(): Promise<void> {
    await this.#claim(1 + this.#random.below(8));
  }

  async #claim(max: number): Promise<void> {
    let left = max;
    for (;;) {
      const items = await this.#fetch(left);
      left -= items.length;
      const isAlone = items.some(({ claims }) => claims > 2);
      if (!this.#store.mayDivideClaims || left === 0 || items.length === 0 || isAlone) return;
    }
  }

  /** Fetches runs of these tasks. Only a fetch of all of them can show that nothing waits. */
  async #fetch(max: number, of: readonly string[] = this.#tasks): Promise<readonly WorkItem[]> {
    const now = this.#now;
    this.#reference.beforeClaim(now);
    const flagged = new Set(
      [...this.#reference.runs.values()].filter((run) => run.flagged).map(({ id }) => id),
    );
    const fetch = { max, lockMs, waitMs: 0, names: [], tasks: of };
    const items = await this.#store.provider.fetchWorkItems(fetch);
    this.#note(`claim ${max}: ${items.map(({ instanceId }) => instanceId).join()}`);
    for (const { instanceId } of items) {
      if (flagged.has(instanceId)) this.#reference.endsOnly(instanceId);
      const token = this.#reference.runs.get(instanceId)?.held?.token;
      if (token !== undefined) this.#former.push(token);
    }
    const isLast = of === this.#tasks && (!this.#store.mayDivideClaims || items.length === 0);
    this.#reference.claimed(items, { max, now, lockMs, isLast });
    return items;
  }

  async ack(): Promise<void> {
    const run = this.#anyHeld();
    if (run !== undefined) await this.#complete(run);
  }

  async #complete(run: Run): Promise<void> {
    const lockToken = run.held?.token ?? '';
    this.#note(`ack ${run.id}`);
    const outcome = { kind: 'completed', payload: null } as const;
    const [result] = await this.#store.provider.ackWorkItems([{ lockToken, outcome }]);
    assert.equal(result?.ok, true, `${run.id} is acked`);
    this.#former.push(lockToken);
    this.#reference.runs.delete(run.id);
  }

  /** A token that was revoked, replaced or used does nothing. */
  async ackFormer(): Promise<void> {
    const expired = [...this.#reference.runs.values()].flatMap(({ held }) =>
      held !== null && held.until <= this.#now ? [held.token] : [],
    );
    const tokens = [...this.#former.slice(-20), ...expired];
    const lockToken = tokens[this.#random.below(tokens.length)];
    if (lockToken === undefined) return;
    this.#note('ack of a former token');
    const outcome = { kind: 'completed', payload: null } as const;
    const [result] = await this.#store.provider.ackWorkItems([{ lockToken, outcome }]);
    assert.equal(result?.ok, false, 'a former token is rejected');
  }

  async handBack(): Promise<void> {
    const run = this.#anyHeld();
    if (run?.held == null) return;
    const lockToken = run.held.token;
    const delayMs = this.#random.pick([0, 0, 400, 3_000]);
    const now = this.#now;
    const isRetry = this.#random.below(2) === 0;
    this.#note(`${isRetry ? 'retry' : 'abandon'} ${run.id} ${delayMs}`);
    const { provider } = this.#store;
    const [result] = isRetry
      ? await provider.retryWorkItems([{ lockToken, delayMs, failure }])
      : await provider.abandonWorkItems([{ lockToken, delayMs, giveBackClaim: true }]);
    assert.ok(result, `${run.id} is handed back`);
    this.#former.push(lockToken);
    if (run.flagged) {
      this.#reference.runs.delete(run.id);
      return;
    }
    run.held = null;
    run.dueAt = now + delayMs;
    run.wasDue = false;
    run.claims = isRetry ? 0 : run.claims - 1;
  }

  async renew(): Promise<void> {
    const run = this.#anyHeld();
    if (run?.held == null) return;
    this.#note(`renew ${run.id}`);
    const renewal = [{ lockToken: run.held.token }];
    const [result] = await this.#store.provider.renewWorkItemLocks(renewal, lockMs);
    assert.equal(result?.held, true, `${run.id} is renewed`);
    run.held.until = this.#now + lockMs;
  }

  async advance(): Promise<void> {
    await this.#advance(this.#random.pick([1, 40, 150, 500, lockMs + 1]));
  }

  async #advance(ms: number): Promise<void> {
    this.#note(`advance ${ms}`);
    await this.#store.clock.advance(ms);
  }

  async cancel(): Promise<void> {
    const run = this.#any();
    if (run === undefined || run.flagged) return;
    this.#note(`cancel ${run.id}`);
    const request = { instanceId: run.id, reason: 'no', actor: null, cleanupMs: 1_000 };
    await this.#store.provider.requestCancel([request]);
    run.paused = false;
    if (run.held !== null && run.held.until > this.#now) run.flagged = true;
    else this.#reference.runs.delete(run.id);
  }

  async terminate(): Promise<void> {
    const run = this.#any();
    if (run === undefined || run.flagged) return;
    this.#note(`terminate ${run.id}`);
    const request = { instanceId: run.id, reason: 'no', actor: null, tree: false };
    await this.#store.provider.terminate([request]);
    run.paused = false;
    if (run.held !== null && run.held.until > this.#now) run.flagged = true;
    else this.#reference.runs.delete(run.id);
  }

  async delete(): Promise<void> {
    const run = this.#any();
    if (run === undefined) return;
    this.#note(`delete ${run.id}`);
    await this.#store.provider.deleteInstancesAtomic([{ instanceIds: [run.id], force: true }]);
    if (run.held !== null) this.#former.push(run.held.token);
    this.#reference.runs.delete(run.id);
  }

  async pause(): Promise<void> {
    const run = this.#any();
    if (run === undefined || run.flagged) return;
    if (run.paused) {
      await this.#resume(run);
      return;
    }
    this.#note(`pause ${run.id}`);
    const request = { instanceId: run.id, reason: null, actor: null, tree: false };
    await this.#store.provider.pauseInstances([request]);
    run.paused = true;
  }

  async #resume(run: Run): Promise<void> {
    this.#note(`resume ${run.id}`);
    await this.#store.provider.resumeInstances([{ instanceId: run.id, tree: false }]);
    run.paused = false;
  }

  async changeLimits(): Promise<void> {
    await this.#set(this.#random.pick(this.#limited), this.#random.pick(figures));
  }

  async #set(task: string, limits: Limits): Promise<void> {
    this.#note(`limits of ${task}: ${JSON.stringify(limits)}`);
    const override = { global: null, perKey: null, rate: null, ...limits };
    await this.#store.provider.setLimits({ kind: 'task', name: task, override });
    this.#reference.setLimits(task, limits, this.#now);
  }

  async declare(): Promise<void> {
    // Without effect: the operator's figures hold. It must not disturb the accounts.
    const name = this.#random.pick(this.#limited);
    if (!this.#reference.isLimited(name)) return;
    this.#note(`declare ${name}`);
    const definitions = [{ kind: 'task', name, limits: {} } as const];
    await this.#store.provider.declareLimits({ buildId: randomToken(), definitions });
  }

  /** Declarations that run beside claims must not give tokens of a rate back. */
  async declareBesideClaims(): Promise<void> {
    const name = this.#random.pick(this.#limited);
    await this.#set(name, this.#random.pick(sharedRates));
    for (let count = 0; count < 4; count++) await this.create();
    this.#note(`declare ${name} beside:`);
    const definitions = [{ kind: 'task', name, limits: {} } as const];
    const over = new AbortController();
    const declareUntilOver = async () => {
      while (!over.signal.aborted)
        await this.#store.provider.declareLimits({ buildId: 'beside', definitions });
    };
    const declaring = Array.from({ length: 3 }, declareUntilOver);
    try {
      for (let round = 0; round < 5; round++) {
        await this.#advance(this.#random.pick([40, 150]));
        await this.claim();
      }
    } finally {
      // Also after a failed check: the store is closed then.
      over.abort();
      await Promise.all(declaring);
    }
    await this.claim();
  }

  async setBack(): Promise<void> {
    if (!this.#maySetBack) return;
    // An expired lease is live again after it, unless a claim of its task has revoked it. A claim that returns flagged runs
    // revokes nothing, so fetch until one finds nothing.
    for (const task of this.#limited) while ((await this.#fetch(1, [task])).length > 0);
    this.#note('set the clock back');
    // More than a store absorbs.
    const before = this.#now;
    await this.#store.clock.setBack('2d');
    this.#reference.setBack(before);
    await this.claim();
  }

  #note(text: string): void {
    this.#trace.push(text);
  }
}

const operationsByWeight = (
  [
    [6, 'create'],
    [8, 'claim'],
    [6, 'ack'],
    [1, 'ackFormer'],
    [2, 'handBack'],
    [1, 'renew'],
    [4, 'advance'],
    [1, 'cancel'],
    [1, 'terminate'],
    [1, 'delete'],
    [1, 'replace'],
    [1, 'pause'],
    [1, 'changeLimits'],
    [1, 'declare'],
    [0.5, 'declareBesideClaims'],
    [0.3, 'setBack'],
  ] as const
).flatMap(([weight, operation]) => Array.from({ length: Math.round(weight * 3) }, () => operation));
