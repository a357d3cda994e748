/**
 * Force deletion of instances with work in flight, through the client and real workers. docs/seed-tests.md maps the
 * seed cases.
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
  countRemaining,
  describeManaged,
} from './managed-store.ts';

/** An activity that reports its start and its abort, and ends when the test resolves it. */
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

/** Records warnings and errors. */
function recorder(): Logger & { readonly lines: string[] } {
  const lines: string[] = [];
  const keep = (_fields: object, message: string): void => void lines.push(message);
  return { lines, debug: () => undefined, info: () => undefined, warn: keep, error: keep };
}

describeManaged('deleteInstance() with force', ({ openManaged, openShared }) => {
  describe('a running activity of a deleted instance', () => {
    it("the signal of a running activity aborts immediately with trigger 'deleted'", async () => {
      const { held, run, started, aborted, end } = heldActivity();
      const { client } = await openManaged({ orchestrations: [run], activities: [held] });
      const handle = await client.start(run);
      await started;
      expect(await handle.delete({ force: true })).toMatchObject({ queueMessagesDeleted: 1 });
      const reason = await aborted;
      expect(reason).toBeInstanceOf(CanceledError);
      expect(reason).toMatchObject({ code: 'OPERATION_CANCELED', trigger: 'deleted' });
      end('late');
      expect(await countRemaining(client)).toEqual(emptyStore);
    });

    it('an activity is aborted at its next lease renewal when all hints are lost', async () => {
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

    it('an activity is aborted when another client deletes its instance', async () => {
      const { held, run, started, aborted, end } = heldActivity();
      const { client, reopen } = await openShared({ orchestrations: [run], activities: [held] });
      await client.start(run, undefined, { id: 'r' });
      await started;
      const other = await reopen();
      await other.client.deleteInstance('r', { force: true });
      expect(await aborted).toMatchObject({ trigger: 'deleted' });
      end('late');
    });

    it('ctx.isCanceled becomes true in an activity that polls it', async () => {
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

    it('an activity that completes after the deletion is discarded without a warning', async () => {
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

    it('an activity that fails after the deletion is not retried', async () => {
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
      expect(await countRemaining(client)).toEqual(emptyStore);
    });
  });

  it('queued activities are deleted with their instance', async () => {
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
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  it('a worker that starts after the deletion claims nothing of the instance', async () => {
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

  describe('a turn of a deleted instance', () => {
    it('a turn that ends after the deletion fails its ack with LOCK_LOST', async () => {
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
      expect(await countRemaining(client)).toEqual(emptyStore);
    });

    it('a turn of a deleted instance does not change a new instance with its id', async () => {
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

  it('a late activity result of a deleted instance does not reach its successor', async () => {
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

  it('force-deleting an instance between turns leaves no rows', async () => {
    const { client } = await openManaged();
    await client.start(waits, undefined, { id: 'w' });
    await until(async () => (await client.queueDepths()).messages === 0);
    await client.deleteInstance('w', { force: true });
    expect(await countRemaining(client)).toEqual(emptyStore);
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

  it('raiseEvent() to a deleted instance rejects with INSTANCE_NOT_FOUND', async () => {
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

  it('cancel({ wait: true }) resolves with status null when the instance is deleted', async () => {
    const { client } = await openManaged();
    await client.start(tidies, undefined, { id: 'a' });
    await until(async () => (await client.get('a'))?.status === 'running');
    const canceled = client.cancel('a', { wait: true });
    await until(async () => (await client.get('a'))?.status === 'canceling');
    await client.deleteInstance('a', { force: true });
    expect(await canceled).toEqual({ found: true, changed: true, status: null });
  });

  describe('concurrent force deletion', () => {
    it('a deletion that races an activity completion leaves no rows', async () => {
      for (const fastPaths of [true, false]) {
        let started = Promise.withResolvers<void>();
        let mayEnd = Promise.withResolvers<string>();
        const held = activity('held', async () => {
          started.resolve();
          return mayEnd.promise;
        });
        const run = orchestration('run', async (ctx) => ctx.call(held));
        const { client } = await openManaged({
          orchestrations: [run],
          activities: [held],
          ...testOptions({ fastPaths }),
        });
        for (let round = 0; round < 15; round += 1) {
          started = Promise.withResolvers();
          mayEnd = Promise.withResolvers();
          const handle = await client.start(run, undefined, { id: `r-${round}` });
          const result = handle.result().catch((error: unknown) => error);
          await started.promise;
          mayEnd.resolve('completed');
          for (let turn = 0; turn < round % 6; turn += 1) await turnOfTheLoop();
          expect(await handle.delete({ force: true })).toMatchObject({ instancesDeleted: 1 });
          const outcome = await result;
          if (outcome !== 'completed')
            expect(outcome).toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
          await turnOfTheLoop();
          expect(await countRemaining(client)).toEqual(emptyStore);
        }
      }
    });

    it('a deletion that races the end of a turn leaves no rows', async () => {
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
      expect(await countRemaining(client)).toEqual(emptyStore);
    });

    it('a lease renewal after the deletion returns held: false, deleted: true', async () => {
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
