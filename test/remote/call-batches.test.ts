import { describe, expect, test } from 'vitest';
import { CallBatches } from '../../src/remote/call-batches.ts';

describe('CallBatches', () => {
  test('calls added together are sent as one batch and get their own results', async () => {
    const sent: (readonly number[])[] = [];
    const batches = new CallBatches<number, number>({
      send: (_group, items) => {
        sent.push(items);
        return Promise.resolve(items.map((item) => item * 2));
      },
    });
    expect(await Promise.all([1, 2, 3].map((item) => batches.add('g', item)))).toEqual([2, 4, 6]);
    expect(sent).toEqual([[1, 2, 3]]);
  });

  test('calls are batched per group', async () => {
    const sent: string[] = [];
    const batches = new CallBatches<number, string>({
      send: (group, items) => {
        sent.push(group);
        return Promise.resolve(items.map(() => group));
      },
    });
    const answers = await Promise.all([
      batches.add('a', 1),
      batches.add('b', 1),
      batches.add('a', 2),
    ]);
    expect(answers).toEqual(['a', 'b', 'a']);
    expect(sent).toEqual(['a', 'b']);
  });

  test('a failed batch rejects its own calls and no later ones', async () => {
    let failures = 1;
    const batches = new CallBatches<number, number>({
      send: (_group, items) =>
        failures-- > 0 ? Promise.reject(new Error('broken')) : Promise.resolve(items),
    });
    const outcomes = await Promise.allSettled([batches.add('g', 1), batches.add('g', 2)]);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(await batches.add('g', 3)).toBe(3);
  });

  test('a batch is split by item count and by weight', async () => {
    const sizes: number[] = [];
    const batches = new CallBatches<number, number>({
      send: (_group, items) => {
        sizes.push(items.length);
        return Promise.resolve(items);
      },
      weigh: (weight) => weight,
    });
    await Promise.all(Array.from({ length: 1_001 }, () => batches.add('light', 1)));
    expect(sizes.splice(0)).toEqual([1_000, 1]);
    await Promise.all(
      [600_000, 600_000, 5_000_000, 1].map((weight) => batches.add('heavy', weight)),
    );
    expect(sizes).toEqual([1, 1, 1, 1]);
  });

  test('maxAtOnce makes later batches of a group wait', async () => {
    const underWay: PromiseWithResolvers<readonly number[]>[] = [];
    const sent: (readonly number[])[] = [];
    const batches = new CallBatches<number, number>({
      send: (_group, items) => {
        sent.push(items);
        const call = Promise.withResolvers<readonly number[]>();
        underWay.push(call);
        return call.promise;
      },
      maxAtOnce: 1,
    });
    const first = batches.add('g', 1);
    await expect.poll(() => sent.length).toBe(1);
    const others = [batches.add('g', 2), batches.add('g', 3)];
    // A batch of another group is not limited. Groups are sent in order, so a batch of `g` would come first.
    const free = batches.add('another', 4);
    await expect.poll(() => sent.length).toBe(2);
    expect(sent).toEqual([[1], [4]]);
    underWay[1]?.resolve([4]);
    underWay[0]?.resolve([1]);
    expect(await Promise.all([first, free])).toEqual([1, 4]);
    await expect.poll(() => sent.length).toBe(3);
    underWay[2]?.resolve([2, 3]);
    expect(await Promise.all(others)).toEqual([2, 3]);
    expect(sent).toEqual([[1], [4], [2, 3]]);
  });
});
