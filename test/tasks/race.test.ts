import { describe, expect, onTestFinished, test } from 'vitest';
import { Perdure, task, type TaskEnded } from '../../src/index.ts';
import { isTerminal } from '../../src/model/status.ts';
import { engineStores } from '../engine/engine-store.ts';

const iterations = 1_000;

type Plan = 'complete' | 'fail' | 'retry' | 'heed';

/** A seeded generator, so that a failing race can be repeated. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Waits some iterations of the event loop, to land before, during or after a claim, a run or an ack. */
async function waitTicks(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

describe.each(['SQLite', 'PostgreSQL'] as const)('races of task runs (%s)', (kind) => {
  const newStore = engineStores(kind);

  test('exactly one of cancel, completion and failure wins and is reported once', async () => {
    const store = await newStore();
    onTestFinished(() => store.remove());
    const provider = await store.open();
    const perdure = await Perdure.open(provider);
    onTestFinished(() => perdure.close());
    const { client } = perdure;
    const random = randomFrom(20_261_116);
    const finished = new Map<string, number>();
    const ended = new Map<string, TaskEnded[]>();
    const held = new Set<string>();
    let onFails = 0;
    provider.hints((hint) => {
      if (hint.kind !== 'finished') return;
      for (const id of hint.instanceIds) finished.set(id, (finished.get(id) ?? 0) + 1);
    });
    const racer = task(
      'racer',
      async (ctx, { plan, turns }: { plan: Plan; turns: number }) => {
        await waitTicks(turns);
        if (plan === 'heed') await ctx.canceled();
        if (plan === 'fail') throw Object.assign(new Error('failed'), { nonRetryable: true });
        if (plan === 'retry' && ctx.attempt === 1) throw new Error('once more');
        return plan;
      },
      {
        retry: { maxAttempts: 2, initialDelay: 1 },
        onFail: { handler: () => void (onFails += 1) },
      },
    );
    await perdure.startWorker({
      tasks: [racer],
      activityConcurrency: 20,
      hooks: {
        taskEnded: (run) => ended.set(run.instanceId, [...(ended.get(run.instanceId) ?? []), run]),
      },
    });
    const plans: readonly Plan[] = ['complete', 'fail', 'retry', 'heed'];
    // Maximum distance of start and cancel. Adapts to the speed of the store, so that each side wins half of the races.
    let reach = 12;
    const race = async (index: number): Promise<string> => {
      const plan = plans[index % plans.length] ?? 'complete';
      const id = `race-${index}`;
      const turns = Math.floor(random() * 4);
      await client.runTask(racer, { plan, turns }, { id, dedupeKey: id });
      await waitTicks(Math.floor(random() * reach));
      const { status } = await client.cancel(id, { reason: 'race' });
      const info = await client.wait(id);
      expect(isTerminal(info.status)).toBe(true);
      // A terminal status that cancel() returned is final.
      if (status !== null && isTerminal(status)) expect(info.status).toBe(status);
      if (status === 'canceling') {
        expect(info.status).toBe('canceled');
        held.add(id);
      }
      expect(info).toMatchObject(
        {
          completed: { output: plan },
          failed: { failure: { message: 'failed' } },
          canceled: { cancel: { reason: 'race' } },
        }[info.status as 'completed' | 'failed' | 'canceled'],
      );
      return info.status;
    };
    const statuses = new Map<string, string>();
    for (let index = 0; index < iterations; index += 10) {
      const batch = Array.from({ length: 10 }, (_, offset) => index + offset);
      const results = await Promise.all(batch.map((one) => race(one)));
      results.forEach((status, offset) => statuses.set(`race-${index + offset}`, status));
      const canceled = results.filter(
        (status, offset) =>
          status === 'canceled' && plans[(index + offset) % plans.length] !== 'heed',
      );
      reach = Math.max(2, Math.min(500, canceled.length > 3 ? reach * 1.25 : reach / 1.25));
    }
    for (const [id, status] of statuses) {
      expect((await client.get(id))?.status).toBe(status);
      expect(finished.get(id)).toBe(1);
      const hooks = ended.get(id) ?? [];
      expect(hooks.length).toBeLessThanOrEqual(1);
      // The worker reports every run whose handler it had to stop, even before a retry.
      if (status !== 'canceled' || held.has(id)) expect(hooks).toHaveLength(1);
      for (const hook of hooks) expect(hook.status).toBe(status);
      // The dedupe key is free once the run has ended.
      expect(
        await client.runTask(racer, { plan: 'heed', turns: 0 }, { dedupeKey: id, delay: '1h' }),
      ).toMatchObject({ created: true });
    }
    const count = (wanted: string): number =>
      [...statuses.values()].filter((status) => status === wanted).length;
    await expect.poll(() => onFails).toBe(count('failed'));
    // Each outcome must occur for the race to be meaningful.
    for (const status of ['completed', 'failed', 'canceled'])
      expect(count(status)).toBeGreaterThan(20);
  }, 120_000);
});
