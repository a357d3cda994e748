/** Read operations for operators: executions, sizes, queues, metrics, audit. */
import { expect, it } from 'vitest';
import { activity, orchestration, type AuditRecord } from 'perdure';
import {
  chain,
  complete,
  fails,
  remainingIds,
  runExecutions,
  until,
  waits,
  describeManaged,
} from './managed-store.ts';

describeManaged('management reads', ({ openManaged }) => {
  it('listExecutions() pages oldest first, without gaps or repeats', async () => {
    const { client } = await openManaged();
    await runExecutions(client, 'e', 24);
    const ids: number[] = [];
    let after: number | undefined = 0;
    while (after !== undefined) {
      const page = await client.listExecutions('e', { after, limit: 10 });
      expect(page.items.length).toBeLessThanOrEqual(10);
      ids.push(...page.items.map(({ executionId }) => executionId));
      after = page.nextAfter;
    }
    expect(ids).toEqual(Array.from({ length: 25 }, (_, index) => index + 1));
    expect(await client.listExecutions('e', { after: 25 })).toEqual({ items: [] });
    expect((await client.listExecutions('e', { limit: 25 })).nextAfter).toBeUndefined();
    for (const bad of [{ after: -1 }, { after: 0.5 }, { limit: 0 }, { limit: 1_001 }]) {
      await expect(client.listExecutions('e', bad as never)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
    }
    await expect(client.listExecutions('e', { from: 1 } as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
  });

  it('getInstanceInfo() returns the counts of executions, events, children, messages and activities', async () => {
    const slow = activity('slow', async () => undefined);
    const busy = orchestration('busy', async (ctx) => {
      void ctx.child(waits, undefined, { id: 'busy-child' });
      void ctx.call(slow);
      await ctx.sleep('1h');
    });
    const { client } = await openManaged({ orchestrations: [busy, waits] });
    await client.start(busy, undefined, { id: 'b' });
    await until(async () => (await client.get('busy-child'))?.status === 'running');
    const info = await client.getInstanceInfo('b');
    const { items } = await client.history('b');
    expect(info).toMatchObject({
      id: 'b',
      status: 'running',
      size: { executions: 1, events: items.length, children: 1, messages: 1, activities: 1 },
    });
  });

  it('queueDepths() counts ready, delayed and claimed entries and the oldest ready time', async () => {
    const held = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const hold = activity('hold', async () => {
      begun.resolve();
      await held.promise;
    });
    const run = orchestration('run', async (ctx) => {
      await ctx.all([ctx.call(hold), ctx.call('nobody-has-it'), ctx.sleep('1h')]);
    });
    const { client, clock } = await openManaged({ orchestrations: [run], activities: [hold] });
    const since = clock.now();
    await client.start(run);
    await client.start('nobody-runs-it');
    await begun.promise;
    await clock.advance('10m');
    const depths = await client.queueDepths();
    expect(depths.activities).toEqual({
      ready: 1,
      delayed: 0,
      claimed: 1,
      paused: 0,
      oldestReadyAt: since,
    });
    expect(depths.orchestrations).toMatchObject({ ready: 1, delayed: 1, oldestReadyAt: since });
    expect(depths.messages).toBe(2);
    held.resolve();
  });

  it('systemMetrics() counts instances by status, finished executions and storage bytes', async () => {
    const { client } = await openManaged();
    await complete(client, ['a', 'b']);
    await expect((await client.start(fails)).result()).rejects.toThrow('on purpose');
    await client.start(waits, undefined, { id: 'w' });
    await client.terminate('w');
    await runExecutions(client, 'e', 3);
    const metrics = await client.systemMetrics();
    expect(metrics).toMatchObject({
      instances: {
        pending: 0,
        running: 1,
        canceling: 0,
        completed: 2,
        failed: 1,
        canceled: 0,
        terminated: 1,
      },
      finishedExecutions: 3,
      pendingReclaims: 0,
    });
    expect(metrics.storageBytes).toBeGreaterThan(4_096);
  });

  it('listAudit() returns actor, time and counts of deletions and prunes, without instance ids', async () => {
    const { client, clock } = await openManaged();
    await (await client.start(chain, { below: 1, wait: false }, { id: 'secret-a' })).result();
    await complete(client, ['secret-b', 'secret-c', 'secret-d']);
    await runExecutions(client, 'secret-e', 5);
    await client.deleteInstance('secret-a', { actor: 'ann' });
    await clock.advance('1m');
    await client.deleteInstanceBulk(
      { instanceIds: ['secret-b', 'secret-c', 'secret-x'], completedBefore: clock.now() },
      { actor: 'bob' },
    );
    await client.pruneExecutions('secret-e', { keepLast: 4 });
    await client.pruneExecutionsBulk({}, { keepLast: 2, includeRunning: true });
    const { items } = await client.listAudit();
    expect(items.map((item) => [item.action, item.actor, JSON.parse(item.filter)])).toEqual([
      ['pruneBulk', null, { limit: 1_000, keepLast: 2, includeRunning: true }],
      ['prune', null, { instanceIds: 1, keepLast: 4 }],
      ['deleteBulk', 'bob', { instanceIds: 3, completedBefore: clock.now(), limit: 1_000 }],
      ['delete', 'ann', { instanceIds: 1, force: false }],
    ]);
    expect(items).toMatchObject([
      { instancesDeleted: 0, executionsDeleted: 2, at: clock.now() },
      { instancesDeleted: 0, executionsDeleted: 2, at: clock.now() },
      { instancesDeleted: 2, executionsDeleted: 2, at: clock.now() },
      { instancesDeleted: 2, executionsDeleted: 2, at: clock.now() - 60_000 },
    ]);
    // Only an instance that still exists is named.
    expect(items.map(({ instanceId }) => instanceId)).toEqual([null, 'secret-e', null, null]);
    expect(JSON.stringify(items)).not.toMatch(/secret-[^e]/);
    expect(await remainingIds(client)).toEqual(['secret-d', 'secret-e']);
  });

  it('deletions and prunes that match nothing or reject write no audit record', async () => {
    const { client } = await openManaged();
    await client.start(waits, undefined, { id: 'w' });
    await client.deleteInstanceBulk({}, { all: true });
    await client.pruneExecutionsBulk({}, { all: true });
    await runExecutions(client, 'e', 1);
    await client.pruneExecutions('e', { keepLast: 5 });
    await client.pruneExecutionsBulk({}, { keepLast: 5, includeRunning: true });
    await expect(client.deleteInstance('w')).rejects.toMatchObject({
      code: 'INSTANCE_STILL_RUNNING',
    });
    await expect(client.deleteInstance('nobody')).rejects.toMatchObject({
      code: 'INSTANCE_NOT_FOUND',
    });
    expect((await client.listAudit()).items).toEqual([]);
  });

  it('listAudit() pages newest first and keeps records of deleted instances', async () => {
    const { client } = await openManaged();
    const ids = Array.from({ length: 12 }, (_, index) => `i${index}`);
    await complete(client, ids);
    for (const id of ids) await client.deleteInstance(id, { actor: id });
    const seen: AuditRecord[] = [];
    let cursor: string | undefined;
    do {
      const page = await client.listAudit({ limit: 5, cursor });
      seen.push(...page.items);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    expect(seen.map(({ actor }) => actor)).toEqual(ids.toReversed());
    await expect(client.listAudit({ limit: 0 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(client.listAudit({ cursor: 'x' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });
});
