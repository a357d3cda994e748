/** Retention by the workers of a store, on a clock that skips time. */
import { expect, it } from 'vitest';
import {
  orchestration,
  Perdure,
  ProviderError,
  type Client,
  type Logger,
  type Provider,
  type RetentionReport,
} from 'perdure';
import type { FakeClock } from 'perdure/testing';
import {
  complete,
  eternal,
  fails,
  idsLeft,
  leaves,
  makeRounds,
  openManaged,
  orchestrations,
  until,
} from './managed-store.ts';

const retention = { policies: [{ keepFor: '90m' }], interval: '1h' } as const;

/** Lets time pass, and the sweeps that fall into it; answers the report of the last. */
async function sweepAfter(
  client: Client,
  clock: FakeClock,
  advance: string,
): Promise<RetentionReport> {
  const { lastReport: before } = await client.retention.status();
  await clock.advance(advance);
  const { lastReport } = await client.retention.status();
  if (lastReport === null || lastReport.startedAt === before?.startedAt) {
    throw new Error('There was no sweep.');
  }
  return lastReport;
}

function recorder(): Logger & { readonly sweeps: string[]; readonly errors: string[] } {
  const [sweeps, errors]: [string[], string[]] = [[], []];
  return {
    sweeps,
    errors,
    debug: () => undefined,
    info: (_fields, message) => void (message.includes('retention') && sweeps.push(message)),
    warn: (_fields, message) => void errors.push(message),
    error: (_fields, message) => void errors.push(message),
  };
}

it('completed runs go after 30 days, failures after 90, and 10 executions of eternal runs are kept', async () => {
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
  await makeRounds(client, 'eternal', 25);
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
  expect(await idsLeft(client)).toHaveLength(6);
  await clock.advance('2d');
  await until(async () => (await idsLeft(client)).length === 4);
  expect(await idsLeft(client)).toEqual(['canceled', 'completed-later', 'eternal', 'failed']);
  await clock.advance('2d');
  await until(async () => (await idsLeft(client)).length === 3);
  await clock.advance('56d');
  expect(await idsLeft(client)).toEqual(['canceled', 'eternal', 'failed']);
  await clock.advance('3d');
  await until(async () => (await idsLeft(client)).length === 2);
  expect(await idsLeft(client)).toEqual(['canceled', 'eternal']);
  await client.raiseEvent('eternal', 'go', 'still alive');
  expect(await client.wait('eternal')).toMatchObject({ output: 'still alive' });
});

it('is off by default', async () => {
  const { client, clock } = await openManaged();
  await complete(client, ['a']);
  await clock.advance('3650d');
  expect(await idsLeft(client)).toEqual(['a']);
  expect(await client.retention.status()).toEqual({
    paused: null,
    lastReport: null,
    policies: null,
    fullWalkAt: null,
  });
});

it('one of several workers sweeps, once in an interval', async () => {
  const { client, clock, startWorker } = await openManaged(null);
  const loggers = [recorder(), recorder(), recorder()];
  for (const logger of loggers) await startWorker({ orchestrations, retention, logger });
  await complete(client, ['a']);
  const starts: number[] = [];
  for (let sweep = 0; sweep < 6; sweep += 1) {
    starts.push((await sweepAfter(client, clock, sweep === 0 ? '1m' : '65m')).startedAt);
  }
  const sweeps = loggers.reduce((sum, logger) => sum + logger.sweeps.length, 0);
  expect(sweeps).toBe(6);
  for (const [index, start] of starts.slice(1).entries()) {
    expect(start - (starts[index] ?? 0)).toBeGreaterThanOrEqual(3_600_000);
  }
  expect(loggers.flatMap(({ errors }) => errors)).toEqual([]);
});

it('when a sweeper dies another takes over once its lease is over', async () => {
  const stuck = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const { client, clock, provider, startWorker, sweeping } = await openManaged();
  await complete(client, ['a', 'b']);
  await clock.advance('3h');
  const dying: Provider = {
    ...provider,
    close: async () => undefined,
    deleteInstancesAtomic: async (trees) => {
      sweeping.isStuck = true;
      stuck.resolve();
      await released.promise;
      return provider.deleteInstancesAtomic(trees);
    },
  };
  const first = await Perdure.open(dying, { clock });
  try {
    await first.startWorker({ retention, shutdownGrace: 0, pollInterval: '36500d' });
    await clock.advance('10s');
    await stuck.promise;
    await startWorker({ retention });
    await clock.advance('30s');
    expect(await idsLeft(client)).toEqual(['a', 'b']);
    expect((await client.retention.status()).lastReport).toBeNull();
    await clock.advance('2m');
    await until(async () => (await client.retention.status()).lastReport !== null);
    expect(await idsLeft(client)).toEqual([]);
    expect((await client.retention.status()).lastReport).toMatchObject({
      outcome: 'done',
      deleted: { instancesDeleted: 2 },
    });
  } finally {
    released.resolve();
    await first.close();
  }
});

it('does not sweep while it is paused, and does soon after it is resumed', async () => {
  const { client, clock } = await openManaged({ retention });
  await complete(client, ['a']);
  await client.retention.pause({ actor: 'ops' });
  expect((await client.retention.status()).paused).toEqual({ at: clock.now(), actor: 'ops' });
  await clock.advance('5h');
  expect(await idsLeft(client)).toEqual(['a']);
  expect((await client.retention.status()).lastReport).toBeNull();
  await client.retention.resume();
  expect((await client.retention.status()).paused).toBeNull();
  expect(await sweepAfter(client, clock, '70s')).toMatchObject({
    deleted: { instancesDeleted: 1 },
  });
});

it('a pause stops a sweep that is under way, and the rest goes after the resume', async () => {
  const pausing: { client?: Client } = {};
  const { client, clock } = await openManaged({ retention }, (store) => ({
    ...store,
    deleteInstancesAtomic: async (trees) => {
      const results = await store.deleteInstancesAtomic(trees);
      await pausing.client?.retention.pause();
      return results;
    },
  }));
  pausing.client = client;
  await complete(
    client,
    Array.from({ length: 60 }, (_, index) => `i${index}`),
  );
  const report = await sweepAfter(client, clock, '3h');
  delete pausing.client;
  expect(report).toMatchObject({ outcome: 'paused', errors: [] });
  const left = await idsLeft(client);
  expect(left.length).toBe(60 - report.deleted.instancesDeleted);
  expect(left.length).toBeGreaterThan(0);
  await clock.advance('2h');
  expect(await idsLeft(client)).toEqual(left);
  await client.retention.resume();
  expect(await sweepAfter(client, clock, '70s')).toMatchObject({
    outcome: 'done',
    deleted: { instancesDeleted: left.length },
  });
});

it('a pause stops a sweep also while it finds nothing to delete', async () => {
  const pausing: { client?: Client } = {};
  let walked = 0;
  const { client, clock } = await openManaged({ retention }, (store) => ({
    ...store,
    scanInstances: async (params) => {
      walked += 1;
      await pausing.client?.retention.pause();
      return store.scanInstances({ ...params, maxScanned: 1 });
    },
  }));
  pausing.client = client;
  await complete(client, ['a', 'b', 'c']);
  expect(await sweepAfter(client, clock, '10s')).toMatchObject({ outcome: 'paused' });
  expect(walked).toBe(1);
});

it('a dry run reports what would go, and takes nothing', async () => {
  const { client, clock } = await openManaged({ retention: { ...retention, dryRun: true } });
  await complete(client, ['a', 'b']);
  await clock.advance('3h');
  const report = await sweepAfter(client, clock, '61m');
  expect(report).toMatchObject({ dryRun: true, deleted: { instancesDeleted: 2 } });
  expect(await idsLeft(client)).toEqual(['a', 'b']);
  expect((await client.listAudit()).items).toEqual([]);
  expect(await client.retention.run({ dryRun: true })).toMatchObject({
    dryRun: true,
    deleted: report.deleted,
  });
  expect(await client.retention.run()).toMatchObject({ dryRun: false, deleted: report.deleted });
  expect(await idsLeft(client)).toEqual([]);
});

it('a sweep that fails is reported, ends no worker, and is made good soon', async () => {
  const logger = recorder();
  let broken = true;
  const { client, clock } = await openManaged({ retention, logger }, (store) => ({
    ...store,
    deleteInstancesAtomic: async (trees) => {
      if (!broken) return store.deleteInstancesAtomic(trees);
      throw new ProviderError({
        operation: 'deleteInstancesAtomic',
        message: 'the disk is full',
        retryable: false,
      });
    },
  }));
  await complete(client, ['a']);
  expect(await sweepAfter(client, clock, '3h')).toMatchObject({
    outcome: 'failed',
    errors: ['deleteInstancesAtomic: the disk is full'],
    deleted: { instancesDeleted: 0 },
  });
  expect(logger.errors).toContain('a retention sweep failed');
  await complete(client, ['b']);
  broken = false;
  await clock.advance('2m');
  await until(async () => (await idsLeft(client)).length === 1);
  expect((await client.retention.status()).lastReport).toMatchObject({ outcome: 'done' });
});

it('a store that cannot be asked is logged, ends no worker, and is asked again', async () => {
  const logger = recorder();
  let broken = true;
  const { client, clock } = await openManaged({ retention, logger }, (store) => ({
    ...store,
    takeLease: async (lease) => {
      if (broken) throw new Error('no store');
      return store.takeLease(lease);
    },
  }));
  await clock.advance('10m');
  expect(logger.errors).toContain('retention failed; trying again later');
  expect((await client.retention.status()).lastReport).toBeNull();
  broken = false;
  expect(await sweepAfter(client, clock, '2m')).toMatchObject({ outcome: 'done' });
});

it('a worker that stops ends its sweep at once, and another takes it up soon', async () => {
  const begun = Promise.withResolvers<void>();
  const { client, clock, startWorker, sweeping } = await openManaged({}, (store) => ({
    ...store,
    deleteInstancesAtomic: async (trees) => {
      begun.resolve();
      return store.deleteInstancesAtomic(trees);
    },
  }));
  const ids = Array.from({ length: 200 }, (_, index) => `i${index}`);
  await complete(client, ids);
  await clock.advance('3h');
  const sweeper = await startWorker({ retention });
  sweeping.isStuck = true;
  await clock.advance('10s');
  await begun.promise;
  await sweeper.stop();
  sweeping.isStuck = false;
  const { lastReport } = await client.retention.status();
  expect(lastReport).toMatchObject({ outcome: 'stopped', errors: [] });
  const left = (await idsLeft(client)).length;
  expect(left).toBeGreaterThan(0);
  expect(left).toBe(200 - (lastReport?.deleted.instancesDeleted ?? 0));
  await startWorker({ retention });
  expect(await sweepAfter(client, clock, '2m')).toMatchObject({
    outcome: 'done',
    deleted: { instancesDeleted: left },
  });
});

it('leaves no alarm behind when its worker has stopped', async () => {
  const { clock, perdure } = await openManaged({ retention });
  await clock.advance('3h');
  await perdure.close();
  expect(clock.alarmCount).toBe(0);
});

it('a tree of which something runs stays, and the report counts it', async () => {
  const { client, clock } = await openManaged({ retention });
  await client.start(leaves, undefined, { id: 'l' });
  await until(async () => (await client.get('l'))?.status === 'completed');
  await complete(client, ['a']);
  expect(await sweepAfter(client, clock, '3h')).toMatchObject({ outcome: 'done', left: 1 });
  expect(await idsLeft(client)).toEqual(['l', 'l-child']);
});

it('the first policy that matches decides, for instances and for executions', async () => {
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
  await makeRounds(client, 'e', 5);
  await clock.advance('3d');
  expect(await idsLeft(client)).toEqual(['e', 'other']);
  expect((await client.getInstanceInfo('e')).size.executions).toBe(6);
  await clock.advance('6d');
  expect((await client.getInstanceInfo('e')).size.executions).toBe(2);
  await clock.advance('30d');
  expect(await idsLeft(client)).toEqual(['e', 'other']);
});

it('one record of a sweep is kept, with its counts and policies, and no ids', async () => {
  const { client, clock } = await openManaged({ retention });
  await complete(client, ['secret-1', 'secret-2']);
  await makeRounds(client, 'secret-3', 1);
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

it('sweeps end where instances are too young to be due, but once a day they look at all', async () => {
  const walks: boolean[] = [];
  const { client, clock } = await openManaged({ retention }, (store) => ({
    ...store,
    scanInstances: async (params) => {
      walks.push(params.createdBefore === undefined);
      return store.scanInstances(params);
    },
  }));
  await complete(client, ['a']);
  await clock.advance('71h');
  expect(walks.filter(Boolean)).toHaveLength(3);
  expect(walks.filter((isFull) => !isFull).length).toBeGreaterThan(50);
  expect(clock.now() - ((await client.retention.status()).fullWalkAt ?? 0)).toBeLessThan(
    24 * 3_600_000,
  );
});

it('can be run by hand, with its own policies, paused or not, in any process', async () => {
  const { client, clock } = await openManaged();
  await complete(client, ['a', 'b']);
  await clock.advance('2d');
  await complete(client, ['c']);
  await expect(client.retention.run()).rejects.toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringContaining('Pass policies'),
  });
  await client.retention.pause();
  const policies = [{ keepFor: '1d' }];
  expect(await client.retention.run({ policies, actor: 'ops' })).toMatchObject({
    sweeper: 'ops',
    outcome: 'done',
    deleted: { instancesDeleted: 2 },
  });
  expect(await idsLeft(client)).toEqual(['c']);
  expect((await client.retention.status()).lastReport).toMatchObject({ sweeper: 'ops' });
});

it('is not run by hand while another sweep is under way, except dry', async () => {
  const { client, clock, provider, sweeping } = await openManaged();
  sweeping.isStuck = true;
  const policies = [{ keepFor: 0 }];
  await complete(client, ['a']);
  await clock.advance(1);
  await provider.takeLease({ name: 'retention', owner: 'another', leaseMs: 60_000 });
  expect(await client.retention.run({ policies })).toBeNull();
  expect(await client.retention.run({ policies, dryRun: true })).toMatchObject({
    deleted: { instancesDeleted: 1 },
  });
  await clock.advance('61s');
  expect(await client.retention.run({ policies })).toMatchObject({ outcome: 'done' });
  expect(await idsLeft(client)).toEqual([]);
});

it('a run by hand stops when its signal says so, and reports it', async () => {
  const { client } = await openManaged();
  await complete(client, ['a']);
  const signal = AbortSignal.abort(new Error('enough'));
  expect(await client.retention.run({ policies: [{ keepFor: 0 }], signal })).toMatchObject({
    outcome: 'stopped',
    deleted: { instancesDeleted: 0 },
  });
});

it('bad input to its controls is refused', async () => {
  const { client } = await openManaged();
  const invalid = { code: 'INVALID_OPTION' };
  await expect(client.retention.run({ policies: [] })).rejects.toMatchObject(invalid);
  await expect(client.retention.run({ dry: true } as never)).rejects.toMatchObject(invalid);
  await expect(client.retention.run({ dryRun: 1 as never })).rejects.toMatchObject(invalid);
  await expect(client.retention.pause({ who: 'me' } as never)).rejects.toMatchObject(invalid);
});

it('a worker with bad retention options does not start', async () => {
  const { startWorker } = await openManaged(null);
  await expect(
    startWorker({ retention: { policies: [{ statuses: 'running' as never, keepFor: 1 }] } }),
  ).rejects.toMatchObject({ code: 'INVALID_OPTION' });
});

it('damaged records are told, keep nothing from being deleted but a pause, and can be mended', async () => {
  const logger = recorder();
  const { client, clock, provider } = await openManaged({ retention, logger });
  await complete(client, ['a']);
  await provider.writeRecord('retention.report', '{');
  await expect(client.retention.status()).rejects.toMatchObject({ code: 'UNDECODABLE' });
  await clock.advance('3h');
  await until(async () => (await idsLeft(client)).length === 0);
  await until(() => client.retention.status().then(Boolean, () => false));
  expect(logger.errors).toContain('the last retention report cannot be read');
  await provider.writeRecord('retention.paused', '{');
  await complete(client, ['b']);
  await clock.advance('3h');
  expect(await idsLeft(client)).toEqual(['b']);
  await client.retention.resume();
  await clock.advance('2m');
  await until(async () => (await idsLeft(client)).length === 0);
});

it('eternal runs are pruned while they go on', async () => {
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
