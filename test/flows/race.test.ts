import { describe, expect, onTestFinished, test } from 'vitest';
import { Perdure } from 'perdure';
import { flow, readFlowRun } from 'perdure/flows';
import { engineStores } from '../engine/engine-store.ts';

const iterations = 1_000;
const atOnce = 10;

type Plan = 'complete' | 'fail' | 'retry' | 'early';

const plans: readonly Plan[] = ['complete', 'fail', 'retry', 'early'];

describe.each(['SQLite', 'PostgreSQL'] as const)('races of flow runs on %s', (kind) => {
  const newStore = engineStores(kind);

  test('exactly one of cancel, completion and failure wins and is notified once', async () => {
    const store = await newStore();
    onTestFinished(() => store.remove());
    const provider = await store.open();
    const perdure = await Perdure.open(provider);
    onTestFinished(() => perdure.close());
    const { client } = perdure;
    const finished = new Map<string, number>();
    provider.hints((hint) => {
      if (hint.kind !== 'finished') return;
      for (const id of hint.instanceIds) finished.set(id, (finished.get(id) ?? 0) + 1);
    });
    const onFails: string[] = [];
    const racing = flow('racing')
      .input<Plan>()
      .completesEarly<string>()
      .step('a', { retry: { maxAttempts: 2, initialDelay: 1, jitter: 0 } }, (ctx, { input }) => {
        if (input === 'early') ctx.completeEarly('early', 'seen enough');
        if (input === 'fail') throw Object.assign(new Error('failed'), { nonRetryable: true });
        if (input === 'retry' && ctx.attempt === 1) throw new Error('once more');
        return input;
      })
      .step('b', { needs: ['a'] }, (_ctx, { a }) => a)
      .onFail((ctx) => void onFails.push(ctx.runId))
      .output();
    await perdure.startWorker({ flows: [racing], activityConcurrency: 20 });
    // Upper limit of the event-loop turns between start and cancel. It follows the store's speed, so that each side wins about half.
    let reach = 24;
    const race = async (index: number): Promise<readonly [id: string, status: string]> => {
      const plan = plans[index % plans.length] ?? 'complete';
      const { id } = await client.runFlow(racing, plan, { id: `race-${index}` });
      // Multiples of the golden ratio are spread evenly over the range, for every plan.
      const turns = Math.floor(((index * 0.618_034) % 1) * reach);
      for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate);
      const { status } = await client.cancel(id, { reason: 'race' });
      const info = await client.wait(id);
      // A turn that runs during the request may still end the run, so `canceling` is not final.
      if (status !== 'canceling') expect(info.status).toBe(status);
      expect(info).toMatchObject(
        {
          completed: { output: plan },
          failed: { failure: { cause: { message: 'failed' } } },
          canceled: { cancel: { reason: 'race' } },
        }[info.status as 'completed' | 'failed' | 'canceled'],
      );
      return [id, info.status];
    };
    const ends: (readonly [string, string])[] = [];
    for (let index = 0; index < iterations; index += atOnce) {
      const batch = Array.from({ length: atOnce }, (_, offset) => race(index + offset));
      const results = await Promise.all(batch);
      ends.push(...results);
      const canceled = results.filter(([, status]) => status === 'canceled').length;
      reach = Math.max(2, Math.min(5_000, canceled > atOnce / 2 ? reach * 1.25 : reach / 1.25));
    }
    for (const [id, status] of ends) {
      const run = await readFlowRun(client, id);
      expect(run?.status).toBe(status);
      for (const step of run?.steps ?? []) {
        expect(['completed', 'failed', 'canceled']).toContain(step.status);
      }
      const { events } = await client.exportHistory(id);
      const terminal = events.filter(({ kind: each }) =>
        ['executionCompleted', 'executionFailed', 'executionCanceled'].includes(each),
      );
      // A run that is canceled before its first turn has no history.
      if (events.length > 0 || status !== 'canceled') {
        expect(terminal.map(({ kind: each }) => each.toLowerCase())).toEqual([
          `execution${status}`,
        ]);
      }
      expect(finished.get(id)).toBe(1);
      if (status !== 'failed') expect(onFails).not.toContain(id);
    }
    // A race that one side always wins proves nothing.
    for (const wanted of ['completed', 'failed', 'canceled']) {
      expect(ends.filter(([, status]) => status === wanted).length).toBeGreaterThan(20);
    }
  }, 120_000);
});
