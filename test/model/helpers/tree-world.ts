import { activity } from '../../../src/orchestration/activity.ts';
import { testOptions } from '../../../src/runtime/test-options.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import { isTerminal } from '../../../src/model/status.ts';
import type { InstanceRecord } from '../../../src/providers/contract/instances.ts';
import type {
  DeleteInstanceResult,
  TreeDeletion,
  TreeDeletionResult,
} from '../../../src/providers/contract/management.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { FakeClock } from '../../../src/testing/fake-clock.ts';
import { waitUntilIdle, nextTurn } from './wait-until-idle.ts';
import { findRemainingRows } from './find-remaining-rows.ts';
import { StoreBoundary } from './store-boundary.ts';
import type { StoreCall } from './store-call.ts';
import type { TreeAct, TreeNode, TreeScenario } from './tree-scenario.ts';

const nothing: DeleteInstanceResult = {
  instancesDeleted: 0,
  executionsDeleted: 0,
  eventsDeleted: 0,
  queueMessagesDeleted: 0,
};
const healStepMs = 200;
const healSteps = 100;

/**
 * Runs one tree scenario on the real runtime and store, and checks parents whenever instances are created or deleted.
 */
export class TreeWorld {
  readonly violations: string[] = [];
  /** The results of deletions before the end, and the size of the largest. */
  readonly seen = new Map<TreeDeletionResult['kind'], number>();
  largestDeleted = 0;
  readonly #scenario: TreeScenario;
  readonly #store: Provider;
  readonly #clock: FakeClock;
  readonly #boundary: StoreBoundary;
  readonly #isBusy: () => boolean;
  readonly #asked = new Set<Promise<unknown>>();
  readonly #handlers = new Set<() => void>();
  /** The sum of the counts that deletions returned. */
  #deleted = nothing;
  #created = 0;
  #isHealing = false;
  #isEnding = false;

  constructor(params: {
    readonly scenario: TreeScenario;
    readonly store: Provider;
    readonly clock: FakeClock;
    /** Whether the store has work that has not passed the boundary. */
    readonly isBusy?: () => boolean;
  }) {
    const { scenario, store, clock, isBusy = () => false } = params;
    this.#isBusy = isBusy;
    this.#scenario = scenario;
    this.#store = store;
    this.#clock = clock;
    this.#boundary = new StoreBoundary({
      store: {
        ...store,
        deleteInstancesAtomic: async (trees) => {
          const held = await Promise.all(trees.map((tree) => this.#count(tree)));
          const results = await store.deleteInstancesAtomic(trees);
          for (const [index, result] of results.entries()) {
            if (!this.#isEnding) this.#note(result);
            if (result.kind !== 'deleted') continue;
            this.#expectEqual(result.counts, held[index], 'what a deletion counts');
          }
          return results;
        },
      },
      clock,
      hints: true,
      onCommitted: (call) => this.#onCommitted(call),
    });
  }

  /** Resolves when the processes are idle: only time or an act can cause the next step. */
  async rest(): Promise<void> {
    await waitUntilIdle(this.#boundary, { isBusy: this.#isBusy });
  }

  async run(): Promise<void> {
    const { fastPaths, roots, headStart, acts, hold } = this.#scenario;
    const clock = this.#clock;
    const perdure = await Perdure.open(this.#boundary.connect().provider, { clock });
    await perdure.startWorker({
      orchestrations: [this.#branch],
      activities: [this.#hold],
      ...testOptions({ fastPaths }),
      cancelGrace: 100,
      cleanupTimeout: 1_000,
      shutdownGrace: 0,
      pollInterval: '30d',
    });
    for (const index of roots.keys()) this.#start(perdure, index);
    await this.#takeTurns(headStart);
    this.#boundary.holdAt(hold);
    for (const act of acts) {
      await this.#obey(perdure, act);
      await this.#takeTurns(act.pace);
    }
    await this.#heal(perdure);
    await this.#checkEnd(perdure);
    const closed = perdure.close();
    await this.rest();
    await closed;
  }

  /** Runs turns of the event loop, each until the store is idle. */
  async #takeTurns(count: number): Promise<void> {
    for (let turn = 0; turn < count; turn++) {
      await nextTurn();
      while (this.#isBusy()) await nextTurn();
    }
  }

  readonly #hold = activity('hold', async (ctx) => {
    const told = Promise.withResolvers<void>();
    this.#handlers.add(told.resolve);
    ctx.signal.addEventListener('abort', () => told.resolve(), { once: true });
    if (this.#isHealing) told.resolve();
    await told.promise;
    this.#handlers.delete(told.resolve);
    ctx.throwIfCanceled();
  });

  readonly #branch = orchestration('branch', async (ctx, node: TreeNode): Promise<string> => {
    const ignore = (): undefined => undefined;
    if (node.works) ctx.call(this.#hold).catch(ignore);
    if (node.late) await ctx.waitFor('grow');
    for (const [index, child] of node.children.entries()) {
      const { cancellation } = child;
      const id = `${ctx.instanceId}.${index}`;
      ctx.child(this.#branch, child, { id, cancellation }).catch(ignore);
    }
    const word = await ctx.waitFor('end');
    if (word === 'fail') throw new Error('told to fail');
    if (!node.again) return 'done';
    return await ctx.continueAsNew({ ...node, again: false, late: true, children: [] });
  });

  #start({ client }: Perdure, target: number): void {
    const { roots } = this.#scenario;
    const index = target % roots.length;
    const node = roots[index];
    if (node !== undefined) this.#ask(client.start(this.#branch, node, { id: `r${index}` }));
  }

  async #obey(perdure: Perdure, { do: what, target }: TreeAct): Promise<void> {
    const { client } = perdure;
    if (what === 'start') return this.#start(perdure, target);
    if (what === 'release') {
      while (this.#boundary.release(target, 'go') !== undefined);
      return;
    }
    const all = await this.#list();
    const roots = all.filter(({ parentInstanceId }) => parentInstanceId === null);
    const from = what === 'delete' || what === 'force' ? roots : all;
    const id = from[target % Math.max(from.length, 1)]?.instanceId;
    if (id === undefined) return;
    switch (what) {
      case 'grow':
        return this.#ask(client.raiseEvent(id, 'grow'));
      case 'complete':
      case 'fail':
        return this.#ask(client.raiseEvent(id, 'end', what));
      case 'cancel':
        return this.#ask(client.cancel(id));
      case 'terminate':
        return this.#ask(client.terminate(id, { tree: target % 2 === 0 }));
      case 'delete':
      case 'force':
        return this.#askToDelete(client.deleteInstance(id, { force: what === 'force' }));
      case 'bulk':
        return this.#askToDelete(client.deleteInstanceBulk({}, { all: true }));
    }
  }

  /** Many of these may reject; their effect is checked in the store. */
  #ask(answer: Promise<unknown>): void {
    const asked: Promise<unknown> = answer
      .catch(() => undefined)
      .finally(() => this.#asked.delete(asked));
    this.#asked.add(asked);
  }

  #askToDelete(answer: Promise<DeleteInstanceResult>): void {
    this.#ask(answer.then((counts) => (this.#deleted = add(this.#deleted, counts))));
  }

  #note(result: TreeDeletionResult): void {
    this.seen.set(result.kind, (this.seen.get(result.kind) ?? 0) + 1);
    if (result.kind !== 'deleted') return;
    this.largestDeleted = Math.max(this.largestDeleted, result.counts.instancesDeleted);
  }

  /** Counts the rows of a tree one by one. */
  async #count({ instanceIds }: TreeDeletion): Promise<DeleteInstanceResult> {
    let sum = nothing;
    for (const instanceId of new Set(instanceIds)) {
      const size = await this.#store.measureInstance(instanceId);
      if (size === undefined) continue;
      const executions = await this.#store.listExecutions({ instanceId, after: 0, limit: 100 });
      const events = await Promise.all(
        executions.map(({ executionId }) =>
          this.#store.readInstanceHistory({ instanceId, executionId, after: 0, limit: 10_000 }),
        ),
      );
      sum = add(sum, {
        instancesDeleted: 1,
        executionsDeleted: executions.length,
        eventsDeleted: events.flat().length,
        queueMessagesDeleted: size.messages + size.activities,
      });
    }
    return sum;
  }

  async #onCommitted(call: StoreCall): Promise<void> {
    const created = countCreated(call);
    this.#created += created;
    if (created === 0 && call.method !== 'deleteInstancesAtomic') return;
    const all = await this.#list();
    const ids = new Set(all.map(({ instanceId }) => instanceId));
    for (const { instanceId, parentInstanceId: parent, status } of all) {
      if (parent === null || ids.has(parent)) continue;
      this.violations.push(`${instanceId} is ${status}, but its parent is gone`);
    }
  }

  async #list(): Promise<readonly InstanceRecord[]> {
    const { instances } = await this.#store.listInstances({ filter: {}, limit: 1_000 });
    return instances;
  }

  /** Releases all calls, ends all instances, and advances the clock. */
  async #heal({ client }: Perdure): Promise<void> {
    this.#isHealing = true;
    this.#boundary.open();
    for (let step = 0; step < healSteps; step++) {
      for (const finish of this.#handlers) finish();
      await this.rest();
      const live = (await this.#list()).filter(({ status }) => !isTerminal(status));
      if (live.length === 0) break;
      for (const { instanceId } of live) {
        this.#ask(client.raiseEvent(instanceId, 'grow'));
        this.#ask(client.raiseEvent(instanceId, 'end', 'done'));
      }
      await this.rest();
      await this.#clock.advance(healStepMs);
      this.#boundary.wakeUp();
    }
    while (this.#asked.size > 0) await Promise.all(this.#asked);
  }

  async #checkEnd({ client }: Perdure): Promise<void> {
    for (const { instanceId, status } of await this.#list()) {
      if (!isTerminal(status)) this.violations.push(`${instanceId} is stuck in ${status}`);
    }
    if (this.violations.length > 0) return;
    this.#isEnding = true;
    this.#deleted = add(this.#deleted, await client.deleteInstanceBulk({}, { all: true }));
    this.#expectEqual(this.#deleted.instancesDeleted, this.#created, 'what was deleted in all');
    const { items } = await client.listAudit({ limit: 1_000 });
    const recorded = items.reduce<DeleteInstanceResult>(add, nothing);
    this.#expectEqual(recorded, this.#deleted, 'what was recorded');
    const ids = (await this.#list()).map(({ instanceId }) => instanceId);
    this.#expectEqual(ids, [], 'what is left');
    this.violations.push(...(await findRemainingRows(this.#store, new Set())));
  }

  #expectEqual(actual: unknown, expected: unknown, what: string): void {
    const [one, other] = [actual, expected].map((value) => JSON.stringify(value));
    if (one !== other) this.violations.push(`${what} is ${one}, not ${other}`);
  }
}

function countCreated(call: StoreCall): number {
  switch (call.method) {
    case 'createInstances':
      return call.result.reduce((sum, result, index) => {
        if (result.kind !== 'created') return sum;
        return sum + 1 + (call.args[0][index]?.firstTurn?.children.length ?? 0);
      }, 0);
    case 'ackOrchestrationItems':
    case 'ackTurns':
      return call.result.reduce(
        (sum, { ok }, index) => sum + (ok ? (call.args[0][index]?.turn.children.length ?? 0) : 0),
        0,
      );
    default:
      return 0;
  }
}

function add(sum: DeleteInstanceResult, more: DeleteInstanceResult): DeleteInstanceResult {
  return {
    instancesDeleted: sum.instancesDeleted + more.instancesDeleted,
    executionsDeleted: sum.executionsDeleted + more.executionsDeleted,
    eventsDeleted: sum.eventsDeleted + more.eventsDeleted,
    queueMessagesDeleted: sum.queueMessagesDeleted + more.queueMessagesDeleted,
  };
}
