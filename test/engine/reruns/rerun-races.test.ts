import { activity, event, isPerdureError, orchestration, task } from 'perdure';
import { flow, readFlowRun } from 'perdure/flows';
import { expect, it } from 'vitest';
import { describeEngine } from '../describe-engine.ts';
import { signalled } from '../signalled.ts';
import { overrideProvider } from '../../crash/override-provider.ts';
import { Perdure } from '../../../src/perdure.ts';

const go = event<string>('go');

const failsOnce = orchestration('fails-once', (ctx) =>
  ctx.executionId === 1 ? Promise.reject(new Error('fails')) : Promise.resolve('again'),
);

function codeOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => 'resolved',
    (error: unknown) => (isPerdureError(error) ? error.code : String(error)),
  );
}

describeEngine(
  'reruns of flows and tasks, and their races',
  (open) => {
    it('retry of a flow keeps completed steps and runs the failed one again', async () => {
      const ran: string[] = [];
      let isBroken = true;
      const order = flow('order')
        .step('reserve', () => {
          ran.push('reserve');
          return 'reserved';
        })
        .step('pay', { needs: ['reserve'] }, (_ctx, { reserve }) => {
          ran.push('pay');
          if (isBroken) throw new Error('declined');
          return `${reserve} and paid`;
        })
        .step('ship', { needs: ['pay'] }, () => void ran.push('ship'))
        .output('pay');
      const { client } = await open({ flows: [order] });
      const run = await client.runFlow(order, undefined, { id: 'order' });
      await expect(run.result()).rejects.toMatchObject({ failure: { code: 'STEP_FAILED' } });
      isBroken = false;
      const before = ran.length;
      expect(ran.filter((step) => step === 'reserve')).toHaveLength(1);
      await client.retry('order', { from: 'failure' });
      expect((await client.wait('order')).status).toBe('completed');
      expect(ran.slice(before)).toEqual(['pay', 'ship']);
      const steps = (await readFlowRun(client, 'order'))?.steps;
      expect(steps?.map(({ status }) => status)).toEqual(['completed', 'completed', 'completed']);
    });

    it('retry of an expired task run runs it without expiry', async () => {
      const { client, startWorker } = await open();
      const late = task('late', (_ctx, input: string) => `ran ${input}`);
      const other = task('other', () => undefined);
      const idle = await startWorker({ tasks: [other] });
      const handle = await client.runTask(late, 'a', { id: 'late', expiresIn: 20 });
      expect((await client.wait('late')).status).toBe('expired');
      await handle.retry({ from: 'failure' });
      await idle.stop();
      // The expiry of the first run has passed.
      expect((await handle.status()).status).toBe('pending');
      await startWorker({ tasks: [late] });
      expect(await handle.result()).toBe('ran a');
      expect((await client.listExecutions('late')).items).toMatchObject([
        { executionId: 1, status: 'expired' },
        { executionId: 2, status: 'completed' },
      ]);
    });

    it('concurrent retries start exactly one execution', async () => {
      let runs = 0;
      const fails = orchestration('fails', (ctx) => {
        runs += 1;
        return ctx.executionId === 1 ? Promise.reject(new Error('fails')) : ctx.waitFor(go);
      });
      const { client } = await open({ orchestrations: [fails] });
      const handle = await client.start(fails, undefined, { id: 'fails' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      runs = 0;
      const codes = await Promise.all(
        (['start', 'failure', 'start', 'failure'] as const).map((from) =>
          codeOf(client.retry('fails', { from })),
        ),
      );
      expect(codes.toSorted()).toEqual([
        ...Array.from({ length: 3 }, () => 'INSTANCE_STILL_RUNNING'),
        'resolved',
      ]);
      await handle.raiseEvent(go, 'on');
      expect(await handle.result()).toBe('on');
      expect((await client.listExecutions('fails')).items).toHaveLength(2);
    });

    it('a retry that races with a delete leaves no instance or a running one', async () => {
      const fails = orchestration('fails', (ctx) =>
        ctx.executionId === 1 ? Promise.reject(new Error('fails')) : Promise.resolve('again'),
      );
      const { client } = await open({ orchestrations: [fails] });
      for (let n = 0; n < 8; n++) {
        const id = `fails-${n}`;
        const handle = await client.start(fails, undefined, { id });
        await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
        const retry = () => codeOf(client.retry(id, { from: 'start' }));
        const remove = () => codeOf(client.deleteInstance(id));
        const fork = () => codeOf(client.fork(id, { from: 'failure', id: `${id}-fork` }));
        const calls = n % 2 === 0 ? [retry, remove, fork] : [remove, retry, fork];
        const codes = await Promise.all(calls.map((call) => call()));
        const [retried, removed] = n % 2 === 0 ? codes : [codes[1], codes[0]];
        const gone = (await client.get(id)) === undefined;
        expect(['resolved', 'INSTANCE_NOT_FOUND']).toContain(retried);
        expect(['resolved', 'INSTANCE_STILL_RUNNING', 'INSTANCE_NOT_FOUND']).toContain(removed);
        const isRetried = ['INSTANCE_STILL_RUNNING', 'INSTANCE_NOT_RETRYABLE'];
        expect(['resolved', 'INSTANCE_NOT_FOUND', ...isRetried]).toContain(codes[2]);
        if (retried !== 'resolved') expect(gone).toBe(true);
        if (!gone) expect((await client.wait(id)).status).toBe('completed');
        if (codes[2] === 'resolved')
          expect((await client.wait(`${id}-fork`)).status).toBe('failed');
      }
    });

    it('the late outcome of a handler of the ended execution is dropped', async () => {
      const { client, startWorker } = await open();
      const [isRunning, mayEnd] = [signalled<void>(), signalled<void>()];
      const ended = signalled<void>();
      let calls = 0;
      const work = activity('work', async () => {
        calls += 1;
        if (calls > 1) return 'second';
        isRunning.resolve();
        await mayEnd.promise;
        ended.resolve();
        return 'first';
      });
      const slow = orchestration('slow', async (ctx) => {
        const value = await ctx.call(work);
        return `${value} ${await ctx.waitFor(go)}`;
      });
      const definitions = { orchestrations: [slow], activities: [work] };
      await startWorker(definitions);
      const handle = await client.start(slow, undefined, { id: 'slow' });
      await isRunning.promise;
      await handle.terminate({ reason: 'stop' });
      await handle.retry({ from: 'failure' });
      await startWorker(definitions);
      const kinds = async () =>
        (await client.history('slow', { executionId: 2 })).items.map(({ event: one }) => one.kind);
      await expect.poll(kinds).toContain('activityCompleted');
      mayEnd.resolve();
      await ended.promise;
      await handle.raiseEvent(go, 'go');
      expect(await handle.result()).toBe('second go');
      const completed = (await kinds()).filter((kind) => kind === 'activityCompleted');
      expect(completed).toHaveLength(1);
      expect(calls).toBe(2);
    });

    it.each(['completes', 'fails'] as const)(
      'a handler of the ended execution that %s late changes nothing while the retry runs the same call',
      async (how) => {
        const { client, startWorker, openProvider } = await open();
        const store = await openProvider();
        try {
          const gates = [signalled<string>(), signalled<string>(), signalled<string>()];
          const begun = [signalled<void>(), signalled<void>(), signalled<void>()];
          const work = activity(
            'work',
            (ctx) => {
              const index = Number(/(\d+)\.\d+$/.exec(ctx.idempotencyKey)?.[1]) - 1;
              begun[index]?.resolve();
              return gates[index]?.promise ?? Promise.reject(new Error('not expected'));
            },
            { retry: { maxAttempts: 1 } },
          );
          const slow = orchestration('slow', (ctx) => ctx.call(work));
          await startWorker({ orchestrations: [slow], activities: [work] });
          const handle = await client.start(slow, undefined, { id: 'slow' });
          const running = async () => (await store.listRunningItems('slow')).length;
          // The first retry keeps the call, the second one issues it again.
          for (const [index, from] of (['failure', 'start'] as const).entries()) {
            await begun[index]?.promise;
            await handle.terminate({ reason: 'stop' });
            await handle.retry({ from });
            await begun[index + 1]?.promise;
            expect(await running()).toBe(2);
            if (how === 'fails') gates[index]?.reject(new Error('late'));
            else gates[index]?.resolve('late');
            await expect.poll(running).toBe(1);
            const { items } = await client.history('slow', { executionId: index + 2 });
            expect(items.map(({ event: one }) => one.kind)).toEqual([
              'executionStarted',
              'activityScheduled',
            ]);
            expect((await handle.status()).status).toBe('running');
          }
          gates[2]?.resolve('last');
          expect(await handle.result()).toBe('last');
          expect((await client.listExecutions('slow')).items).toMatchObject([
            { executionId: 1, status: 'terminated' },
            { executionId: 2, status: 'terminated' },
            { executionId: 3, status: 'completed' },
          ]);
        } finally {
          await store.close();
        }
      },
    );

    it.each(['is deleted', 'is deleted and started again', 'is retried'] as const)(
      'a retry of an instance that %s between its read and its commit rejects and changes nothing',
      async (how) => {
        const { client, openProvider } = await open({ orchestrations: [failsOnce] });
        const handle = await client.start(failsOnce, undefined, { id: 'a' });
        await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
        const [reached, mayCommit] = [signalled<void>(), signalled<void>()];
        const provider = await openProvider();
        const slow = await Perdure.open(
          overrideProvider(provider, {
            async retryInstances(retries) {
              reached.resolve();
              await mayCommit.promise;
              return provider.retryInstances(retries);
            },
          }),
        );
        try {
          const retried = codeOf(slow.client.retry('a', { from: 'failure' }));
          await reached.promise;
          if (how === 'is retried') await client.retry('a', { from: 'start' });
          else await client.deleteInstance('a');
          if (how === 'is deleted and started again') {
            await client.start(failsOnce, undefined, { id: 'a' });
            expect((await client.wait('a')).status).toBe('failed');
          }
          if (how === 'is retried') expect((await client.wait('a')).status).toBe('completed');
          mayCommit.resolve();
          // The second read of a retried instance finds one that has completed.
          expect(await retried).toBe(
            how === 'is retried' ? 'INSTANCE_NOT_RETRYABLE' : 'INSTANCE_NOT_FOUND',
          );
          const info = await client.get('a');
          const expected = { 'is deleted and started again': 'failed', 'is retried': 'completed' };
          expect(info?.status).toBe(how === 'is deleted' ? undefined : expected[how]);
          const executions = how === 'is retried' ? 2 : 1;
          if (info !== undefined) {
            expect((await client.listExecutions('a')).items).toHaveLength(executions);
          }
          const { items } = await client.listAudit();
          expect(items.filter(({ action }) => action === 'retry')).toHaveLength(executions - 1);
        } finally {
          await slow.close();
        }
      },
    );

    it.each([false, true])(
      'a delete (force: %s) whose instance is retried before its commit rejects unless it is forced',
      async (force) => {
        const waits = orchestration('waits', (ctx) =>
          ctx.executionId === 1 ? Promise.reject(new Error('fails')) : ctx.waitFor(go),
        );
        const { client, openProvider } = await open({ orchestrations: [waits] });
        const handle = await client.start(waits, undefined, { id: 'a' });
        await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
        const [reached, mayCommit] = [signalled<void>(), signalled<void>()];
        const provider = await openProvider();
        const slow = await Perdure.open(
          overrideProvider(provider, {
            async deleteInstancesAtomic(trees) {
              reached.resolve();
              await mayCommit.promise;
              return provider.deleteInstancesAtomic(trees);
            },
          }),
        );
        try {
          const removed = codeOf(slow.client.deleteInstance('a', { force }));
          await reached.promise;
          expect(await codeOf(client.retry('a', { from: 'start' }))).toBe('resolved');
          mayCommit.resolve();
          expect(await removed).toBe(force ? 'resolved' : 'INSTANCE_STILL_RUNNING');
          if (force) {
            expect(await client.get('a')).toBeUndefined();
            expect(await codeOf(client.retry('a', { from: 'start' }))).toBe('INSTANCE_NOT_FOUND');
          } else {
            await handle.raiseEvent(go, 'on');
            expect(await handle.result()).toBe('on');
          }
        } finally {
          await slow.close();
        }
      },
    );

    it('a worker reports no block for a claimed execution that was retried and pruned', async () => {
      const { client, openProvider } = await open();
      const waits = orchestration('waits', (ctx) => ctx.waitFor(go));
      const handle = await client.start(waits, undefined, { id: 'a' });
      const first = await Perdure.open(await openProvider());
      await first.startWorker({ orchestrations: [waits], warmCacheBytes: 0 });
      await expect.poll(async () => (await client.history('a')).items.length).toBe(2);
      await first.close();
      const [reached, mayRead] = [signalled<void>(), signalled<void>()];
      const provider = await openProvider();
      const slow = await Perdure.open(
        overrideProvider(provider, {
          async readHistory(reads) {
            reached.resolve();
            await mayRead.promise;
            return provider.readHistory(reads);
          },
        }),
      );
      const blocked: string[] = [];
      const hooks = {
        instanceBlocked: ({ reason }: { reason: string }) => void blocked.push(reason),
      };
      const worker = await slow.startWorker({ orchestrations: [waits], hooks });
      await handle.raiseEvent(go, 'lost with its execution');
      await reached.promise;
      await handle.terminate({ reason: 'stop' });
      await handle.retry({ from: 'start' });
      await client.pruneExecutions('a', { keepLast: 1 });
      mayRead.resolve();
      await expect.poll(async () => (await client.history('a')).items.length).toBe(2);
      await handle.raiseEvent(go, 'on');
      expect(await handle.result()).toBe('on');
      await worker.stop();
      await slow.close();
      expect(blocked).toEqual([]);
    });

    it('a canceling instance rejects a retry, and its fork is canceling too', async () => {
      const cleans = orchestration('cleans', async (ctx) => {
        try {
          await ctx.waitFor('never');
        } finally {
          ctx.setCustomStatus(await ctx.shield(() => ctx.waitFor(go)));
        }
      });
      const { client } = await open({ orchestrations: [cleans] });
      const original = await client.start(cleans, undefined, { id: 'cleans' });
      await expect.poll(async () => (await client.history('cleans')).items.length).toBe(2);
      await original.cancel({ reason: 'stop', actor: 'ada' });
      await expect.poll(async () => (await client.history('cleans')).items.length).toBe(5);
      expect((await original.status()).status).toBe('canceling');
      const failure = { from: 'failure' } as const;
      expect(await codeOf(original.retry(failure))).toBe('INSTANCE_STILL_RUNNING');
      expect(await codeOf(client.fork('cleans', failure))).toBe('INSTANCE_STILL_RUNNING');
      const canceling = await client.fork('cleans', { from: 5, id: 'canceling' });
      const before = await client.fork('cleans', { from: 2, id: 'before' });
      expect(await canceling.status()).toMatchObject({
        status: 'canceling',
        cancel: { reason: 'stop', actor: 'ada' },
      });
      expect((await before.status()).status).toBe('running');
      await canceling.raiseEvent(go, 'cleaned');
      expect(await client.wait('canceling')).toMatchObject({
        status: 'canceled',
        customStatus: 'cleaned',
      });
      expect((await original.status()).status).toBe('canceling');
      await original.raiseEvent(go, 'also');
      expect((await client.wait('cleans')).status).toBe('canceled');
      await original.retry(failure);
      const retried = await original.status();
      expect(retried.status).toBe('running');
      expect(retried.cancel).toBeUndefined();
    });

    it('a retry whose code changed is blocked with an explanation until the code is restored', async () => {
      const { client, startWorker } = await open();
      const step = activity('step', () => 'stepped');
      let isBroken = true;
      const old = orchestration('order', async (ctx) => {
        const value = await ctx.call(step);
        if (isBroken) throw new Error('bug');
        return `${value} ${await ctx.call(step)}`;
      });
      const changed = orchestration('order', async (ctx) => {
        await ctx.sleep('1h');
      });
      const first = await startWorker({ orchestrations: [old], activities: [step] });
      const handle = await client.start(old, undefined, { id: 'order' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      await first.stop();
      isBroken = false;
      const second = await startWorker({ orchestrations: [changed], activities: [step] });
      await handle.retry({ from: 'failure' });
      await client.fork('order', { from: 2, executionId: 1, id: 'fork' });
      for (const id of ['order', 'fork']) {
        await expect
          .poll(async () => (await client.get(id))?.blocked, { timeout: 20_000 })
          .toMatchObject({ code: 'NONDETERMINISM', eventId: 2 });
        const { waits, text } = await client.why(id);
        expect(waits.map(({ kind }) => kind)).toContain('blocked');
        expect(text).toContain('event 2 of its history is activity "step"');
      }
      await second.stop();
      await startWorker({ orchestrations: [old], activities: [step] });
      for (const id of ['order', 'fork']) {
        const info = await client.wait(id, { timeout: '20s' });
        expect(info.status).toBe('completed');
      }
    });
  },
  ['all fast paths', 'no fast paths', 'PostgreSQL', 'over HTTP'],
);
