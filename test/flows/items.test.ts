import { describe, expect, it } from 'vitest';
import { Perdure } from 'perdure';
import { createTestEnvironment, testOptions } from 'perdure/testing';
import { flow, readFlowItems, readFlowRun } from 'perdure/flows';
import { describeEngine, modesOfFlows } from '../engine/describe-engine.ts';
import { signalled } from '../engine/signalled.ts';

describeEngine(
  'items of map, reduce and generator steps',
  (open) => {
    it('a map returns its results in array order when items finish in another', async () => {
      const waits: (() => void)[] = [];
      const reversed = flow('reversed')
        .input<readonly number[]>()
        .map('double', { over: ({ input }) => input }, async (_ctx, n) => {
          const { promise, resolve } = Promise.withResolvers<void>();
          waits.push(resolve);
          if (waits.length === 3) for (const wake of waits.toReversed()) wake();
          await promise;
          return n * 2;
        })
        .output();
      const { client } = await open({ flows: [reversed] });
      expect(await (await client.runFlow(reversed, [1, 2, 3])).result()).toEqual([2, 4, 6]);
    });

    it('a map takes items from the input, a step output or another map', async () => {
      const maps = flow('maps')
        .input<{ readonly lines: readonly string[] }>()
        .step('list', () => ({ found: [1, 2] }))
        .map('a', { over: ({ input }) => input.lines }, (ctx, line) => `${ctx.index}${line}`)
        .map(
          'b',
          { needs: ['a'], over: ({ list }) => list.found },
          (_ctx, n, { a }) => n + a.length,
        )
        .map('c', { over: ({ b }) => b }, (_ctx, n) => -n)
        .step('end', { needs: ['a', 'b', 'c'] }, (_ctx, { a, b, c }) => ({ a, b, c }))
        .output();
      const { client } = await open({ flows: [maps] });
      const run = await client.runFlow(maps, { lines: ['x', 'y', 'z'] });
      expect(await run.result()).toEqual({ a: ['0x', '1y', '2z'], b: [4, 5], c: [-4, -5] });
    });

    it('a map over an empty array returns [], and a reduce returns its initial value', async () => {
      const none = flow('none')
        .input<readonly number[]>()
        .map('m', { over: ({ input }) => input }, (_ctx, n) => n)
        .reduce('sum', { over: ({ m }) => m, initial: 100 }, (_ctx, sum, n) => sum + n)
        .step('end', { needs: ['m', 'sum'] }, (_ctx, { m, sum }) => [m, sum])
        .output();
      const { client } = await open({ flows: [none] });
      const run = await client.runFlow(none, []);
      expect(await run.result()).toEqual([[], 100]);
      expect((await readFlowRun(client, run.id))?.steps).toMatchObject([
        { name: 'm', status: 'completed', items: { completed: 0 } },
        { name: 'sum', status: 'completed', output: 100 },
        { name: 'end', status: 'completed' },
      ]);
    });

    it('a map over a value that is not an array fails its step', async () => {
      const wrong = flow('wrong')
        .input<readonly number[]>()
        .map('m', { over: ({ input }) => input }, (_ctx, n) => n)
        .output();
      const { client } = await open({ flows: [wrong] });
      const run = await client.runFlow(wrong, { length: 1 } as never);
      await expect(run.result()).rejects.toMatchObject({
        failure: {
          details: { step: 'm' },
          message: expect.stringContaining('must be an array: it is object'),
        },
      });
      expect((await readFlowRun(client, run.id))?.steps[0]?.status).toBe('failed');
    });

    it('a failed map item is retried without the other items', async () => {
      const attempts: string[] = [];
      const flaky = flow('flaky')
        .map(
          'm',
          { over: ({ input }) => input as never, retry: { maxAttempts: 3, initialDelay: 1 } },
          (ctx, n: number) => {
            attempts.push(`${n}.${ctx.attempt}`);
            if (n === 2 && ctx.attempt < 3) throw new Error('not yet');
            return n;
          },
        )
        .output();
      const { client } = await open({ flows: [flaky] });
      const run = await client.runFlow(flaky, [1, 2, 3] as never);
      expect(await run.result()).toEqual([1, 2, 3]);
      expect(attempts.toSorted()).toEqual(['1.1', '2.1', '2.2', '2.3', '3.1']);
      const { items } = await readFlowItems(client, run.id, 'm');
      expect(items).toMatchObject([
        { index: 0, item: 1, status: 'completed', attempts: 1, output: 1 },
        { index: 1, item: 2, status: 'completed', attempts: 3, output: 2 },
        { index: 2, item: 3, status: 'completed', attempts: 1, output: 3 },
      ]);
    });

    it('a map never runs more items concurrently than its concurrency', async () => {
      let running = 0;
      let most = 0;
      const bounded = flow('bounded')
        .input<readonly number[]>()
        .map('m', { over: ({ input }) => input, concurrency: 3 }, async () => {
          running += 1;
          most = Math.max(most, running);
          await new Promise((resolve) => setImmediate(resolve));
          running -= 1;
          return 1;
        })
        .reduce('sum', { over: ({ m }) => m, initial: 0, batch: 7 }, (_ctx, sum, n) => sum + n)
        .output();
      const { client } = await open({ flows: [bounded] });
      const run = await client.runFlow(
        bounded,
        Array.from({ length: 20 }, (_, index) => index),
      );
      expect(await run.result()).toBe(20);
      expect(most).toBeLessThanOrEqual(3);
    });

    it('a reduce folds items in order while later map items still run', async () => {
      const { promise: hasFolded, resolve: fold } = Promise.withResolvers<void>();
      const stream = flow('stream')
        .input<readonly string[]>()
        .map('m', { over: ({ input }) => input }, async (_ctx, letter) => {
          if (letter === 'z') await hasFolded;
          return letter.toUpperCase();
        })
        .reduce('word', { over: ({ m }) => m, initial: '', batch: 2 }, (_ctx, word, letter) => {
          fold();
          return word + letter;
        })
        .output();
      const { client } = await open({ flows: [stream] });
      const run = await client.runFlow(stream, ['a', 'b', 'c', 'z']);
      expect(await run.result()).toBe('ABCZ');
    });

    it('a retried reduce repeats only the batch that failed', async () => {
      const folded: string[] = [];
      const retried = flow('retried')
        .input<readonly string[]>()
        .reduce(
          'word',
          {
            over: ({ input }) => input,
            initial: '',
            batch: 2,
            retry: { maxAttempts: 2, initialDelay: 1 },
          },
          (ctx, word, letter) => {
            folded.push(letter);
            if (letter === 'd' && ctx.attempt === 1) throw new Error('again');
            return word + letter;
          },
        )
        .output();
      const { client } = await open({ flows: [retried] });
      expect(await (await client.runFlow(retried, ['a', 'b', 'c', 'd', 'e'])).result()).toBe(
        'abcde',
      );
      expect(folded.join('')).toBe('abcdcde');
    });

    it('a reduce splits items that exceed the payload limit into smaller batches', async () => {
      const large = flow('large')
        .input<readonly number[]>()
        .map('m', { over: ({ input }) => input }, (_ctx, n) => ({
          n,
          text: 'x'.repeat(300_000),
        }))
        .reduce('fold', { over: ({ m }) => m, initial: [] as number[] }, (_ctx, all, { n }) => [
          ...all,
          n,
        ])
        .output();
      const { client } = await open({ flows: [large] });
      const numbers = Array.from({ length: 12 }, (_, index) => index);
      const run = await client.runFlow(large, numbers);
      expect(await run.result()).toEqual(numbers);
      const [, fold] = (await readFlowRun(client, run.id))?.steps ?? [];
      expect(fold).toMatchObject({ name: 'fold', status: 'completed', output: numbers });
    });

    it('items of a generator are handled while the generator still runs', async () => {
      const { promise: firstIsDone, resolve: done } = Promise.withResolvers<void>();
      const pages = flow('pages')
        .generator(
          'g',
          {},
          async function* () {
            yield 1;
            await firstIsDone;
            yield 2;
          },
          (_ctx, n) => {
            done();
            return n * 10;
          },
        )
        .reduce('sum', { over: ({ g }) => g, initial: 0 }, (_ctx, sum, n) => sum + n)
        .step('end', { needs: ['g', 'sum'] }, (_ctx, { g, sum }) => ({ g, sum }))
        .output();
      const { client } = await open({ flows: [pages] });
      expect(await (await client.runFlow(pages)).result()).toEqual({ g: [10, 20], sum: 30 });
    });

    it.each([
      { resumes: false, begins: [0, 0, 0] },
      { resumes: true, begins: [0, 150, 150] },
    ])('a retried generator delivers each item once (resumes: $resumes)', async (variant) => {
      const { resumes, begins } = variant;
      const began: number[] = [];
      const handled: number[] = [];
      const rows = flow('rows')
        .generator(
          'g',
          { resumes, retry: { maxAttempts: 3, initialDelay: 1 } },
          async function* (ctx) {
            const from = resumes ? ctx.yielded : 0;
            began.push(from);
            for (let row = from; row < 250; row += 1) {
              if (row === 150 && ctx.attempt < 3) throw new Error('connection lost');
              yield row;
            }
          },
          (_ctx, row) => {
            handled.push(row);
            return row;
          },
        )
        .output();
      const { client } = await open({ flows: [rows] });
      const all = Array.from({ length: 250 }, (_, row) => row);
      expect(await (await client.runFlow(rows)).result()).toEqual(all);
      expect(handled.toSorted((a, b) => a - b)).toEqual(all);
      expect(began).toEqual(begins);
    });

    it('items from a stale generator attempt are deduplicated by offset', async () => {
      const isStale = signalled<void>();
      const handled: string[] = [];
      const rows = flow('rows')
        .generator(
          'g',
          {},
          async function* () {
            await isStale.promise;
            yield* ['a', 'b', 'c'];
          },
          (_ctx, row) => {
            handled.push(row);
            return row;
          },
        )
        .output();
      const { client } = await open({ flows: [rows] });
      const run = await client.runFlow(rows);
      // A stale attempt delivers two items, twice.
      const stale = { offset: 0, items: ['a', 'b'] };
      await run.raiseEvent('$items/g', stale);
      await run.raiseEvent('$items/g', stale);
      isStale.resolve();
      expect(await run.result()).toEqual(['a', 'b', 'c']);
      expect(handled.toSorted()).toEqual(['a', 'b', 'c']);
    });

    it('a generator can yield items that together exceed the payload limit', async () => {
      const pages = flow('pages')
        .generator(
          'page',
          {},
          async function* () {
            for (let n = 0; n < 7; n += 1) yield String(n).repeat(900_000);
          },
          (_ctx, page) => page.charAt(0),
        )
        .output();
      const { client } = await open({ flows: [pages] });
      const run = await client.runFlow(pages);
      expect(await run.result()).toEqual(['0', '1', '2', '3', '4', '5', '6']);
    });

    it('a generator that yields nothing completes with an empty array', async () => {
      const silent = flow('silent')
        .generator(
          'g',
          { needs: [] },
          async function* () {
            if (Date.now() < 0) yield 1;
          },
          (_ctx, n) => n,
        )
        .output();
      const { client } = await open({ flows: [silent] });
      const run = await client.runFlow(silent);
      expect(await run.result()).toEqual([]);
      expect((await readFlowRun(client, run.id))?.steps[0]).toMatchObject({ status: 'completed' });
    });

    it('a failing generator fails the run, and so does a failing item', async () => {
      const broken = flow('broken')
        .input<string>()
        .generator(
          'g',
          {},
          async function* (_ctx, { input }) {
            yield 1;
            if (input === 'generator') throw new Error('no more pages');
            yield 2;
          },
          (_ctx, n) => {
            if (n === 2) throw new Error('bad page');
            return n;
          },
        )
        .output();
      const { client } = await open({ flows: [broken] });
      const first = await client.runFlow(broken, 'generator');
      await expect(first.result()).rejects.toMatchObject({
        failure: { message: expect.stringContaining('no more pages'), details: { step: 'g' } },
      });
      const second = await client.runFlow(broken, 'item');
      await expect(second.result()).rejects.toMatchObject({
        failure: { message: expect.stringContaining('bad page'), details: { step: 'g', index: 1 } },
      });
    });
  },
  modesOfFlows,
);

// Without a warm cache an instance does not know which of its items are still queued, so the order is not guaranteed.
describeEngine(
  'order of map items',
  (open) => {
    it('map items start in array order with fewer slots than scheduled items', async () => {
      const began: number[] = [];
      const ordered = flow('ordered')
        .input<readonly number[]>()
        .map('m', { over: ({ input }) => input, concurrency: 4 }, (_ctx, n) => void began.push(n))
        .output();
      const { client } = await open({ flows: [ordered], activityConcurrency: 1 });
      const all = Array.from({ length: 20 }, (_, index) => index);
      await (await client.runFlow(ordered, all)).result();
      expect(began).toEqual(all);
    });
  },
  modesOfFlows.filter((mode) => mode !== 'no warm cache'),
);

describe('flows with many items', () => {
  it('a map of 2,000 items makes one call each, and its items are paged', async () => {
    const wide = flow('wide')
      .input<number>()
      .step('list', (_ctx, { input }) => Array.from({ length: input }, (_, index) => index))
      .map('m', { over: ({ list }) => list, concurrency: 500 }, (_ctx, n) => n + 1)
      .reduce('sum', { over: ({ m }) => m, initial: 0 }, (_ctx, sum, n) => sum + n)
      .output();
    await using environment = await createTestEnvironment({ flows: [wide], alwaysReplay: false });
    const { client } = environment;
    const run = await client.runFlow(wide, 2_000);
    expect(await environment.result(run)).toBe(2_001_000);
    const { events } = await client.exportHistory(run.id);
    // One list, 2,000 items and 20 batches have two events each; 10 are left for start, end and cancels.
    expect(events.length).toBeLessThan(2 * 2_021 + 10);
    const page = await readFlowItems(client, run.id, 'm', { after: 899, limit: 50 });
    expect(page.items).toHaveLength(50);
    expect(page.items[0]).toMatchObject({ index: 900, item: 900, output: 901 });
    expect(page.nextAfter).toBe(949);
    const last = await readFlowItems(client, run.id, 'm', { after: 1_989, limit: 10 });
    expect(last.items).toHaveLength(10);
    expect(last.nextAfter).toBeUndefined();
    await expect(readFlowItems(client, run.id, 'sum')).rejects.toMatchObject({
      code: 'INVALID_FLOW',
    });
    expect((await readFlowRun(client, run.id))?.steps[1]?.items).toMatchObject({
      completed: 2_000,
      queued: 0,
    });
  });

  it('a generator that outpaces its run loses no items', async () => {
    const fast = flow('fast')
      .generator(
        'g',
        {},
        async function* () {
          for (let row = 0; row < 1_050; row += 1) yield row;
        },
        (_ctx, row) => row,
      )
      .reduce('sum', { over: ({ g }) => g, initial: 0 }, (_ctx, sum, row) => sum + row)
      .output();
    await using perdure = await Perdure.open(':memory:', { maxBufferedEvents: 1 });
    await perdure.startWorker({ flows: [fast], ...testOptions({ fastPaths: false }) });
    const run = await perdure.client.runFlow(fast);
    expect(await run.result()).toBe((1_049 * 1_050) / 2);
  });
});
