import assert from 'node:assert/strict';
import fc from 'fast-check';
import { isTerminal } from '../../../src/model/status.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { expectInAnyOrder } from '../../../src/testing/conformance/expectations.ts';
import { newTask, outcomes } from '../../../src/testing/conformance/task-helpers.ts';
import type { FakeClock } from '../../../src/testing/fake-clock.ts';
import { lockMs, TaskModel, type HandBack, type NewRun } from './task-model.ts';

const stop = { reason: 'x', actor: null };
const id = fc.constantFrom('a', 'b', 'c');
const delayMs = fc.constantFrom(0, 0, 5, lockMs);
/** The index of a lock token, counted from the newest, because recent tokens are most often valid. */
const which = fc.constantFrom(0, 0, 0, 1, 1, 2, 3);

const create = fc.record({
  kind: fc.constant('create' as const),
  id,
  priority: fc.integer({ min: -1, max: 1 }),
  key: fc.constantFrom(undefined, 'k', 'l'),
  delayMs,
  expiresInMs: fc.constantFrom(undefined, undefined, undefined, 0, 5, lockMs),
  hasOnFail: fc.boolean(),
});
const claim = fc.record({
  kind: fc.constant('claim' as const),
  max: fc.integer({ min: 1, max: 4 }),
});
const ack = fc.record({
  kind: fc.constant('ack' as const),
  which,
  outcome: fc.constantFrom(...outcomes, ...outcomes.filter(({ kind }) => kind === 'failed')),
});
const handBack = fc.record({
  kind: fc.constant('handBack' as const),
  which,
  delayMs,
  how: fc.constantFrom<HandBack>('retry', 'abandon', 'giveBack', 'unstarted'),
});

/** A random step on task runs. */
export const step = fc.oneof(
  { weight: 4, arbitrary: create },
  { weight: 6, arbitrary: claim },
  { weight: 4, arbitrary: ack },
  { weight: 4, arbitrary: handBack },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), which }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('cancel' as const), id }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('terminate' as const), id }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('delete' as const), id, force: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('advance' as const),
      ms: fc.constantFrom(1, 5, lockMs),
    }),
  },
);

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

/** Runs the same steps on a store and on the model, and compares their results. */
export class TaskPair {
  readonly #provider: Provider;
  readonly #clock: FakeClock;
  readonly #model: TaskModel;
  readonly #tokens: string[] = [];
  #finishedHints: string[] = [];

  constructor(provider: Provider, clock: FakeClock) {
    this.#provider = provider;
    this.#clock = clock;
    this.#model = new TaskModel(clock.now());
    provider.hints((hint) => {
      if (hint.kind === 'finished') this.#finishedHints.push(...hint.instanceIds);
    });
  }

  async take(one: Step): Promise<void> {
    this.#finishedHints = [];
    this.#model.finished = [];
    const { actual, expected } = await this.#answers(one);
    assert.deepEqual(actual, expected);
    expectInAnyOrder(this.#finishedHints, this.#model.finished);
    const { instances: records } = await this.#provider.listInstances({
      filter: { kind: 'task' },
      limit: 100,
    });
    const shown = records.map(({ instanceId, status, task, endedAt }) => ({
      id: instanceId,
      status,
      failures: task?.failures,
      onFail: task?.onFail,
      isOver: endedAt !== null,
    }));
    const wanted = Array.from(this.#model.runs.values(), (run) => ({
      id: run.id,
      status: run.status,
      failures: run.failures,
      onFail: run.onFail,
      isOver: isTerminal(run.status),
    }));
    expectInAnyOrder(shown, wanted);
  }

  async #answers(one: Step): Promise<{ readonly actual: unknown; readonly expected: unknown }> {
    const provider = this.#provider;
    const model = this.#model;
    switch (one.kind) {
      case 'create':
        return { actual: await this.#create(one), expected: model.create(one) };
      case 'claim': {
        const items = await provider.fetchWorkItems({ max: one.max, lockMs, waitMs: 0 });
        const runs = model.claim(one.max);
        const expected = runs.map(({ id: runId, item }) => [
          runId,
          item?.kind,
          (item?.claims ?? 0) + 1,
          item?.failures,
          item?.isFlagged,
        ]);
        for (const [index, { lockToken }] of items.entries()) {
          const run = runs[index];
          if (run !== undefined) model.claimed(run, lockToken);
          this.#tokens.push(lockToken);
        }
        const actual = items.map((item) => [
          item.instanceId,
          item.kind,
          item.claims,
          item.failures,
          item.cancel !== null,
        ]);
        return { actual, expected };
      }
      case 'ack': {
        const lockToken = this.#token(one.which);
        const [result] = await provider.ackWorkItems([{ lockToken, outcome: one.outcome }]);
        const actual = result?.ok === true ? ['ok', result.ended ?? []].flat().join(' ') : 'lost';
        return { actual, expected: model.ack(lockToken, one.outcome) };
      }
      case 'handBack': {
        const { how, delayMs: delay } = one;
        const held = { lockToken: this.#token(one.which), delayMs: delay };
        const [actual] =
          how === 'retry'
            ? await provider.retryWorkItems([{ ...held, failure: '{}' }])
            : await provider.abandonWorkItems([
                {
                  ...held,
                  giveBackClaim: how !== 'abandon',
                  unstarted: how === 'unstarted',
                },
              ]);
        return { actual, expected: model.handBack(held.lockToken, delay, how) };
      }
      case 'pass': {
        const lockToken = this.#token(one.which);
        const { kind } = await provider.markPointOfNoReturn(lockToken);
        return { actual: kind, expected: model.passPointOfNoReturn(lockToken) };
      }
      case 'cancel': {
        const request = { instanceId: one.id, cleanupMs: 1, ...stop };
        const [result] = await provider.requestCancel([request]);
        return { actual: toText(result), expected: model.cancel(one.id) };
      }
      case 'terminate': {
        const request = { instanceId: one.id, tree: false, ...stop };
        const [result] = await provider.terminate([request]);
        return { actual: toText(result), expected: model.terminate(one.id) };
      }
      case 'delete': {
        const { force } = one;
        const trees = [{ instanceIds: [one.id], force }];
        const [result] = await provider.deleteInstancesAtomic(trees);
        const actual =
          result?.kind === 'deleted'
            ? `deleted ${result.counts.instancesDeleted}`
            : result?.kind === 'running'
              ? `running ${result.status}`
              : result?.kind;
        return { actual, expected: model.delete(one.id, force) };
      }
      case 'advance':
        await this.#clock.advance(one.ms);
        model.now = this.#clock.now();
        return { actual: null, expected: null };
    }
  }

  async #create(run: NewRun): Promise<string | undefined> {
    const now = this.#clock.now();
    const task = newTask(run.id, {
      priority: run.priority,
      runAt: now + run.delayMs,
      ...(run.key !== undefined && { dedupeKey: run.key }),
      ...(run.expiresInMs !== undefined && { expiresAt: now + run.expiresInMs }),
      ...(run.hasOnFail && { onFail: { options: null } }),
    });
    const [result] = await this.#provider.createTasks([task]);
    return result?.kind === 'active' ? `active ${result.instanceId}` : result?.kind;
  }

  #token(index: number): string {
    return this.#tokens.at(-1 - index) ?? 'none';
  }
}

function toText(
  result:
    | { readonly found: boolean; readonly changed: boolean; readonly status: string | null }
    | undefined,
): string {
  if (result?.found !== true) return 'unknown';
  return `${result.changed ? 'changed' : 'unchanged'} ${result.status ?? ''}`;
}
