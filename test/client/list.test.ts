import { describe, expect, test } from 'vitest';
import type { LocalClient } from '../../src/client/local-client.ts';
import type {
  InstanceListPage,
  ListFilter,
  ListPage,
} from '../../src/client/reading/instance-list.ts';
import { encodeMessage } from '../../src/model/message.ts';
import { randomToken } from '../../src/model/values/random-id.ts';
import { finish, openStore, takeTurn } from './store-fixture.ts';

const ids = async (client: LocalClient, filter?: ListFilter, page?: InstanceListPage) =>
  (await client.list(filter, page)).items.map(({ id }) => id);

describe('list()', () => {
  test('list() returns instances newest first, and an empty page without any', async () => {
    const { client } = await openStore();
    expect(await client.list()).toEqual({ items: [] });
    for (const id of ['a', 'c', 'b']) await client.start('order', 1, { id });
    expect(await ids(client)).toEqual(['b', 'c', 'a']);
    const { input, ...listed } = (await client.get('b')) ?? {};
    expect(input).toBe(1);
    expect((await client.list()).items[0]).toEqual(listed);
  });

  test('pages of list() neither repeat nor skip instances while others are started', async () => {
    const { client } = await openStore();
    const started = Array.from({ length: 25 }, (_, index) => `i-${String(index).padStart(2, '0')}`);
    for (const id of started) await client.start('order', 1, { id });
    const seen: string[] = [];
    const sizes: number[] = [];
    let cursor: string | undefined;
    do {
      const page = await client.list({}, { limit: 10, cursor });
      seen.push(...page.items.map(({ id }) => id));
      sizes.push(page.items.length);
      cursor = page.nextCursor;
      await client.start('order', 1);
    } while (cursor !== undefined);
    expect(seen).toEqual(started.toReversed());
    expect(sizes).toEqual([10, 10, 5]);
  });

  test('list() by end lists what has ended, the last end first, in pages', async () => {
    const { client, provider } = await openStore();
    for (const id of ['a', 'b', 'c', 'open']) await client.start('order', 1, { id });
    for (const id of ['b', 'c', 'a']) await finish(provider, id);
    const orderBy = 'ended';
    const first = await client.list({}, { orderBy, limit: 2 });
    const second = await client.list({}, { orderBy, limit: 2, cursor: first.nextCursor });
    const seen = [...first.items, ...second.items];
    expect(seen.map(({ id }) => id).toSorted()).toEqual(['a', 'b', 'c']);
    const ends = seen.map(({ endedAt }) => endedAt ?? 0);
    expect(ends).toEqual(ends.toSorted((a, b) => b - a));
    expect(second).not.toHaveProperty('nextCursor');
    // A cursor belongs to the order of its list.
    await expect(client.list({}, { cursor: first.nextCursor })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  test('list() with unregistered lists instances whose code no live worker has', async () => {
    const { client, provider } = await openStore();
    await client.start('order', 1, { id: 'waits' });
    await client.start('order', 1, { id: 'done' });
    await finish(provider, 'done');
    expect(await ids(client, { unregistered: true })).toEqual(['waits']);
    expect(await ids(client, { unregistered: false })).toEqual(['done']);
    expect(await client.count({ unregistered: true })).toEqual({ count: 1, capped: false });
  });

  test('list() returns no nextCursor when the last page is full', async () => {
    const { client } = await openStore();
    for (const id of ['a', 'b']) await client.start('order', 1, { id });
    expect(await client.list({}, { limit: 2 })).not.toHaveProperty('nextCursor');
    expect(await client.list({}, { limit: 1 })).toHaveProperty('nextCursor');
  });

  test('list() returns 100 instances by default and up to 1,000 by limit', async () => {
    const { client } = await openStore();
    await Promise.all(Array.from({ length: 1_001 }, () => client.start('order')));
    expect(await ids(client)).toHaveLength(100);
    const page = await client.list({}, { limit: 1_000 });
    expect(page.items).toHaveLength(1_000);
    expect(await ids(client, {}, { limit: 1_000, cursor: page.nextCursor })).toHaveLength(1);
  });

  test('list() filters by one status or several', async () => {
    const { client, provider } = await openStore();
    for (const id of ['new', 'going', 'good', 'bad']) await client.start('order', 1, { id });
    await takeTurn(provider, 'going', {});
    await finish(provider, 'good');
    await finish(provider, 'bad', { status: 'failed', failure: '{"name":"E","message":"m"}' });
    expect(await ids(client, { status: 'pending' })).toEqual(['new']);
    expect(await ids(client, { status: 'running' })).toEqual(['going']);
    expect(await ids(client, { status: ['completed', 'failed'] })).toEqual(['bad', 'good']);
    expect(await ids(client, { status: 'terminated' })).toEqual([]);
    const page = await client.list({ status: ['completed', 'failed'] }, { limit: 1 });
    expect(
      await ids(client, { status: ['completed', 'failed'] }, { cursor: page.nextCursor }),
    ).toEqual(['good']);
  });

  test('list() filters by exact name', async () => {
    const { client } = await openStore();
    for (const name of ['order', 'orders', 'Order']) await client.start(name, 1, { id: name });
    expect(await ids(client, { name: 'order' })).toEqual(['order']);
    expect(await ids(client, { name: 'nobody' })).toEqual([]);
  });

  test('list() filters by id prefix, taken literally', async () => {
    const { client } = await openStore();
    const all = ['a%b', 'a_b', 'axb', 'a*b', 'a[b', 'A%b', 'a', 'ab', 'ä-1', 'ä-2', '🚚1', '🚚'];
    for (const id of all) await client.start('order', 1, { id });
    const startingWith = (prefix: string) => ids(client, { idPrefix: prefix });
    expect(await startingWith('a%')).toEqual(['a%b']);
    expect(await startingWith('a_')).toEqual(['a_b']);
    expect(await startingWith('a*')).toEqual(['a*b']);
    expect(await startingWith('a[')).toEqual(['a[b']);
    expect(await startingWith('A')).toEqual(['A%b']);
    expect(await startingWith('ä')).toEqual(['ä-2', 'ä-1']);
    expect(await startingWith('🚚')).toEqual(['🚚', '🚚1']);
    expect(await startingWith('a')).toEqual(['ab', 'a', 'a[b', 'a*b', 'axb', 'a_b', 'a%b']);
    expect(await startingWith("' OR 1=1 --")).toEqual([]);
  });

  test('list() filters by parent', async () => {
    const { client, provider } = await openStore();
    for (const id of ['p', 'q']) await client.start('order', 1, { id });
    const child = {
      instanceId: 'p-child',
      incarnation: randomToken(),
      name: 'line',
      version: null,
      inputHash: '=',
      start: encodeMessage({ kind: 'start', name: 'line', version: null, payload: null }),
      parentOperation: 1,
      cancellation: 'request',
      ifTaken: null,
    } as const;
    await takeTurn(provider, 'p', { children: [child] });
    expect(await ids(client, { parentId: 'p' })).toEqual(['p-child']);
    expect(await ids(client, { parentId: 'q' })).toEqual([]);
    expect(await client.get('p-child')).toMatchObject({ parentId: 'p', name: 'line' });
  });

  test('list() filters by creation time, with createdFrom inclusive and createdBefore exclusive', async () => {
    const { client, clock } = await openStore();
    const start = clock.now();
    for (const id of ['t0', 't1', 't2']) {
      await client.start('order', 1, { id });
      await clock.advance(10);
    }
    expect(await ids(client, { createdFrom: start + 10 })).toEqual(['t2', 't1']);
    expect(await ids(client, { createdBefore: start + 10 })).toEqual(['t0']);
    expect(await ids(client, { createdFrom: start + 9.5, createdBefore: start + 10.5 })).toEqual([
      't1',
    ]);
    expect(
      await ids(client, { createdFrom: new Date(start), createdBefore: new Date(start + 11) }),
    ).toEqual(['t1', 't0']);
    expect(await ids(client, { createdFrom: start + 20, createdBefore: start })).toEqual([]);
  });

  test('list() with several filters returns instances that match all of them', async () => {
    const { client, provider } = await openStore();
    for (const id of ['a-1', 'a-2', 'b-1']) await client.start('order', 1, { id });
    await client.start('refund', 1, { id: 'a-3' });
    await finish(provider, 'a-1');
    expect(await ids(client, { name: 'order', idPrefix: 'a-', status: 'pending' })).toEqual([
      'a-2',
    ]);
  });

  test('list() ignores filters that are undefined', async () => {
    const { client } = await openStore();
    await client.start('order', 1, { id: 'a' });
    expect(await ids(client, { status: undefined, name: undefined }, { limit: undefined })).toEqual(
      ['a'],
    );
  });
});

describe('list() with an invalid filter or page', () => {
  test.each<[string, unknown, unknown]>([
    ['an unknown status', { status: 'done' }, {}],
    ['an unknown status among several', { status: ['failed', 'done'] }, {}],
    ['an empty list of statuses', { status: [] }, {}],
    ['the name of an Object property as status', { status: 'constructor' }, {}],
    ['null as a status', { status: null }, {}],
    ['an empty name', { name: '' }, {}],
    ['a name that is not a string', { name: 5 }, {}],
    ['a name of 257 bytes', { name: 'x'.repeat(257) }, {}],
    ['an id prefix of 1,001 bytes', { idPrefix: 'x'.repeat(1_001) }, {}],
    ['a parent id that is an object', { parentId: {} }, {}],
    ['an invalid date', { createdFrom: new Date(Number.NaN) }, {}],
    ['a time as a string', { createdBefore: '2030-01-01' }, {}],
    ['an infinite time', { createdFrom: Infinity }, {}],
    ['blocked as a string', { blocked: 'yes' }, {}],
    ['a limit of 0', {}, { limit: 0 }],
    ['a limit of 1,001', {}, { limit: 1_001 }],
    ['a fractional limit', {}, { limit: 1.5 }],
    ['a limit as a string', {}, { limit: '10' }],
    ['a cursor that list() did not return', {}, { cursor: '5' }],
    ['an empty cursor', {}, { cursor: '' }],
    ['a cursor beyond all keys', {}, { cursor: 'kzzzzzzzzzzz' }],
    ['a cursor that is a number', {}, { cursor: 7 }],
    ['an unknown order', {}, { orderBy: 'name' }],
    ['a cursor of another order', {}, { orderBy: 'ended', cursor: 'k5' }],
    ['unregistered as a string', { unregistered: 'yes' }, {}],
  ])('list() with %s rejects with INVALID_INPUT', async (_, filter, page) => {
    const { client } = await openStore();
    await expect(client.list(filter as ListFilter, page as ListPage)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/^(Invalid|Unknown) .+\.$/) as string,
    });
  });
});

test.each<[string, unknown, unknown]>([
  ['a misspelled filter', { statuses: 'failed' }, {}],
  ['a string as the filter', 'failed', {}],
  ['null as the filter', null, {}],
  ['a misspelled page option', {}, { offset: 10 }],
])('list() with %s rejects with INVALID_OPTION', async (_, filter, page) => {
  const { client } = await openStore();
  await expect(client.list(filter as ListFilter, page as ListPage)).rejects.toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^(Unknown option|Invalid options).+\.$/) as string,
  });
});
