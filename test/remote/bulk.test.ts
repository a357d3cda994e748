/** Bulk operations and their audit over HTTP. */
import { expect, test } from 'vitest';
import { orchestration } from '../../src/index.ts';
import { createToken } from '../../src/server/access/tokens.ts';
import { describeRemote } from './describe-remote.ts';

const waits = orchestration('waits', async (ctx) => ctx.waitFor('go'));

describeRemote('bulk operations over HTTP', (open) => {
  test('the remote client cancels by filter with progress, and the audit names the token', async () => {
    const { perdure, client } = await open();
    const ids = Array.from({ length: 150 }, (_, index) => `a${index}`);
    await Promise.all(ids.map((id) => perdure.client.start(waits, undefined, { id })));
    const preview = await client.bulk.cancel({ name: 'waits' }, { dryRun: true });
    expect(preview.preview).toMatchObject({ byStatus: { pending: 150 }, capped: false });
    let last = 0;
    const result = await client.bulk.cancel(
      { name: 'waits', status: 'pending' },
      {
        actor: 'ann',
        reason: 'why',
        limit: 120,
        onProgress: ({ changed }) => {
          last = changed;
        },
      },
    );
    expect(result).toMatchObject({ matched: 120, changed: 120, done: false });
    expect(last).toBe(120);
    const { cursor } = result;
    const filter = { name: 'waits', status: 'pending' } as const;
    const rest = await client.bulk.cancel(filter, { actor: 'ann', reason: 'why', cursor });
    expect(rest).toEqual({ matched: 150, changed: 150, refused: [], refusedMore: 0, done: true });
    expect((await client.listAudit({ action: 'cancelBulk' })).items).toMatchObject([
      { actor: 'tester: ann', reason: 'why', instances: 150 },
    ]);
    expect(await client.bulk.delete({ status: 'canceled' })).toMatchObject({ changed: 150 });
  });

  test('the remote client pauses, resumes and retries by filter, and lists paused instances', async () => {
    const { perdure, client } = await open();
    const ids = ['a0', 'a1', 'a2'];
    for (const id of ids) await perdure.client.start(waits, undefined, { id });
    const filter = { name: 'waits' };
    expect(await client.bulk.pause(filter, { reason: 'why' })).toMatchObject({ changed: 3 });
    const { items } = await client.list({ paused: true });
    expect(items.map(({ id }) => id)).toEqual(ids.toReversed());
    expect(items[0]?.paused).toMatchObject({ reason: 'why', actor: 'tester' });
    expect(await client.count({ paused: false })).toMatchObject({ count: 0 });
    expect(await client.bulk.resume({ paused: true }, { tree: true })).toMatchObject({
      changed: 3,
      done: true,
    });
    expect(await client.bulk.retry(filter, { from: 'failure' })).toMatchObject({
      changed: 0,
      refused: ids.map(() => ({ code: 'INSTANCE_STILL_RUNNING' })),
    });
    await client.bulk.terminate(filter);
    expect(await client.bulk.retry(filter, { from: 'start' })).toMatchObject({
      refused: ids.map(() => ({ code: 'INVALID_INPUT' })),
    });
    const audited = await client.listAudit({ action: ['pauseBulk', 'resumeBulk', 'retryBulk'] });
    expect(audited.items.map(({ action, actor, instances }) => [action, actor, instances])).toEqual(
      [
        ['resumeBulk', 'tester', 3],
        ['pauseBulk', 'tester', 3],
      ],
    );
  });

  test('the remote client lists by end in pages, and what waits for unregistered code', async () => {
    const { perdure, client } = await open();
    for (const id of ['a', 'b', 'c']) {
      await perdure.client.start('unknown', undefined, { id });
    }
    const waiting = await client.list({ unregistered: true });
    expect(waiting.items.map(({ id }) => id)).toEqual(['c', 'b', 'a']);
    for (const id of ['a', 'c', 'b']) await client.terminate(id);
    expect(await client.list({ unregistered: true })).toEqual({ items: [] });
    const orderBy = 'ended';
    const first = await client.list({}, { orderBy, limit: 2 });
    const second = await client.list({}, { orderBy, limit: 2, cursor: first.nextCursor });
    const ends = [...first.items, ...second.items].map(({ endedAt }) => endedAt ?? 0);
    expect(ends).toHaveLength(3);
    expect(ends).toEqual(ends.toSorted((a, b) => b - a));
  });

  test('a part whose response is lost is repeated, and raises no event twice', async () => {
    const { perdure, client, proxy } = await open();
    const ids = Array.from({ length: 40 }, (_, index) => `a${index}`);
    await Promise.all(ids.map((id) => perdure.client.start(waits, undefined, { id })));
    const before = (await perdure.client.queueDepths()).messages;
    let lost = 0;
    proxy.intercept((bytes) => {
      if (lost > 0 || !bytes.toString('latin1').startsWith('POST /v1/bulk/')) return 'pass';
      lost += 1;
      return 'cutAnswer';
    });
    const result = await client.bulk.raiseEvent({ name: 'waits' }, 'go');
    expect(lost).toBe(1);
    expect(result).toMatchObject({ matched: 40, changed: 40, done: true });
    expect((await perdure.client.queueDepths()).messages).toBe(before + 40);
    expect((await client.listAudit()).items).toMatchObject([{ actor: 'tester', instances: 40 }]);
  });

  test('a token cannot name another actor, and a restricted token must name its definition', async () => {
    const mine = createToken();
    const tokens = [
      { name: 'mine', role: 'operate', sha256: mine.sha256, definitions: 'waits' } as const,
    ];
    const { perdure, connect } = await open(undefined, {
      serve: { tokens },
      connect: { token: mine.token },
    });
    await perdure.client.start(waits, undefined, { id: 'a' });
    await perdure.client.start('other', undefined, { id: 'b' });
    const client = await connect();
    const forbidden = { code: 'FORBIDDEN' };
    await expect(client.bulk.cancel({}, { all: true })).rejects.toMatchObject(forbidden);
    await expect(client.bulk.cancel({ name: 'other' })).rejects.toMatchObject(forbidden);
    await expect(client.bulk.delete({ name: 'waits' })).rejects.toMatchObject(forbidden);
    expect(await client.bulk.cancel({ name: 'waits' }, { actor: 'admin' })).toMatchObject({
      changed: 1,
    });
    await expect(client.bulk.cancel({ name: 'waits' }, { cursor: 'b.x' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    expect((await perdure.client.get('b'))?.status).toBe('pending');
    const { items } = await perdure.client.listAudit();
    expect(items).toMatchObject([{ actor: 'mine: admin', instances: 1 }]);
  });
});
