import { expect, it } from 'vitest';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { aborted, makeGate } from '../tasks/gate.ts';
import { outcomeOf } from './outcome.ts';

describeEngine(
  'sessions',
  (open) => {
    const double = task('double', async (_ctx, n: number) => n * 2);
    const endless = task('endless', ({ signal }) => aborted(signal));

    it('a graceful shutdown rejects new jobs and resolves when all jobs have ended', async () => {
      const started = makeGate();
      const release = makeGate();
      const held = task('held', async ({ signal }) => {
        started.open();
        await release.opened;
        return signal.aborted;
      });
      const { client } = await open({ tasks: [held, double] });
      const session = await client.openSession({ label: 'import' });
      const running = session.submit(held);
      await started.opened;
      let hasEnded = false;
      const shutdown = session.shutdown('graceful').then(() => (hasEnded = true));
      await expect(session.submit(double, 1).result()).rejects.toMatchObject({
        code: 'SESSION_CLOSED',
      });
      await expect.poll(async () => (await session.info()).state).toBe('draining');
      expect(hasEnded).toBe(false);
      release.open();
      await shutdown;
      expect(await running.result()).toBe(false);
      expect(await session.info()).toMatchObject({ state: 'ended', end: 'shutdown', openJobs: 0 });
      await session.shutdown('graceful');
    });

    it('a forceful shutdown cancels jobs and resolves after their handlers have stopped', async () => {
      const started = makeGate();
      const order: string[] = [];
      const slow = task('slow', async ({ signal }) => {
        started.open();
        await aborted(signal);
        await new Promise((resolve) => setImmediate(resolve));
        order.push('stopped');
      });
      const { client } = await open({ tasks: [slow] });
      const session = await client.openSession();
      const job = session.submit(slow);
      const reply = outcomeOf(job.result());
      await started.opened;
      await session.shutdown('forceful');
      order.push('ended');
      expect(await reply).toMatchObject({
        error: {
          code: 'OPERATION_CANCELED',
          reason: 'its session was shut down',
        },
      });
      expect(order).toEqual(['stopped', 'ended']);
      expect(await session.info()).toMatchObject({ state: 'ended', end: 'shutdown' });
      await session.shutdown('forceful');
    });

    it('a forceful shutdown overrides a graceful one; the reverse rejects with SESSION_DOWNGRADE', async () => {
      const started = makeGate();
      const release = makeGate();
      const stubborn = task('stubborn', async () => {
        started.open();
        await release.opened;
      });
      const { client } = await open({ tasks: [stubborn] });
      const session = await client.openSession();
      session.submit(stubborn);
      await started.opened;
      const graceful = session.shutdown('graceful');
      await expect.poll(async () => (await session.info()).state).toBe('draining');
      const forceful = session.shutdown('forceful');
      await expect.poll(async () => (await session.info()).state).toBe('closing');
      await expect(session.shutdown('graceful')).rejects.toMatchObject({
        code: 'SESSION_DOWNGRADE',
      });
      await expect(client.sessions.shutdown(session.id, 'graceful')).rejects.toMatchObject({
        code: 'SESSION_DOWNGRADE',
      });
      release.open();
      await Promise.all([graceful, forceful, session.shutdown('forceful')]);
      expect(await session.info()).toMatchObject({ state: 'ended' });
    });

    it('unsent jobs are drained by a graceful shutdown and canceled by a forceful one', async () => {
      const { client } = await open({ tasks: [double, endless] });
      const drained = await client.openSession({ maxInFlight: 2 });
      const jobs = Array.from({ length: 9 }, (_, n) => drained.submit(double, n));
      await drained.shutdown('graceful');
      const results = await Promise.all(jobs.map((job) => job.result()));
      expect(results).toEqual([0, 2, 4, 6, 8, 10, 12, 14, 16]);

      const stopped = await client.openSession({ maxInFlight: 1 });
      const first = stopped.submit(endless);
      const second = stopped.submit(endless);
      await expect.poll(async () => (await client.get(first.id))?.status).toBe('running');
      await stopped.shutdown('forceful');
      await expect(second.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
      expect(await client.get(second.id)).toBeUndefined();
    });

    it('an unsent job that is closed or canceled never reaches the store', async () => {
      const release = makeGate();
      const held = task('held', async () => release.opened);
      const { client } = await open({ tasks: [held] });
      const session = await client.openSession({ maxInFlight: 1 });
      const first = session.submit(held);
      const second = session.submit(held);
      const third = session.submit(held);
      await expect.poll(async () => (await client.get(first.id))?.status).toBe('running');
      expect(await second.status()).toMatchObject({ id: second.id, status: 'pending' });
      const waiting = outcomeOf(second.result());
      second.close();
      expect(await waiting).toMatchObject({ error: { code: 'OPERATION_CANCELED' } });
      await expect(second.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
      expect(await second.status()).toMatchObject({ status: 'canceled' });
      expect(await third.cancel()).toEqual({ found: true, changed: true, status: 'canceled' });
      release.open();
      await first.result();
      expect([await client.get(second.id), await client.get(third.id)]).toEqual([
        undefined,
        undefined,
      ]);
    });

    it('session.close() cancels jobs and rejects their results without waiting for handlers', async () => {
      const started = makeGate();
      const stopped = makeGate();
      const release = makeGate();
      const slow = task('slow', async ({ signal }) => {
        started.open();
        await aborted(signal);
        stopped.open();
        await release.opened;
      });
      const { client } = await open({ tasks: [slow] });
      const session = await client.openSession();
      const job = session.submit(slow);
      const waiting = outcomeOf(job.result());
      await started.opened;
      await session.close();
      await session.close();
      expect(await waiting).toMatchObject({ error: { code: 'SESSION_CLOSED' } });
      await stopped.opened;
      const info = await client.sessions.get(session.id);
      expect(info).toMatchObject({ state: 'closing', end: 'goodbye', openJobs: 1 });
      release.open();
      expect(await client.wait(job.id)).toMatchObject({ status: 'canceled' });
      await client.sessions.shutdown(session.id, 'forceful');
      await expect(session.submit(slow).result()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    });

    it('a session shut down by an operator rejects new jobs', async () => {
      const { client, reopen } = await open({ tasks: [double] });
      const session = await client.openSession({ label: 'nightly' });
      expect(await session.submit(double, 1).result()).toBe(2);
      const operator = (await reopen()).client;
      await operator.sessions.shutdown('nightly', 'graceful');
      await expect(session.submit(double, 1).result()).rejects.toMatchObject({
        code: 'SESSION_CLOSED',
      });
    });

    it('result() returns an untaken reply after a graceful shutdown', async () => {
      const { client } = await open({ tasks: [double] });
      const session = await client.openSession();
      const job = session.submit(double, 4);
      await session.shutdown('graceful');
      expect(await job.result()).toBe(8);
    });

    it('session variables can be set and unset', async () => {
      const { client } = await open();
      await using session = await client.openSession({ variables: { tenant: 'a', mode: 'dry' } });
      await session.setVariable('mode', 'wet');
      await session.setVariable('empty', '');
      await session.unsetVariable('tenant');
      expect((await session.info()).variables).toEqual({ mode: 'wet', empty: '' });
      const changed = await client.sessions.setVariable(session.id, 'mode', null);
      expect(changed.variables).toEqual({ empty: '' });
    });

    it('sessions are listed and found by id or label; an ambiguous label rejects', async () => {
      const { client } = await open({ tasks: [endless] });
      const [one, two] = [
        await client.openSession({ label: 'batch' }),
        await client.openSession({ label: 'batch' }),
      ];
      const other = await client.openSession({ idleTimeout: '5m' });
      await expect(client.sessions.get('batch')).rejects.toMatchObject({
        code: 'AMBIGUOUS_SESSION',
      });
      expect(await client.sessions.get(one.id)).toMatchObject({ id: one.id, label: 'batch' });
      expect(await client.sessions.get(other.id)).toMatchObject({ idleTimeoutMs: 300_000 });
      const first = await client.sessions.list({}, { limit: 2 });
      expect(first.items.map(({ id }) => id)).toEqual([other.id, two.id]);
      const next = await client.sessions.list({}, { limit: 2, after: first.nextAfter });
      expect(next).toEqual({ items: [expect.objectContaining({ id: one.id })] });
      const job = one.submit(endless);
      await expect.poll(async () => (await client.get(job.id))?.status).toBe('running');
      expect(await client.sessions.jobs(one.id)).toEqual({
        items: [
          {
            id: job.id,
            kind: 'task',
            name: 'endless',
            status: 'running',
            createdAt: expect.any(Number),
          },
        ],
      });
      await two.shutdown('graceful');
      expect(await client.sessions.get('batch')).toMatchObject({ id: one.id });
      await client.sessions.shutdown('batch', 'forceful');
      const ended = await client.sessions.list({ label: 'batch', state: 'ended' });
      expect(ended.items.map(({ id }) => id)).toEqual([two.id, one.id]);
      await expect(client.sessions.get('nobody')).rejects.toMatchObject({
        code: 'SESSION_NOT_FOUND',
      });
    });
  },
  modesWithoutTurns,
);
