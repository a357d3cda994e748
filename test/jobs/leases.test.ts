import { expect, it, onTestFinished } from 'vitest';
import { LocalClient } from '../../src/client/local-client.ts';
import { systemClock } from '../../src/model/clock.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from '../engine/describe-engine.ts';
import { aborted } from '../tasks/gate.ts';
import { FaultyConnection } from './model/faulty-connection.ts';

describeEngine(
  'session leases',
  (open) => {
    it('a disconnected client loses its jobs when its lease expires; other sessions keep theirs', async () => {
      const endless = task('endless', ({ signal }) => aborted(signal));
      const engine = await open({ tasks: [endless] });
      const { client } = engine;
      const provider = await engine.openProvider();
      const connection = new FaultyConnection(provider);
      const clock = provider.clock ?? systemClock;
      const dying = new LocalClient({ provider: connection.provider, clock });
      onTestFinished(async () => {
        await dying.close();
        await provider.close();
      });
      const lost = await dying.openSession({ idleTimeout: '5s' });
      const kept = await client.openSession({ idleTimeout: '5s' });
      const jobs = Array.from({ length: 10 }, () => lost.submit(endless));
      const other = kept.submit(endless);
      await expect
        .poll(async () => (await client.list({ status: 'running' })).items)
        .toHaveLength(11);
      const disconnectedAt = performance.now();
      connection.isDisconnected = true;
      const ends = await Promise.all(jobs.map((job) => client.wait(job.id, { timeout: '20s' })));
      expect(performance.now() - disconnectedAt).toBeLessThan(7_000);
      for (const end of ends) {
        expect(end).toMatchObject({
          status: 'canceled',
          cancel: { reason: 'the lease of its session ran out' },
        });
      }
      await client.sessions.shutdown(lost.id, 'forceful');
      expect(await client.sessions.get(lost.id)).toMatchObject({ state: 'ended', end: 'expired' });
      expect(await kept.info()).toMatchObject({ state: 'open', openJobs: 1 });
      expect(await other.status()).toMatchObject({ status: 'running' });
      // After the reconnect pending waits end, and new jobs are rejected.
      connection.isDisconnected = false;
      await expect(jobs[0]?.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
      await expect(lost.submit(endless).result()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
      await kept.close();
    });

    it('a connection restored before the lease expires keeps a draining session alive', async () => {
      const endless = task('endless', ({ signal }) => aborted(signal));
      const engine = await open({ tasks: [endless] });
      const { client } = engine;
      const provider = await engine.openProvider();
      const connection = new FaultyConnection(provider);
      const clock = provider.clock ?? systemClock;
      const shaky = new LocalClient({ provider: connection.provider, clock });
      onTestFinished(async () => {
        await shaky.close();
        await provider.close();
      });
      const session = await shaky.openSession({ idleTimeout: '5s' });
      const job = session.submit(endless);
      await expect.poll(async () => (await client.get(job.id))?.status).toBe('running');
      const { expiresAt } = await session.info();
      connection.isDisconnected = true;
      void session.shutdown('graceful').catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      connection.isDisconnected = false;
      await expect
        .poll(async () => (await client.sessions.get(session.id)).state, { timeout: 5_000 })
        .toBe('draining');
      await expect
        .poll(async () => (await client.sessions.get(session.id)).expiresAt, { timeout: 5_000 })
        .toBeGreaterThan(expiresAt + 2_000);
      expect(await job.status()).toMatchObject({ status: 'running' });
      await session.shutdown('forceful');
      await expect(job.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    });
  },
  ['all fast paths', 'PostgreSQL'],
);
