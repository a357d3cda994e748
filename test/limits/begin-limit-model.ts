import assert from 'node:assert/strict';
import type { InstanceRecord, NewInstance } from '../../src/providers/contract/instances.ts';
import type { Limits } from '../../src/providers/contract/limits.ts';
import type { OrchestrationItem } from '../../src/providers/contract/orchestration-queue.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { isTerminal } from '../../src/model/status.ts';
import { event, newInstance, newTurn, raised } from '../../src/testing/conformance/sample-data.ts';
import type { FakeClock } from '../../src/testing/fake-clock.ts';
import { randomFrom } from '../postgres/helpers/random.ts';

/** A store to run the model on. */
export interface BeginModelStore {
  /** Two processes of one store. */
  readonly providers: readonly [Provider, Provider];
  readonly clock: FakeClock;
  /** Throws if the rows of the store break an invariant. Called after every operation. */
  readonly checkInvariants: () => Promise<void> | void;
}

interface Held {
  readonly item: OrchestrationItem;
  readonly until: number;
}

/** An instance as the model knows it. */
interface Known {
  readonly id: string;
  readonly key: string;
  readonly version: string;
  /** Claimed since its creation, retry or replacement. */
  hasBegun: boolean;
  /** Begun by a claim that cleans up after a cancel, which needs no free place. */
  isExtra: boolean;
  held: Held | undefined;
  dueAt: number;
  /** The end of the delay of its last hand-back. */
  heldBackUntil: number;
}

const lockMs = 1_000;
const keys = ['', '', 'a', 'b', 'c'] as const;
const figures: readonly Limits[] = [
  {},
  { global: 1 },
  { global: 3 },
  { perKey: 1 },
  { perKey: 2 },
  { global: 4, perKey: 1 },
];
const versions = ['1', '2'] as const;
const runnable = versions.map((version) => ({ name: 'sample', version }));
/** The versions that a worker can run. */
const workers = [runnable, runnable, runnable.slice(0, 1), runnable.slice(1)] as const;
const failure = '{"name":"Error","message":"no"}';
const by = { reason: 'no', actor: null } as const;
const continued = {
  status: 'continuedAsNew',
  version: null,
  start: newInstance('x').start,
} as const;
const outcomes = [
  { status: 'running' },
  { status: 'running' },
  { status: 'completed', payload: null },
  { status: 'failed', failure },
  continued,
] as const;

/**
 * Runs random operations on the instances of a limited orchestration. After each claim, no more instances have begun than
 * the limits allow, and none waits while a place is free. Throws at the first difference.
 */
export async function runBeginLimitModel(
  store: BeginModelStore,
  { seed, operations }: { readonly seed: number; readonly operations: number },
): Promise<void> {
  const model = new BeginLimitModel(store, seed);
  for (let count = 0; count < operations; count++) await model.step();
  await model.drain();
}

class BeginLimitModel {
  readonly #store: BeginModelStore;
  readonly #below: (below: number) => number;
  readonly #known = new Map<string, Known>();
  readonly #trace: string[] = [];
  #limits: Limits | undefined;
  #count = 0;

  constructor(store: BeginModelStore, seed: number) {
    this.#store = store;
    this.#below = randomFrom(seed);
  }

  async step(): Promise<void> {
    const operation = this.#pick(operationsByWeight);
    await this.#traced(async () => {
      await this[operation]();
      await this.#store.checkInvariants();
    });
  }

  drain(): Promise<void> {
    return this.#traced(() => this.#drain());
  }

  async #traced(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const trace = this.#trace.slice(-25).join('\n');
      throw new Error(`after ${this.#trace.length} operations:\n${trace}`, { cause: error });
    }
  }

  get #provider(): Provider {
    return this.#pick(this.#store.providers);
  }

  get #now(): number {
    return this.#store.clock.now();
  }

  #pick<T>(values: readonly T[]): T {
    return values[this.#below(values.length)] as T;
  }

  #any(): Known | undefined {
    return this.#pick([...this.#known.values()]);
  }

  #anyHeld(): Known | undefined {
    return this.#pick(
      [...this.#known.values()].filter(({ held }) => held !== undefined && held.until > this.#now),
    );
  }

  #note(text: string): void {
    this.#trace.push(text);
  }

  async #records(): Promise<ReadonlyMap<string, InstanceRecord>> {
    const ids = [...this.#known.keys()];
    const records = await this.#store.providers[0].getInstances(ids);
    return new Map(
      records.flatMap((record) => (record === undefined ? [] : [[record.instanceId, record]])),
    );
  }

  /** Forgets the places of instances that have ended or were deleted. */
  async #forgetEnded(): Promise<ReadonlyMap<string, InstanceRecord>> {
    const records = await this.#records();
    for (const known of this.#known.values()) {
      const record = records.get(known.id);
      if (record === undefined) this.#known.delete(known.id);
      else if (isTerminal(record.status)) {
        known.hasBegun = false;
        known.isExtra = false;
        known.held = undefined;
      }
    }
    return records;
  }

  async create(): Promise<void> {
    const key = this.#pick(keys);
    const delayMs = this.#pick([0, 0, 0, 700]);
    const id = `i${this.#count++}`;
    await this.#create(id, key, { ...(delayMs > 0 && { delayMs }) });
    this.#known.get(id)!.dueAt = this.#now + delayMs;
  }

  async #create(id: string, key: string, parts: Partial<NewInstance>): Promise<void> {
    this.#note(`create ${id}/${key} ${JSON.stringify({ ...parts, start: undefined })}`);
    const lane = key === '' ? {} : { lane: { key, weight: this.#pick([1, 2]) } };
    const version = this.#pick(versions);
    const start = newInstance(id, { ...lane, ...parts, version });
    const [result] = await this.#provider.createInstances([start]);
    if (result?.kind !== 'created') {
      this.#note(`  ${JSON.stringify(result)}`);
      return;
    }
    this.#known.set(id, {
      id,
      key,
      version,
      hasBegun: false,
      isExtra: false,
      held: undefined,
      dueAt: this.#now,
      heldBackUntil: 0,
    });
  }

  async replace(): Promise<void> {
    const known = this.#any();
    if (known === undefined) return;
    const inputHash = `other ${this.#count++}`;
    await this.#create(known.id, this.#pick(keys), { onConflict: 'terminateExisting', inputHash });
  }

  async debounce(): Promise<void> {
    const key = this.#pick(keys);
    const id = `i${this.#count++}`;
    const delayMs = this.#pick([0, 700]);
    this.#note(`debounce ${id}/${key} ${delayMs}`);
    const lane = key === '' ? {} : { lane: { key, weight: 1 } };
    const debounce = { key: this.#pick(['x', 'y']), requestKey: id };
    // The newest request decides, so all have one version.
    const version = '1';
    const start = newInstance(id, { ...lane, debounce, delayMs, inputHash: id, version });
    const [result] = await this.#provider.createInstances([start]);
    const dueAt = this.#now + delayMs;
    if (result?.kind === 'created')
      this.#known.set(id, {
        id,
        key,
        version,
        hasBegun: false,
        isExtra: false,
        held: undefined,
        dueAt,
        heldBackUntil: 0,
      });
    else if (result?.kind === 'active') {
      this.#note(`  moved ${result.instanceId}`);
      const moved = this.#known.get(result.instanceId);
      // A first claim that was handed back is withdrawn with its place.
      if (moved !== undefined) Object.assign(moved, { dueAt, hasBegun: false, isExtra: false });
    }
  }

  async claim(): Promise<void> {
    await this.#claim(this.#pick([1, 2, 100]));
  }

  /** Claims. A claim of 100 is repeated until it finds nothing. */
  async #claim(max: number): Promise<void> {
    for (;;) {
      const can = max === 100 ? runnable : this.#pick(workers);
      const fetch = { max, lockMs, waitMs: 0, runnable: can };
      const items = await this.#provider.fetchOrchestrationItems(fetch);
      this.#note(
        `claim ${max} of ${can.length} versions: ${items.map(({ instanceId }) => instanceId).join()}`,
      );
      await this.#claimed(items);
      if (items.length === 0 || max !== 100) break;
    }
    if (max === 100) await this.#expectNoneWaits();
  }

  async #claimed(items: readonly OrchestrationItem[]): Promise<void> {
    const records = await this.#forgetEnded();
    const isCanceling = ({ instanceId }: OrchestrationItem): boolean =>
      records.get(instanceId)?.status === 'canceling';
    // A canceling one takes a place even if none is free, so the others of the claim begin before it.
    const inOrder = items.toSorted((x, y) => Number(isCanceling(x)) - Number(isCanceling(y)));
    for (const item of inOrder) {
      const known = this.#known.get(item.instanceId);
      assert.ok(known, `${item.instanceId} exists`);
      assert.equal(item.version, known.version, `${known.id} has its version`);
      const isHeld = known.held !== undefined && known.held.until > this.#now;
      assert.ok(!isHeld, `${known.id} is claimed while it is held`);
      assert.ok(known.dueAt <= this.#now || known.hasBegun, `${known.id} is due`);
      const record = records.get(known.id);
      assert.equal(record?.paused ?? null, null, `${known.id} is not paused`);
      if (!known.hasBegun) {
        known.isExtra = isCanceling(item);
        // Another claim may have got its place before one that needs no free place.
        const isAllowed = known.isExtra || this.#hasRoom(known.key, ({ isExtra }) => !isExtra);
        assert.ok(isAllowed, `${known.id} begins beyond a limit`);
      }
      known.hasBegun = true;
      known.held = { item, until: this.#now + lockMs };
    }
  }

  #hasRoom(key: string, counts: (known: Known) => boolean = () => true): boolean {
    const { global = Infinity, perKey = Infinity } = this.#limits ?? {};
    const begun = [...this.#known.values()].filter((one) => one.hasBegun && counts(one));
    return begun.length < global && begun.filter((one) => one.key === key).length < perKey;
  }

  async #expectNoneWaits(): Promise<void> {
    const records = await this.#forgetEnded();
    for (const known of this.#known.values()) {
      const record = records.get(known.id);
      if (record === undefined || isTerminal(record.status) || record.paused !== null) continue;
      if (known.hasBegun || Math.max(known.dueAt, known.heldBackUntil) > this.#now) continue;
      assert.ok(!this.#hasRoom(known.key), `${known.id} waits although it can begin`);
      const turn = await this.#store.providers[0].inspectTurn(known.id);
      assert.equal(turn?.waitingKey, known.key, `${known.id} is shown as waiting`);
    }
  }

  async commit(): Promise<void> {
    const known = this.#anyHeld();
    if (known?.held !== undefined) await this.#commit(known, this.#pick(outcomes));
  }

  async #commit(
    { id, held, version }: Known,
    wanted: (typeof outcomes)[number] | { readonly status: 'completed'; readonly payload: null },
  ): Promise<void> {
    if (held === undefined) return;
    const { item } = held;
    const record = (await this.#records()).get(id);
    const isStopping = record?.status === 'canceling';
    const canceled = { status: 'canceled', reason: 'no', cleanupSkipped: false } as const;
    const next = wanted.status === 'continuedAsNew' ? { ...wanted, version } : wanted;
    const outcome = isStopping ? canceled : next;
    const firstEventId = item.historyLength + 1;
    const events = outcome.status === 'continuedAsNew' ? [] : [event('turn')];
    const turn = newTurn({ version, firstEventId, events, outcome });
    const { lockToken } = item;
    const messageKeys = item.messages.map(({ messageKey }) => messageKey);
    const [result] = await this.#provider.ackOrchestrationItems([{ lockToken, messageKeys, turn }]);
    this.#note(`commit ${id} ${outcome.status}: ${result?.ok}`);
    const known = this.#known.get(id);
    if (known !== undefined) known.held = undefined;
    await this.#forgetEnded();
  }

  async abandon(): Promise<void> {
    const known = this.#anyHeld();
    if (known?.held === undefined) return;
    const { lockToken } = known.held.item;
    const delayMs = this.#pick([0, 300]);
    this.#note(`abandon ${known.id} ${delayMs}`);
    const giveBackClaim = this.#below(2) === 0;
    await this.#provider.abandonOrchestrationItems([{ lockToken, delayMs, giveBackClaim }]);
    // Before the first limit, one that is handed back has not begun.
    const heldBackUntil = this.#now + delayMs;
    Object.assign(known, { held: undefined, dueAt: heldBackUntil, heldBackUntil });
  }

  async raise(): Promise<void> {
    const known = this.#any();
    if (known === undefined) return;
    this.#note(`raise ${known.id}`);
    await this.#provider.enqueueMessages([{ instanceId: known.id, message: raised('event') }]);
  }

  async advance(): Promise<void> {
    const ms = this.#pick([1, 300, lockMs + 1]);
    this.#note(`advance ${ms}`);
    await this.#store.clock.advance(ms);
  }

  async cancel(): Promise<void> {
    const known = this.#any();
    if (known === undefined) return;
    this.#note(`cancel ${known.id}`);
    await this.#provider.requestCancel([{ instanceId: known.id, ...by, cleanupMs: 60_000 }]);
    known.dueAt = Math.min(known.dueAt, this.#now);
    await this.#forgetEnded();
  }

  async terminate(): Promise<void> {
    const known = this.#any();
    if (known === undefined) return;
    this.#note(`terminate ${known.id}`);
    await this.#provider.terminate([{ instanceId: known.id, ...by, tree: false }]);
    await this.#forgetEnded();
  }

  async delete(): Promise<void> {
    const known = this.#any();
    if (known === undefined) return;
    this.#note(`delete ${known.id}`);
    await this.#provider.deleteInstancesAtomic([{ instanceIds: [known.id], force: true }]);
    await this.#forgetEnded();
  }

  async pause(): Promise<void> {
    const known = this.#any();
    if (known === undefined) return;
    this.#note(`pause ${known.id}`);
    await this.#provider.pauseInstances([{ instanceId: known.id, ...by, tree: false }]);
  }

  async resume(): Promise<void> {
    const known = this.#any();
    if (known !== undefined) await this.#resume(known);
  }

  async #resume({ id }: Known): Promise<void> {
    this.#note(`resume ${id}`);
    await this.#provider.resumeInstances([{ instanceId: id, tree: false }]);
  }

  async retry(): Promise<void> {
    const rerun = await this.#source();
    if (rerun === undefined) return;
    const { known, source } = rerun;
    const start = { messages: [newInstance(known.id).start] };
    const retry = { source, version: known.version, start };
    const [result] = await this.#provider.retryInstances([retry]);
    this.#note(`retry ${known.id}: ${result?.kind}`);
    if (result?.kind === 'retried')
      Object.assign(known, { dueAt: this.#now, hasBegun: false, isExtra: false });
  }

  async fork(): Promise<void> {
    const rerun = await this.#source();
    if (rerun === undefined) return;
    const { known, source } = rerun;
    const id = `i${this.#count++}`;
    const start = { messages: [newInstance(id).start] };
    const { incarnation, inputHash, name } = newInstance(id);
    const fork = { source, instanceId: id, incarnation, inputHash, name, version: known.version };
    const [result] = await this.#provider.forkInstances([{ ...fork, forkedFrom: '{}', start }]);
    this.#note(`fork ${known.id}: ${id} ${result?.kind}`);
    if (result?.kind !== 'forked') return;
    const { key, version } = known;
    this.#known.set(id, {
      id,
      key,
      version,
      hasBegun: false,
      isExtra: false,
      held: undefined,
      dueAt: this.#now,
      heldBackUntil: 0,
    });
  }

  async #source() {
    const known = this.#any();
    if (known === undefined) return undefined;
    const record = (await this.#records()).get(known.id);
    if (record === undefined) return undefined;
    const { incarnation, executionId } = record;
    const instanceId = known.id;
    const page = { instanceId, executionId, after: 0, limit: 1_000 };
    const { length } = await this.#store.providers[0].readInstanceHistory(page);
    return { known, source: { instanceId, incarnation, executionId, historyLength: length } };
  }

  async changeLimits(): Promise<void> {
    // So that no instance has a place that it got under the former limits, without a claim.
    await this.#claim(100);
    const isFirst = this.#limits === undefined;
    this.#limits = this.#pick(figures);
    this.#note(`limits ${JSON.stringify(this.#limits)}`);
    const override = { global: null, perKey: null, ...this.#limits };
    const setting = { kind: 'orchestration', name: 'sample', override } as const;
    await this.#provider.setLimits(setting);
    if (!isFirst) return;
    // Those that run already count, also those that wait for their first turn after a retry.
    for (const [id, { status }] of await this.#forgetEnded()) {
      const known = this.#known.get(id);
      if (known !== undefined && (status === 'running' || status === 'canceling'))
        known.hasBegun = true;
      const isLapsed = known?.held === undefined || known.held.until <= this.#now;
      if (known !== undefined && status === 'pending' && isLapsed) known.hasBegun = false;
    }
  }

  async #drain(): Promise<void> {
    await this.#forgetEnded();
    for (const known of this.#known.values()) await this.#resume(known);
    for (let round = 0; ; round++) {
      const live = [...(await this.#forgetEnded()).values()].filter(
        ({ status }) => !isTerminal(status),
      );
      if (live.length === 0) break;
      assert.ok(round < 100, `${live.map(({ instanceId }) => instanceId).join()} never end`);
      for (const { instanceId } of live)
        await this.#provider.enqueueMessages([{ instanceId, message: raised('end') }]);
      const [provider] = this.#store.providers;
      const items = await provider.fetchOrchestrationItems({
        max: 100,
        lockMs,
        waitMs: 0,
        runnable,
      });
      this.#note(`claim to end: ${items.map(({ instanceId }) => instanceId).join()}`);
      await this.#claimed(items);
      for (const known of this.#known.values())
        if (known.held !== undefined && known.held.until > this.#now)
          await this.#commit(known, { status: 'completed', payload: null });
      await this.#store.clock.advance(500);
    }
    const [provider] = this.#store.providers;
    await provider.fetchOrchestrationItems({ max: 1, lockMs, waitMs: 0, runnable });
    await this.#store.checkInvariants();
    const { records } = await provider.listLimits({ limit: 10 });
    for (const { running, waiting } of records)
      assert.deepEqual({ running, waiting }, { running: 0, waiting: 0 }, 'nothing is counted');
  }
}

const operationsByWeight = (
  [
    [6, 'create'],
    [8, 'claim'],
    [8, 'commit'],
    [2, 'abandon'],
    [3, 'raise'],
    [3, 'advance'],
    [2, 'replace'],
    [2, 'debounce'],
    [2, 'cancel'],
    [1, 'terminate'],
    [1, 'delete'],
    [2, 'pause'],
    [2, 'resume'],
    [3, 'retry'],
    [2, 'fork'],
    [2, 'changeLimits'],
  ] as const
).flatMap(([weight, operation]) => Array.from({ length: weight }, () => operation));
