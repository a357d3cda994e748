/** Bulk deletion through the client, with a real worker. docs/seed-tests.md maps the seed cases. */
import { expect, it } from 'vitest';
import type { DeleteProgress } from 'perdure';
import {
  chain,
  complete,
  emptyStore,
  fails,
  remainingIds,
  leaves,
  quick,
  until,
  waits,
  countRemaining,
  describeManaged,
} from './managed-store.ts';

const day = 86_400_000;

function names(prefix: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

describeManaged('deleteInstanceBulk()', ({ openManaged }) => {
  it('deleteInstanceBulk() with all: true deletes every finished root and no running instance', async () => {
    const { client } = await openManaged();
    await complete(client, ['a', 'b']);
    await expect((await client.start(fails, undefined, { id: 'f' })).result()).rejects.toThrow(
      'on purpose',
    );
    await (await client.start(chain, { below: 1, wait: false }, { id: 'tree' })).result();
    await client.start(waits, undefined, { id: 'w' });
    expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject({
      instancesDeleted: 5,
    });
    expect(await remainingIds(client)).toEqual(['w']);
    expect(await client.deleteInstanceBulk({}, { all: true })).toEqual({
      instancesDeleted: 0,
      executionsDeleted: 0,
      eventsDeleted: 0,
      queueMessagesDeleted: 0,
    });
  });

  it('deleteInstanceBulk() counts repeated ids once and ignores unknown and running ids', async () => {
    const { client } = await openManaged();
    await complete(client, ['a', 'b', 'c']);
    await client.start(waits, undefined, { id: 'w' });
    const instanceIds = ['a', 'a', 'nobody', 'w', 'b', 'a'];
    expect(await client.deleteInstanceBulk({ instanceIds })).toMatchObject({ instancesDeleted: 2 });
    expect(await remainingIds(client)).toEqual(['c', 'w']);
    expect(await client.deleteInstanceBulk({ instanceIds: [] })).toMatchObject({
      instancesDeleted: 0,
    });
  });

  it('deleteInstanceBulk() with instanceIds: undefined rejects with INVALID_OPTION', async () => {
    const { client } = await openManaged();
    await complete(client, ['a']);
    const filter = { instanceIds: undefined } as never;
    await expect(client.deleteInstanceBulk(filter)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
    expect(await remainingIds(client)).toEqual(['a']);
  });

  it('deleteInstanceBulk() skips the id of a child and deletes it with its root', async () => {
    const { client } = await openManaged();
    await (await client.start(chain, { below: 2, wait: false }, { id: 'r' })).result();
    expect(await client.deleteInstanceBulk({ instanceIds: ['r-c', 'r-c-c'] })).toMatchObject({
      instancesDeleted: 0,
    });
    expect(await client.deleteInstanceBulk({ instanceIds: ['r-c', 'r'] })).toMatchObject({
      instancesDeleted: 3,
    });
  });

  it('deleteInstanceBulk() skips a finished root that has a running child', async () => {
    const { client } = await openManaged();
    await client.start(leaves, undefined, { id: 'l' });
    await complete(client, ['a']);
    await until(async () => (await client.get('l'))?.status === 'completed');
    const progress: DeleteProgress[] = [];
    await client.deleteInstanceBulk({}, { all: true, onProgress: (one) => progress.push(one) });
    expect(progress.at(-1)).toMatchObject({
      rootsDeleted: 1,
      rootsSkipped: 1,
      instancesDeleted: 1,
    });
    expect(await remainingIds(client)).toEqual(['l', 'l-child']);
  });

  it('deleteInstanceBulk() combines ids, completedBefore, status and name with AND', async () => {
    const { client, clock } = await openManaged();
    await complete(client, ['old-1', 'old-2']);
    await expect((await client.start(fails, undefined, { id: 'old-f' })).result()).rejects.toThrow(
      'on purpose',
    );
    await clock.advance('1d');
    await complete(client, ['new-1']);
    const completedBefore = clock.now();
    const count = async (filter: object): Promise<number> =>
      (await client.deleteInstanceBulk(filter, { dryRun: true })).instancesDeleted;
    expect(await count({ completedBefore })).toBe(3);
    expect(await count({ completedBefore: new Date(completedBefore) })).toBe(3);
    expect(await count({ completedBefore, instanceIds: ['old-1', 'new-1'] })).toBe(1);
    expect(await count({ completedBefore, status: 'failed' })).toBe(1);
    expect(await count({ status: ['completed', 'failed'] })).toBe(4);
    expect(await count({ name: 'qui*' })).toBe(3);
    expect(await count({ name: ['fails', 'q*k'], completedBefore })).toBe(3);
    expect(await count({ name: 'quick', status: 'failed' })).toBe(0);
    expect(await count({ instanceIds: ['old-f'], name: 'quick' })).toBe(0);
  });

  it('deleteInstanceBulk() applies limit after the other conditions and counts deleted roots', async () => {
    const { client } = await openManaged();
    const ids = names('i', 6);
    await complete(client, ids);
    await client.start(waits, undefined, { id: 'w' });
    expect(await client.deleteInstanceBulk({ limit: 0 }, { all: true })).toMatchObject({
      instancesDeleted: 0,
    });
    expect(
      await client.deleteInstanceBulk({ instanceIds: ['nobody', 'w', ...ids], limit: 2 }),
    ).toMatchObject({ instancesDeleted: 2 });
    expect(await client.deleteInstanceBulk({ limit: 3 }, { all: true })).toMatchObject({
      instancesDeleted: 3,
    });
    expect(
      await client.deleteInstanceBulk({ limit: Number.MAX_SAFE_INTEGER }, { all: true }),
    ).toMatchObject({
      instancesDeleted: 1,
    });
    expect(await remainingIds(client)).toEqual(['w']);
  });

  it('deleteInstanceBulk() does not count a skipped tree towards limit', async () => {
    const { client } = await openManaged();
    await client.start(leaves, undefined, { id: 'l' });
    await until(async () => (await client.get('l'))?.status === 'completed');
    await complete(client, ['a', 'b']);
    expect(await client.deleteInstanceBulk({ limit: 1 }, { all: true })).toMatchObject({
      instancesDeleted: 1,
    });
    expect(await remainingIds(client)).toEqual(['b', 'l', 'l-child']);
  });

  it('deleteInstanceBulk() without limit deletes 1,000 roots; the next call deletes the rest', async () => {
    const { client } = await openManaged();
    await complete(client, names('i', 1_100));
    expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject({
      instancesDeleted: 1_000,
    });
    expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject({
      instancesDeleted: 100,
    });
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  it('deleteInstanceBulk() with 100,000 ids deletes those that exist', async () => {
    const { client } = await openManaged();
    await complete(client, ['i5', 'i99999']);
    const instanceIds = names('i', 100_000);
    expect(await client.deleteInstanceBulk({ instanceIds })).toMatchObject({ instancesDeleted: 2 });
  });

  it('deleteInstanceBulk() with dryRun returns exact counts, deletes nothing and writes no audit record', async () => {
    const { client } = await openManaged();
    await complete(client, names('i', 40));
    await (await client.start(chain, { below: 2, wait: false }, { id: 't' })).result();
    await client.start(leaves, undefined, { id: 'l' });
    await until(async () => (await client.get('l'))?.status === 'completed');
    const before = await remainingIds(client);
    const foretold = await client.deleteInstanceBulk({ limit: 30 }, { all: true, dryRun: true });
    const all = await client.deleteInstanceBulk({}, { all: true, dryRun: true });
    expect(await remainingIds(client)).toEqual(before);
    expect((await client.listAudit()).items).toEqual([]);
    expect(foretold.instancesDeleted).toBe(30);
    expect(await client.deleteInstanceBulk({ limit: 30 }, { all: true })).toEqual(foretold);
    const rest = await client.deleteInstanceBulk({}, { all: true });
    expect(rest.eventsDeleted + foretold.eventsDeleted).toBe(all.eventsDeleted);
    expect(rest.instancesDeleted + foretold.instancesDeleted).toBe(43);
  });

  it('onProgress of deleteInstanceBulk() reports growing counts that end at the result', async () => {
    const { client } = await openManaged();
    await complete(client, names('i', 100));
    const progress: DeleteProgress[] = [];
    const result = await client.deleteInstanceBulk(
      {},
      { all: true, onProgress: (one) => progress.push(one) },
    );
    expect(progress.length).toBeGreaterThan(1);
    const counts = progress.map(({ instancesDeleted }) => instancesDeleted);
    expect(counts).toEqual([...new Set(counts)].toSorted((a, b) => a - b));
    expect(progress.at(-1)).toEqual({ ...result, rootsDeleted: 100, rootsSkipped: 0 });
  });

  it('deleteInstanceBulk() rejects with the abort reason between transactions; the next call continues', async () => {
    const { client } = await openManaged();
    await complete(client, names('i', 100));
    const stop = new AbortController();
    const reason = new Error('enough');
    let gone = 0;
    const onProgress = ({ instancesDeleted }: DeleteProgress): void => {
      gone = instancesDeleted;
      stop.abort(reason);
    };
    await expect(
      client.deleteInstanceBulk({}, { all: true, onProgress, signal: stop.signal }),
    ).rejects.toBe(reason);
    expect(gone).toBeGreaterThan(0);
    expect(await remainingIds(client)).toHaveLength(100 - gone);
    expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject({
      instancesDeleted: 100 - gone,
    });
    await expect(client.deleteInstanceBulk({}, { all: true, signal: stop.signal })).rejects.toBe(
      reason,
    );
  });

  it('deleteInstanceBulk() rejects with the error that onProgress throws', async () => {
    const { client } = await openManaged();
    await complete(client, names('i', 100));
    const onProgress = (): never => {
      throw new Error('no screen');
    };
    await expect(client.deleteInstanceBulk({}, { all: true, onProgress })).rejects.toThrow(
      'no screen',
    );
    expect((await remainingIds(client)).length).toBeGreaterThan(0);
  });

  it('deleteInstanceBulk() keeps a new instance that reuses a selected id during the deletion', async () => {
    let meanwhile: (() => Promise<unknown>) | undefined;
    const { client } = await openManaged({}, (store) => ({
      ...store,
      deleteInstancesAtomic: async (trees) => {
        const once = meanwhile;
        meanwhile = undefined;
        await once?.();
        return store.deleteInstancesAtomic(trees);
      },
    }));
    await complete(client, ['a', 'b']);
    meanwhile = async () => {
      await client.deleteInstance('a');
      await (await client.start(quick, 'new', { id: 'a' })).result();
    };
    expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject({
      instancesDeleted: 1,
    });
    expect(await remainingIds(client)).toEqual(['a']);
  });

  it('concurrent deleteInstanceBulk() calls count each deleted instance once', async () => {
    const { client } = await openManaged();
    await complete(client, names('i', 200));
    const results = await Promise.all(
      [1, 2, 3].map(() => client.deleteInstanceBulk({}, { all: true })),
    );
    const sum = results.reduce((total, { instancesDeleted }) => total + instancesDeleted, 0);
    expect(sum).toBe(200);
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  it('new instances complete while deleteInstanceBulk() deletes others', async () => {
    const { client } = await openManaged();
    await complete(client, names('old', 300));
    const deleting = client.deleteInstanceBulk({ instanceIds: names('old', 300) });
    await complete(client, names('new', 50));
    expect(await deleting).toMatchObject({ instancesDeleted: 300 });
    expect(await remainingIds(client)).toHaveLength(50);
  });

  it('deleteInstanceBulk() without conditions rejects unless the caller passes all: true', async () => {
    const { client } = await openManaged();
    await complete(client, ['a', 'b']);
    for (const filter of [undefined, {}, { limit: 5 }, { status: undefined, name: undefined }]) {
      for (const options of [undefined, {}, { all: false }, { dryRun: true }]) {
        await expect(client.deleteInstanceBulk(filter, options)).rejects.toMatchObject({
          code: 'INVALID_OPTION',
          message: expect.stringContaining('all: true') as string,
        });
      }
    }
    expect(await remainingIds(client)).toEqual(['a', 'b']);
    await expect(client.deleteInstanceBulk({}, { all: 'yes' as never })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
    expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject({
      instancesDeleted: 2,
    });
  });

  it('deleteInstanceBulk() with invalid filters or options rejects and deletes nothing', async () => {
    const { client } = await openManaged();
    await complete(client, ['a']);
    const bad: readonly (readonly [unknown, unknown?])[] = [
      [null],
      ['a'],
      [[]],
      [new Set(['a'])],
      [new Map([['limit', 5]])],
      [Promise.resolve({ limit: 5 })],
      [{ ids: ['a'] }],
      [{ instanceIds: 'a' }],
      [{ limit: -1 }],
      [{ limit: 1.5 }],
      [{ limit: Number.NaN }],
      [{ limit: Number.POSITIVE_INFINITY }],
      [{ limit: '5' }],
      [{ completedBefore: -1 }],
      [{ completedBefore: 1.5 }],
      [{ completedBefore: Number.NaN }],
      [{ completedBefore: new Date(Number.NaN) }],
      [{ completedBefore: 'yesterday' }],
      [{ completedBefore: 9e15 }],
      [{ status: 'running' }],
      [{ status: [] }],
      [{ status: ['completed', 'pending'] }],
      [{ name: [] }],
      [{}, { dryRun: 'no' }],
      [{}, { dryrun: true }],
      [{}, { signal: {} }],
      [{}, { onProgress: 'log' }],
      [{}, null],
    ];
    for (const [filter, options] of bad) {
      await expect(
        client.deleteInstanceBulk(filter as never, options as never),
      ).rejects.toMatchObject({ code: 'INVALID_OPTION' });
    }
    await expect(client.deleteInstanceBulk({ instanceIds: [''] })).rejects.toMatchObject({
      code: 'INVALID_ID',
    });
    await expect(client.deleteInstanceBulk({ instanceIds: [5 as never] })).rejects.toMatchObject({
      code: 'INVALID_ID',
    });
    expect(await remainingIds(client)).toEqual(['a']);
  });

  it('deleteInstanceBulk() with completedBefore in the future deletes every finished instance', async () => {
    const { client, clock } = await openManaged();
    await complete(client, ['a']);
    expect(
      await client.deleteInstanceBulk({ completedBefore: clock.now() + 365 * day }),
    ).toMatchObject({ instancesDeleted: 1 });
  });

  it('deleteInstanceBulk() with completedBefore deletes only instances that ended before that time', async () => {
    const { client, clock } = await openManaged();
    await complete(client, ['six-days']);
    await clock.advance('1d');
    await complete(client, ['five-days']);
    await clock.advance('1d');
    await complete(client, ['four-days']);
    // The age counts from the end of the instance, not from its start.
    await client.start(waits, undefined, { id: 'long' });
    await clock.advance('4d');
    await client.raiseEvent('long', 'go', 'on');
    await client.wait('long');
    const completedBefore = clock.now() - 5 * day;
    expect(await client.deleteInstanceBulk({ completedBefore })).toMatchObject({
      instancesDeleted: 1,
    });
    expect(await remainingIds(client)).toEqual(['five-days', 'four-days', 'long']);
  });

  it('completedBefore is compared to the millisecond, and endedAt is an integer', async () => {
    const { client, clock } = await openManaged();
    await clock.advance(123);
    await complete(client, ['a']);
    const { endedAt } = (await client.get('a')) ?? {};
    expect(endedAt).toBe(clock.now());
    expect(Number.isSafeInteger(endedAt)).toBe(true);
    expect(await client.deleteInstanceBulk({ completedBefore: clock.now() })).toMatchObject({
      instancesDeleted: 0,
    });
    expect(await client.deleteInstanceBulk({ completedBefore: clock.now() + 1 })).toMatchObject({
      instancesDeleted: 1,
    });
  });
});
