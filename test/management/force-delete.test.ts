/**
 * Force-deleting instances with work in flight, through the client and real workers; docs/seed-tests.md maps the cases
 * of the seed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { activity, CanceledError, orchestration, type Client, type Logger } from 'perdure';
import { testOptions } from 'perdure/testing';
import { dropHints } from '../../src/testing/drop-hints.ts';
import {
  emptyStore,
  quick,
  tidies,
  until,
  waits,
  whatIsLeft,
  describeManaged,
} from './managed-store.ts';

/** An activity whose attempts a test sees begin, and ends when it wants to. */
function heldActivity() {
  const started = Promise.withResolvers<void>();
  const mayEnd = Promise.withResolvers<string>();
  const aborted = Promise.withResolvers<unknown>();
  const held = activity('held', async (ctx) => {
    ctx.signal.addEventListener('abort', () => aborted.resolve(ctx.signal.reason));
    started.resolve();
    return mayEnd.promise;
  });
  const run = orchestration('run', async (ctx) => ctx.call(held));
  return { held, run, started: started.promise, aborted: aborted.promise, end: mayEnd.resolve };
}

/** Keeps what is logged as a warning or an error. */
function recorder(): Logger & { readonly lines: string[] } {
  const lines: string[] = [];
  const keep = (_fields: object, message: string): void => void lines.push(message);
  return { lines, debug: () => undefined, info: () => undefined, warn: keep, error: keep };
}

describeManaged('deleting what runs', ({ openManaged, openShared }) => {
  describe('a running activity of an instance that is deleted', () => {
    it('is told at once by its signal, with the trigger deleted', async () => {
      const { held, run, started, aborted, end } = heldActivity();
      const { client } = await openManaged({ orchestrations: [run], activities: [held] });
      const handle = await client.start(run);
      await started;
      expect(await handle.delete({ force: true })).toMatchObject({ queueMessagesDeleted: 1 });
      const reason = await aborted;
      expect(reason).toBeInstanceOf(CanceledError);
      expect(reason).toMatchObject({ code: 'OPERATION_CANCELED', trigger: 'deleted' });
      end('late');
      expect(await whatIsLeft(client)).toEqual(emptyStore);
    });

    it('is told when its lease is renewed, should every hint be lost', async () => {
      const { held, run, started, aborted, end } = heldActivity();
      const { client, clock } = await openManaged(
        { orchestrations: [run], activities: [held], activityLease: '30s' },
        (provider) => dropHints(provider, 1),
      );
      await client.start(run, undefined, { id: 'r' });
      await started;
      await client.deleteInstance('r', { force: true });
      await clock.advance('15s');
      expect(await aborted).toMatchObject({ trigger: 'deleted' });
      end('late');
    });

    it('is told when the deletion comes from elsewhere, by another process', async () => {
      const { held, run, started, aborted, end } = heldActivity();
      const { client, reopen } = await openShared({ orchestrations: [run], activities: [held] });
      await client.start(run, undefined, { id: 'r' });
      await started;
      const other = await reopen();
      await other.client.deleteInstance('r', { force: true });
      expect(await aborted).toMatchObject({ trigger: 'deleted' });
      end('late');
    });

    it('sees it when it asks in a loop', async () => {
      const started = Promise.withResolvers<void>();
      const left = Promise.withResolvers<unknown>();
      const loop = activity('loop', async (ctx) => {
        started.resolve();
        while (!ctx.isCanceled) await delay(1);
        left.resolve(ctx.signal.reason);
        ctx.throwIfCanceled();
      });
      const run = orchestration('run', async (ctx) => ctx.call(loop));
      const { client } = await openManaged({ orchestrations: [run], activities: [loop] });
      await client.start(run, undefined, { id: 'r' });
      await started.promise;
      await client.deleteInstance('r', { force: true });
      expect(await left.promise).toMatchObject({ trigger: 'deleted' });
    });

    it('may complete all the same: its result goes nowhere, and nothing is wrong with that', async () => {
      const { held, run, started, aborted, end } = heldActivity();
      const logger = recorder();
      const { client, perdure } = await openManaged({
        orchestrations: [run],
        activities: [held],
        logger,
      });
      await client.start(run, undefined, { id: 'r' });
      await started;
      await client.deleteInstance('r', { force: true });
      await aborted;
      end('late');
      await perdure.startWorker({ orchestrations: [quick] });
      expect(await (await client.start(quick, 'after')).result()).toBe('after');
      expect(await client.get('r')).toBeUndefined();
      expect(logger.lines).toEqual([]);
    });

    it('that fails after the deletion is not tried again', async () => {
      let attempts = 0;
      const started = Promise.withResolvers<void>();
      const mayFail = Promise.withResolvers<void>();
      const flaky = activity(
        'flaky',
        async () => {
          attempts += 1;
          started.resolve();
          await mayFail.promise;
          throw new Error('again');
        },
        { retry: { maxAttempts: 5 } },
      );
      const run = orchestration('run', async (ctx) => ctx.call(flaky));
      const { client, clock } = await openManaged({ orchestrations: [run], activities: [flaky] });
      await client.start(run, undefined, { id: 'r' });
      await started.promise;
      await client.deleteInstance('r', { force: true });
      mayFail.resolve();
      await clock.advance('1h');
      expect(attempts).toBe(1);
      expect(await whatIsLeft(client)).toEqual(emptyStore);
    });
  });

  it('activities that nobody has taken yet go with their instance, however many', async () => {
    const never = activity('never', async () => {
      throw new Error('it must not run');
    });
    const run = orchestration('run', async (ctx) =>
      ctx.all([1, 2, 3, 4].map(() => ctx.call(never))),
    );
    const { client } = await openManaged({ orchestrations: [run] });
    await client.start(run, undefined, { id: 'r' });
    await until(async () => (await client.queueDepths()).activities.ready === 4);
    expect(await client.deleteInstance('r', { force: true })).toMatchObject({
      queueMessagesDeleted: 4,
    });
    expect(await whatIsLeft(client)).toEqual(emptyStore);
  });

  it('a worker that looks for work after the deletion finds none of it', async () => {
    const { held, run } = heldActivity();
    const { client, startWorker } = await openManaged(null);
    await client.start(run, undefined, { id: 'r' });
    await client.raiseEvent('r', 'noise');
    expect(await client.deleteInstance('r', { force: true })).toMatchObject({
      queueMessagesDeleted: 2,
    });
    await startWorker({ orchestrations: [run, quick], activities: [held] });
    expect(await (await client.start(quick, 'next')).result()).toBe('next');
    expect(await client.get('r')).toBeUndefined();
    expect(await client.systemMetrics()).toMatchObject({ instances: { running: 0, pending: 0 } });
  });

  describe('a turn of an instance that is deleted', () => {
    it('comes to nothing when it ends', async () => {
      const inTurn = Promise.withResolvers<void>();
      const mayAck = Promise.withResolvers<void>();
      const acked = Promise.withResolvers<unknown>();
      const { client } = await openManaged(testOptions({ fastPaths: false }), (store) => ({
        ...store,
        ackOrchestrationItems: async (acks) => {
          inTurn.resolve();
          await mayAck.promise;
          const results = await store.ackOrchestrationItems(acks);
          acked.resolve(results[0]);
          return results;
        },
      }));
      await client.start(waits, undefined, { id: 'w' });
      await inTurn.promise;
      await client.deleteInstance('w', { force: true });
      mayAck.resolve();
      expect(await acked.promise).toMatchObject({ ok: false, error: { code: 'LOCK_LOST' } });
      expect(await client.get('w')).toBeUndefined();
      expect(await whatIsLeft(client)).toEqual(emptyStore);
    });

    it('does not touch the next life of the id', async () => {
      const inTurn = Promise.withResolvers<void>();
      const mayAck = Promise.withResolvers<void>();
      const acked = Promise.withResolvers<unknown>();
      let turns = 0;
      const { client } = await openManaged(testOptions({ fastPaths: false }), (store) => ({
        ...store,
        ackOrchestrationItems: async (acks) => {
          turns += 1;
          if (turns > 1) return store.ackOrchestrationItems(acks);
          inTurn.resolve();
          await mayAck.promise;
          const results = await store.ackOrchestrationItems(acks);
          acked.resolve(results[0]);
          return results;
        },
      }));
      await client.start(waits, undefined, { id: 'same' });
      await inTurn.promise;
      await client.deleteInstance('same', { force: true });
      const second = await client.start(quick, 'second life', { id: 'same' });
      mayAck.resolve();
      expect(await acked.promise).toMatchObject({ ok: false });
      expect(await second.result()).toBe('second life');
      const { items } = await client.history('same');
      expect(items[0]).toMatchObject({ event: { kind: 'executionStarted', name: 'quick' } });
    });
  });

  it('a late completion of the former life does not reach the next one', async () => {
    const attempts: PromiseWithResolvers<string>[] = [];
    const held = activity('held', async () => {
      const attempt = Promise.withResolvers<string>();
      attempts.push(attempt);
      return attempt.promise;
    });
    const run = orchestration('run', async (ctx) => ctx.call(held));
    const { client } = await openManaged({
      orchestrations: [run],
      activities: [held],
      cancelGrace: '1h',
    });
    await client.start(run, undefined, { id: 'same' });
    await until(() => attempts.length === 1);
    await client.deleteInstance('same', { force: true });
    const second = await client.start(run, undefined, { id: 'same' });
    await until(() => attempts.length === 2);
    attempts[0]?.resolve('of the former life');
    await new Promise((resolve) => setImmediate(resolve));
    expect(await second.status()).toMatchObject({ status: 'running' });
    attempts[1]?.resolve('of this life');
    expect(await second.result()).toBe('of this life');
  });

  it('an instance that waits between its turns goes without a trace', async () => {
    const { client } = await openManaged();
    await client.start(waits, undefined, { id: 'w' });
    await until(async () => (await client.queueDepths()).messages === 0);
    await client.deleteInstance('w', { force: true });
    expect(await whatIsLeft(client)).toEqual(emptyStore);
  });

  it('the timer of a deleted instance never fires', async () => {
    const woken: string[] = [];
    const sleeps = orchestration('sleeps', async (ctx) => {
      await ctx.sleep('1h');
      woken.push(ctx.instanceId);
    });
    const { client, clock } = await openManaged({ orchestrations: [sleeps, quick] });
    await client.start(sleeps, undefined, { id: 's' });
    await until(async () => (await client.queueDepths()).messages === 1);
    expect(await client.deleteInstance('s', { force: true })).toMatchObject({
      queueMessagesDeleted: 1,
    });
    await complete(client);
    await clock.advance('2h');
    expect(woken).toEqual([]);
    expect((await client.queueDepths()).messages).toBe(0);
  });

  async function complete(client: Client): Promise<void> {
    await (await client.start(quick, 'same id', { id: 's' })).result();
  }

  it('an event for a deleted instance is refused as for an unknown one', async () => {
    const { client } = await openManaged();
    await client.start(waits, undefined, { id: 'w' });
    await client.raiseEvent('w', 'other', 1);
    await client.deleteInstance('w', { force: true });
    await expect(client.raiseEvent('w', 'go', 'on')).rejects.toMatchObject({
      code: 'INSTANCE_NOT_FOUND',
    });
    expect(await client.cancel('w')).toMatchObject({ found: false, changed: false });
    expect(await client.terminate('w')).toMatchObject({ found: false, changed: false });
    expect((await client.queueDepths()).messages).toBe(0);
  });

  it('whoever waits for the end of a cancel is told when the instance is deleted instead', async () => {
    const { client } = await openManaged();
    await client.start(tidies, undefined, { id: 'a' });
    await until(async () => (await client.get('a'))?.status === 'running');
    const canceled = client.cancel('a', { wait: true });
    await until(async () => (await client.get('a'))?.status === 'canceling');
    await client.deleteInstance('a', { force: true });
    expect(await canceled).toEqual({ found: true, changed: true, status: null });
  });

  describe('at the same time', () => {
    it('a deletion and the end of an activity: one of them is first, and nothing is left of either', async () => {
      for (let round = 0; round < 30; round += 1) {
        const { held, run, started, end } = heldActivity();
        const { client, perdure } = await openManaged({
          orchestrations: [run],
          activities: [held],
          ...testOptions({ fastPaths: round % 2 === 0 }),
        });
        const handle = await client.start(run, undefined, { id: 'r' });
        const result = handle.result().catch((error: unknown) => error);
        await started;
        end('completed');
        for (let turn = 0; turn < round % 6; turn += 1) await turnOfTheLoop();
        expect(await handle.delete({ force: true })).toMatchObject({ instancesDeleted: 1 });
        const outcome = await result;
        if (outcome !== 'completed') expect(outcome).toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
        await turnOfTheLoop();
        expect(await whatIsLeft(client)).toEqual(emptyStore);
        await perdure.close();
      }
    });

    it('a deletion and the end of a turn: one of them is first, and nothing is left of either', async () => {
      const { client } = await openManaged(testOptions({ fastPaths: false }));
      for (let round = 0; round < 60; round += 1) {
        const id = `w-${round}`;
        await client.start(waits, undefined, { id });
        await client.raiseEvent(id, 'go', 'on').catch(() => undefined);
        for (let turn = 0; turn < round % 8; turn += 1) await turnOfTheLoop();
        expect(await client.deleteInstance(id, { force: true })).toMatchObject({
          instancesDeleted: 1,
        });
      }
      for (let turn = 0; turn < 20; turn += 1) await turnOfTheLoop();
      expect(await whatIsLeft(client)).toEqual(emptyStore);
    });

    it('a deletion and a renewal: a renewal after it fails', async () => {
      const { held, run, started, aborted, end } = heldActivity();
      const renewals: unknown[] = [];
      const { client, clock } = await openManaged(
        { orchestrations: [run], activities: [held], activityLease: '3s' },
        (store) => ({
          ...store,
          renewWorkItemLocks: async (items, leaseMs) => {
            const results = await store.renewWorkItemLocks(items, leaseMs);
            renewals.push(...results);
            return results;
          },
        }),
      );
      await client.start(run, undefined, { id: 'r' });
      await started;
      await clock.advance('2s');
      expect(renewals.at(-1)).toMatchObject({ held: true });
      await Promise.all([clock.advance('2s'), client.deleteInstance('r', { force: true })]);
      expect(await aborted).toMatchObject({ trigger: 'deleted' });
      expect(renewals.at(-1)).toEqual({ held: false, deleted: true });
      end('late');
    });
  });

  async function turnOfTheLoop(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
  }
});
