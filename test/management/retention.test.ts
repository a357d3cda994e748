/** What retention policies delete and keep, in sweeps of workers and of `retention.run()`, on a fake clock. */
import { expect, it } from 'vitest';
import { orchestration } from 'perdure';
import {
  complete,
  eternal,
  fails,
  remainingIds,
  leaves,
  runExecutions,
  orchestrations,
  until,
  describeManaged,
} from './managed-store.ts';
import { retention, sweepAfter } from './sweeps.ts';

describeManaged('retention policies', ({ openManaged }) => {
  it('retention deletes completed runs after 30 days, failed after 90, and keeps 10 executions', async () => {
    const { client, clock } = await openManaged({
      retention: {
        policies: [
          { statuses: 'completed', keepFor: '30d' },
          { statuses: 'failed', keepFor: '90d' },
          { keepExecutions: 10 },
        ],
        interval: '1d',
      },
    });
    await complete(client, ['completed-1', 'completed-2']);
    await expect((await client.start(fails, undefined, { id: 'failed' })).result()).rejects.toThrow(
      'on purpose',
    );
    await client.start('waits', undefined, { id: 'canceled' });
    await client.cancel('canceled', { wait: true });
    await runExecutions(client, 'eternal', 25);
    const first = await sweepAfter(client, clock, '1d');
    expect(first).toMatchObject({
      outcome: 'done',
      dryRun: false,
      errors: [],
      left: 0,
      deleted: { instancesDeleted: 0 },
      pruned: { instancesProcessed: 1, executionsDeleted: 16 },
    });
    const { items } = await client.listExecutions('eternal');
    expect(items.map(({ executionId }) => executionId)).toEqual([
      17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    ]);
    await complete(client, ['completed-later']);
    await clock.advance('28d');
    expect(await remainingIds(client)).toHaveLength(6);
    await clock.advance('2d');
    await until(async () => (await remainingIds(client)).length === 4);
    expect(await remainingIds(client)).toEqual([
      'canceled',
      'completed-later',
      'eternal',
      'failed',
    ]);
    await clock.advance('2d');
    await until(async () => (await remainingIds(client)).length === 3);
    await clock.advance('56d');
    expect(await remainingIds(client)).toEqual(['canceled', 'eternal', 'failed']);
    await clock.advance('3d');
    await until(async () => (await remainingIds(client)).length === 2);
    expect(await remainingIds(client)).toEqual(['canceled', 'eternal']);
    await client.raiseEvent('eternal', 'go', 'still alive');
    expect(await client.wait('eternal')).toMatchObject({ output: 'still alive' });
  });

  it('retention is off by default', async () => {
    const { client, clock } = await openManaged();
    await complete(client, ['a']);
    await clock.advance('3650d');
    expect(await remainingIds(client)).toEqual(['a']);
    expect(await client.retention.status()).toEqual({
      paused: null,
      lastReport: null,
      policies: null,
      fullWalkAt: null,
    });
  });

  it('a dry-run sweep reports what it would delete and deletes nothing', async () => {
    const { client, clock } = await openManaged({ retention: { ...retention, dryRun: true } });
    await complete(client, ['a', 'b']);
    await clock.advance('3h');
    const report = await sweepAfter(client, clock, '61m');
    expect(report).toMatchObject({ dryRun: true, deleted: { instancesDeleted: 2 } });
    expect(await remainingIds(client)).toEqual(['a', 'b']);
    expect((await client.listAudit()).items).toEqual([]);
    expect(await client.retention.run({ dryRun: true })).toMatchObject({
      dryRun: true,
      deleted: report.deleted,
    });
    expect(await client.retention.run()).toMatchObject({ dryRun: false, deleted: report.deleted });
    expect(await remainingIds(client)).toEqual([]);
  });

  it('a sweep keeps a tree with a running child and counts it as left', async () => {
    const { client, clock } = await openManaged({ retention });
    await client.start(leaves, undefined, { id: 'l' });
    await until(async () => (await client.get('l'))?.status === 'completed');
    await complete(client, ['a']);
    expect(await sweepAfter(client, clock, '3h')).toMatchObject({ outcome: 'done', left: 1 });
    expect(await remainingIds(client)).toEqual(['l', 'l-child']);
  });

  it('the first matching retention policy decides, for instances and for executions', async () => {
    const other = orchestration('other', async () => 'done');
    const { client, clock } = await openManaged({
      orchestrations: [...orchestrations, other],
      retention: {
        policies: [
          { names: 'oth*', keepFor: 'forever' },
          { names: 'quick', keepFor: '1d' },
          { keepFor: '30d' },
          { names: 'eternal', keepExecutions: 2, keepExecutionsFor: '7d' },
          { keepExecutions: 0 },
        ],
        interval: '1d',
      },
    });
    await complete(client, ['quick']);
    await (await client.start(other, undefined, { id: 'other' })).result();
    await runExecutions(client, 'e', 5);
    await clock.advance('3d');
    expect(await remainingIds(client)).toEqual(['e', 'other']);
    expect((await client.getInstanceInfo('e')).size.executions).toBe(6);
    await clock.advance('6d');
    expect((await client.getInstanceInfo('e')).size.executions).toBe(2);
    await clock.advance('30d');
    expect(await remainingIds(client)).toEqual(['e', 'other']);
  });

  it('a sweep writes one audit record with counts and policies, without ids', async () => {
    const { client, clock } = await openManaged({ retention });
    await complete(client, ['secret-1', 'secret-2']);
    await runExecutions(client, 'secret-3', 1);
    const report = await sweepAfter(client, clock, '3h');
    await sweepAfter(client, clock, '61m');
    const { items } = await client.listAudit();
    expect(items).toMatchObject([
      { action: 'retention', actor: report.sweeper, instancesDeleted: 2 },
    ]);
    expect(JSON.parse(items[0]?.filter ?? '')).toMatchObject({
      instances: [{ keepForMs: 90 * 60_000 }],
    });
    expect(JSON.stringify(items)).not.toContain('secret');
  });

  it('retention.run() sweeps with the given policies, even while retention is paused', async () => {
    const { client, clock } = await openManaged();
    await complete(client, ['a', 'b']);
    await clock.advance('2d');
    await complete(client, ['c']);
    await expect(client.retention.run()).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('Pass `policies`'),
    });
    await client.retention.pause();
    const policies = [{ keepFor: '1d' }];
    expect(await client.retention.run({ policies, actor: 'ops' })).toMatchObject({
      sweeper: 'ops',
      outcome: 'done',
      deleted: { instancesDeleted: 2 },
    });
    expect(await remainingIds(client)).toEqual(['c']);
    expect((await client.retention.status()).lastReport).toMatchObject({ sweeper: 'ops' });
  });

  it("retention.run() with an aborted signal returns outcome 'stopped' and deletes nothing", async () => {
    const { client } = await openManaged();
    await complete(client, ['a']);
    const signal = AbortSignal.abort(new Error('enough'));
    expect(await client.retention.run({ policies: [{ keepFor: 0 }], signal })).toMatchObject({
      outcome: 'stopped',
      deleted: { instancesDeleted: 0 },
    });
  });

  it('retention.run() and pause() with invalid options reject with INVALID_OPTION', async () => {
    const { client } = await openManaged();
    const invalid = { code: 'INVALID_OPTION' };
    await expect(client.retention.run({ policies: [] })).rejects.toMatchObject(invalid);
    await expect(client.retention.run({ dry: true } as never)).rejects.toMatchObject(invalid);
    await expect(client.retention.run({ dryRun: 1 as never })).rejects.toMatchObject(invalid);
    await expect(client.retention.pause({ who: 'me' } as never)).rejects.toMatchObject(invalid);
  });

  it('startWorker() with invalid retention options rejects with INVALID_OPTION', async () => {
    const { startWorker } = await openManaged(null);
    await expect(
      startWorker({ retention: { policies: [{ statuses: 'running' as never, keepFor: 1 }] } }),
    ).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  });

  it('retention.run() prunes executions of an instance that continues as new', async () => {
    const { client } = await openManaged();
    const handle = await client.start(eternal, 50, { id: 'e' });
    const policies = [{ keepExecutions: 1 }];
    await until(async () => (await handle.status()).executionId > 10);
    await client.retention.run({ policies });
    await until(async () => (await handle.status()).executionId === 51);
    await client.retention.run({ policies });
    expect((await client.listExecutions('e')).items).toMatchObject([{ executionId: 51 }]);
    await handle.raiseEvent('go', 'end');
    expect(await handle.result()).toBe('end');
  });
});
