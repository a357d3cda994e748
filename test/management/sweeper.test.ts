/** Which worker sweeps, when, and what ends a sweep early, on a fake clock. */
import { expect, it } from 'vitest';
import { Perdure, ProviderError, type Client, type Provider } from 'perdure';
import { complete, describeManaged, remainingIds, orchestrations, until } from './managed-store.ts';
import { recorder, retention, sweepAfter } from './sweeps.ts';

describeManaged('retention sweeper', ({ openManaged }) => {
  it('one of three workers sweeps, once per interval', async () => {
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

  it('a worker that gets the lease just after a sweep does not sweep again', async () => {
    const meanwhile: { sweep?: () => Promise<unknown> } = {};
    const logger = recorder();
    const { client, clock } = await openManaged({ retention, logger }, (store) => ({
      ...store,
      takeLease: async (lease) => {
        const { sweep } = meanwhile;
        delete meanwhile.sweep;
        await sweep?.();
        return store.takeLease(lease);
      },
    }));
    meanwhile.sweep = () => client.retention.run({ policies: [{ keepFor: 0 }], actor: 'another' });
    expect(await sweepAfter(client, clock, '30m')).toMatchObject({ sweeper: 'another' });
    expect(logger.sweeps).toEqual([]);
    await clock.advance('40m');
    expect(logger.sweeps).toHaveLength(1);
  });

  it('a worker sweeps although the last report is dated a year ahead', async () => {
    const { client, clock, provider, startWorker } = await openManaged();
    const report = await client.retention.run({ policies: [{ keepFor: '90m' }] });
    const startedAt = clock.now() + 365 * 86_400_000;
    const ahead = JSON.stringify({ ...report, startedAt, endedAt: startedAt });
    await provider.writeRecord('retention.report', ahead);
    await startWorker({ retention });
    const { startedAt: now } = await sweepAfter(client, clock, '1m');
    expect(now).toBeLessThanOrEqual(clock.now());
  });

  it('another worker sweeps after the lease of a stuck sweeper expires', async () => {
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
      expect(await remainingIds(client)).toEqual(['a', 'b']);
      expect((await client.retention.status()).lastReport).toBeNull();
      await clock.advance('2m');
      await until(async () => (await client.retention.status()).lastReport !== null);
      expect(await remainingIds(client)).toEqual([]);
      expect((await client.retention.status()).lastReport).toMatchObject({
        outcome: 'done',
        deleted: { instancesDeleted: 2 },
      });
    } finally {
      released.resolve();
      await first.close();
    }
  });

  it('a paused worker does not sweep, and sweeps within 70 s of resume()', async () => {
    const { client, clock } = await openManaged({ retention });
    await complete(client, ['a']);
    await client.retention.pause({ actor: 'ops' });
    expect((await client.retention.status()).paused).toEqual({ at: clock.now(), actor: 'ops' });
    await clock.advance('5h');
    expect(await remainingIds(client)).toEqual(['a']);
    expect((await client.retention.status()).lastReport).toBeNull();
    await client.retention.resume();
    expect((await client.retention.status()).paused).toBeNull();
    expect(await sweepAfter(client, clock, '70s')).toMatchObject({
      deleted: { instancesDeleted: 1 },
    });
  });

  it('pause() stops a running sweep, and resume() lets a sweep delete the rest', async () => {
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
    const left = await remainingIds(client);
    expect(left.length).toBe(60 - report.deleted.instancesDeleted);
    expect(left.length).toBeGreaterThan(0);
    await clock.advance('2h');
    expect(await remainingIds(client)).toEqual(left);
    await client.retention.resume();
    expect(await sweepAfter(client, clock, '70s')).toMatchObject({
      outcome: 'done',
      deleted: { instancesDeleted: left.length },
    });
  });

  it('pause() stops a sweep that has nothing to delete', async () => {
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

  it('a failed sweep is reported and retried within 2 minutes', async () => {
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
    expect(logger.errors).toContain('retention sweep failed');
    await complete(client, ['b']);
    broken = false;
    await clock.advance('2m');
    await until(async () => (await remainingIds(client)).length === 1);
    expect((await client.retention.status()).lastReport).toMatchObject({ outcome: 'done' });
  });

  it('a failed lease request is logged and retried', async () => {
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
    expect(logger.errors).toContain('retention failed; retrying');
    expect((await client.retention.status()).lastReport).toBeNull();
    broken = false;
    expect(await sweepAfter(client, clock, '2m')).toMatchObject({ outcome: 'done' });
  });

  it('worker.stop() stops its sweep, and another worker deletes the rest', async () => {
    const begun = Promise.withResolvers<void>();
    const mayGoOn = Promise.withResolvers<void>();
    const { client, clock, startWorker, sweeping } = await openManaged({}, (store) => ({
      ...store,
      deleteInstancesAtomic: async (trees) => {
        begun.resolve();
        await mayGoOn.promise;
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
    const stopped = sweeper.stop();
    mayGoOn.resolve();
    await stopped;
    sweeping.isStuck = false;
    const { lastReport } = await client.retention.status();
    expect(lastReport).toMatchObject({ outcome: 'stopped', errors: [] });
    const left = (await remainingIds(client)).length;
    expect(left).toBeGreaterThan(0);
    expect(left).toBe(200 - (lastReport?.deleted.instancesDeleted ?? 0));
    await startWorker({ retention });
    expect(await sweepAfter(client, clock, '2m')).toMatchObject({
      outcome: 'done',
      deleted: { instancesDeleted: left },
    });
  });

  it('a closed worker leaves no sweep alarm on the clock', async () => {
    const { clock, perdure } = await openManaged({ retention });
    await clock.advance('3h');
    await perdure.close();
    expect(clock.alarmCount).toBe(0);
  });

  it('sweeps scan only instances old enough to be due, and all instances once a day', async () => {
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

  it('retention.run() returns null while another sweep holds the lease, except for dry runs', async () => {
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
    expect(await remainingIds(client)).toEqual([]);
  });

  /** A store in which each scan returns one instance, after `meanwhile` has run. */
  async function openSlow(meanwhile: (store: Provider) => Promise<void>) {
    const managed = await openManaged({}, (store) => ({
      ...store,
      scanInstances: async (params) => {
        await meanwhile(store);
        return store.scanInstances({ ...params, maxScanned: 1 });
      },
    }));
    managed.sweeping.isStuck = true;
    await complete(managed.client, ['a', 'b', 'c', 'd']);
    return managed;
  }

  it('a sweep longer than its lease renews the lease', async () => {
    const taken: boolean[] = [];
    const { client, clock } = await openSlow(async (store) => {
      await clock.advance('50s');
      taken.push(await store.takeLease({ name: 'retention', owner: 'thief', leaseMs: 1_000 }));
    });
    await clock.advance(1);
    expect(await client.retention.run({ policies: [{ keepFor: 0 }] })).toMatchObject({
      outcome: 'done',
      deleted: { instancesDeleted: 4 },
    });
    expect(taken.length).toBeGreaterThan(3);
    expect(taken).not.toContain(true);
  });

  it("a sweep that loses its lease ends with outcome 'lostLease' and deletes nothing", async () => {
    const { client, clock } = await openSlow(async (store) => {
      await clock.advance('61s');
      await store.takeLease({ name: 'retention', owner: 'thief', leaseMs: 600_000 });
    });
    await clock.advance(1);
    expect(await client.retention.run({ policies: [{ keepFor: 0 }] })).toMatchObject({
      outcome: 'lostLease',
      deleted: { instancesDeleted: 0 },
    });
    expect(await remainingIds(client)).toHaveLength(4);
    expect((await client.retention.status()).lastReport).toBeNull();
  });

  it('a corrupt report does not stop sweeps; a corrupt pause does until resume()', async () => {
    const logger = recorder();
    const { client, clock, provider } = await openManaged({ retention, logger });
    await complete(client, ['a']);
    await provider.writeRecord('retention.report', '{');
    await expect(client.retention.status()).rejects.toMatchObject({ code: 'UNDECODABLE' });
    await clock.advance('3h');
    await until(async () => (await remainingIds(client)).length === 0);
    await until(() => client.retention.status().then(Boolean, () => false));
    expect(logger.errors).toContain('cannot read the last retention report');
    await provider.writeRecord('retention.paused', '{');
    await complete(client, ['b']);
    await clock.advance('3h');
    expect(await remainingIds(client)).toEqual(['b']);
    await client.retention.resume();
    await clock.advance('2m');
    await until(async () => (await remainingIds(client)).length === 0);
  });
});
