import { activity, event, isPerdureError, orchestration, task } from 'perdure';
import { flow, readFlowRun } from 'perdure/flows';
import { expect, it } from 'vitest';
import { describeEngine } from '../describe-engine.ts';
import { signalled } from '../signalled.ts';

const go = event<string>('go');

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
