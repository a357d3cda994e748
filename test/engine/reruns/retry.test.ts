import { activity, event, isPerdureError, orchestration, task } from 'perdure';
import { expect, it } from 'vitest';
import { describeEngine } from '../describe-engine.ts';

const modes = [
  'all fast paths',
  'no fast paths',
  'a replay after every turn',
  'PostgreSQL',
  'over HTTP',
];

const approval = event<string>('approval');

describeEngine(
  'retry',
  (engine) => {
    it('retry from the failure keeps completed activities and runs the failed one again', async () => {
      const { client, startWorker } = await engine();
      const calls: string[] = [];
      let isBroken = true;
      const first = activity('first', () => void calls.push('first'));
      const second = activity('second', (ctx, _id: string) => {
        calls.push('second');
        if (isBroken) throw new Error('broken');
        return ctx.attempt;
      });
      const two = orchestration('two', async (ctx, input: string) => {
        await ctx.call(first);
        const id = ctx.uuid();
        const attempt = await ctx.call(second, id, { retry: { maxAttempts: 1 } });
        return { input, id, attempt, executionId: ctx.executionId };
      });
      await startWorker({ orchestrations: [two], activities: [first, second] });
      const handle = await client.start(two, 'in', { id: 'order' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      const { endedAt } = await handle.status();
      isBroken = false;
      const retried = await handle.retry({ from: 'failure', actor: 'ada', reason: 'fixed' });
      expect(retried).toEqual({ id: 'order', executionId: 2, keptEvents: 4 });
      const result = await handle.result();
      expect(result).toMatchObject({ input: 'in', attempt: 1, executionId: 2 });
      expect(calls).toEqual(['first', 'second', 'second']);
      const info = await handle.status();
      expect(info).toMatchObject({ status: 'completed', executionId: 2 });
      expect(info.failure).toBeUndefined();
      const { items } = await client.listExecutions('order');
      expect(items).toMatchObject([
        { executionId: 1, status: 'failed', endedAt, historyLength: 6 },
        { executionId: 2, status: 'completed' },
      ]);
      expect(items[0]?.failure?.message).toContain('broken');
      const old = await client.history('order', { executionId: 1 });
      expect(old.items.at(-1)?.event.kind).toBe('executionFailed');
      const [scheduled] = old.items.filter(({ id }) => id === 4);
      expect(JSON.stringify(scheduled)).toContain(result.id);
      const { items: audit } = await client.listAudit();
      expect(audit[0]).toMatchObject({
        action: 'retry',
        actor: 'ada',
        reason: expect.stringContaining('fixed'),
        instanceId: 'order',
        instances: 1,
      });
    });

    it('retry from the start runs everything again, with a new input if given', async () => {
      const { client, startWorker } = await engine();
      const fails = orchestration('fails', (ctx, input: string) => {
        if (input === 'bad') throw new Error('bad input');
        return Promise.resolve(`${input}/${ctx.executionId}`);
      });
      await startWorker({ orchestrations: [fails] });
      const handle = await client.start(fails, 'bad', { id: 'fails' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      await handle.retry({ from: 'failure' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      await handle.retry({ from: 'start', input: 'good' });
      expect(await handle.result()).toBe('good/3');
      // The repeated original start still finds the instance.
      const again = await client.start(fails, 'bad', { id: 'fails' });
      expect(await again.result()).toBe('good/3');
    });

    it('retry after a cancel continues before the cancel request and keeps later events', async () => {
      const { client, startWorker } = await engine();
      const work = activity('work', () => 'worked');
      const waits = orchestration('waits', async (ctx) => {
        const worked = await ctx.call(work);
        ctx.setCustomStatus('waiting');
        return `${worked} ${await ctx.waitFor(approval)}`;
      });
      await startWorker({ orchestrations: [waits], activities: [work] });
      const handle = await client.start(waits, undefined, { id: 'waits' });
      await expect.poll(async () => (await handle.status()).customStatus).toBe('waiting');
      await handle.cancel({ reason: 'mistake', wait: true });
      await handle.retry({ from: 'failure' });
      const info = await handle.status();
      expect(info).toMatchObject({ status: 'running', customStatus: 'waiting' });
      expect(info.cancel).toBeUndefined();
      expect(info.endedAt).toBeUndefined();
      await handle.raiseEvent(approval, 'approved');
      expect(await handle.result()).toBe('worked approved');
    });

    it('retry after a terminate schedules open work, timers and children again', async () => {
      const { client, startWorker } = await engine();
      let starts = 0;
      const opened = Promise.withResolvers<void>();
      const slow = activity('slow', async (ctx) => {
        starts += 1;
        if (starts > 1) return 'done';
        opened.resolve();
        await ctx.canceled();
        throw ctx.signal.reason;
      });
      const child = orchestration('child', (ctx) => ctx.call(slow));
      const parent = orchestration('parent', async (ctx) => {
        const sleep = ctx.sleep(1);
        const value = await ctx.child(child);
        await sleep;
        return value;
      });
      await startWorker({ orchestrations: [parent, child], activities: [slow] });
      const handle = await client.start(parent, undefined, { id: 'parent' });
      await opened.promise;
      await handle.terminate({ reason: 'stop', tree: true });
      await handle.retry({ from: 'failure' });
      expect(await handle.result()).toBe('done');
      expect((await client.get('parent/2.2'))?.status).toBe('completed');
      expect(await client.listExecutions('parent')).toMatchObject({
        items: [{ status: 'terminated', reason: 'stop' }, { status: 'completed' }],
      });
    });

    it('a retry and a fork from the start give children with a fixed id a generated one', async () => {
      const { client, startWorker } = await engine();
      let isBroken = true;
      const child = orchestration('child', (ctx) => ctx.instanceId);
      const parent = orchestration('parent', async (ctx) => {
        const ids = [
          await ctx.child(child, undefined, { id: 'fixed' }),
          await ctx.child(child),
          await ctx.child(child, undefined, { id: `own-${ctx.executionId}` }),
        ];
        if (isBroken) throw new Error('bug');
        return ids;
      });
      await startWorker({ orchestrations: [parent, child] });
      const handle = await client.start(parent, undefined, { id: 'parent' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      await handle.retry({ from: 'start' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      isBroken = false;
      await handle.retry({ from: 'start' });
      expect(await handle.result()).toEqual(['parent/3.1', 'parent/3.2', 'own-3']);
      const copy = await client.fork('parent', { from: 'start', id: 'copy' });
      expect(await copy.result()).toEqual(['copy/1.1', 'copy/1.2', 'copy/1.3']);
      // The children of the first execution stay readable.
      expect(await client.get('fixed')).toMatchObject({ status: 'completed', parentId: 'parent' });
    });

    it('two children with the same fixed id in one retried execution still conflict', async () => {
      const { client, startWorker } = await engine();
      const child = orchestration('child', (ctx) => ctx.instanceId);
      const parent = orchestration('parent', async (ctx, id: string) => {
        await ctx.child(child, undefined, { id });
        await ctx.child(child, undefined, { id });
      });
      await startWorker({ orchestrations: [parent, child] });
      const handle = await client.start(parent, 'one', { id: 'parent' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      await handle.retry({ from: 'start', input: 'two' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      expect(JSON.stringify(await client.get('parent'))).toContain('\\"two\\" already exists');
    });

    it('retry delivers the last completed result again if the code failed on it', async () => {
      const { client, startWorker } = await engine();
      let runs = 0;
      let isBroken = true;
      const counted = activity('counted', () => (runs += 1));
      const code = orchestration('code', async (ctx) => {
        const value = await ctx.call(counted);
        if (isBroken) throw new Error('bug');
        return value;
      });
      await startWorker({ orchestrations: [code], activities: [counted] });
      const handle = await client.start(code, undefined, { id: 'code' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      isBroken = false;
      await handle.retry({ from: 'failure' });
      expect(await handle.result()).toBe(1);
      expect(runs).toBe(1);
    });

    it('retry of a retry that was terminated before its first turn loses no event and no result', async () => {
      const { client, startWorker } = await engine();
      let runs = 0;
      let isBroken = true;
      const counted = activity('counted', () => (runs += 1));
      const waits = orchestration('waits', async (ctx) => {
        const [value, count] = await ctx.all([ctx.waitFor('go'), ctx.call(counted)]);
        if (isBroken) throw new Error('broken');
        return [value, count];
      });
      const code = { orchestrations: [waits], activities: [counted] };
      const worker = await startWorker(code);
      const handle = await client.start(waits, undefined, { id: 'waits' });
      await handle.raiseEvent('go', 'sent once');
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      await worker.stop();
      for (let round = 0; round < 2; round += 1) {
        await handle.retry({ from: 'failure' });
        await handle.terminate();
      }
      await handle.retry({ from: 'failure' });
      isBroken = false;
      await startWorker(code);
      expect(await handle.result()).toEqual(['sent once', 1]);
      expect(runs).toBe(1);
    });

    it('an event with a repeated key is raised once, over a retry and a replacement', async () => {
      let isBroken = true;
      const two = orchestration('two', async (ctx, _of: string) => {
        const first = await ctx.waitFor(approval);
        if (isBroken) throw new Error('broken');
        return [first, await ctx.waitFor(approval)];
      });
      const { client } = await engine({ orchestrations: [two] });
      const handle = await client.start(two, 'old', { id: 'order' });
      const raise = (text: string, key: string) => handle.raiseEvent(approval, text, { key });
      await raise('first', 'a');
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      isBroken = false;
      await handle.retry({ from: 'failure' });
      await raise('repeated', 'a');
      await raise('second', 'b');
      // The retry delivers the first event again.
      expect(await handle.result()).toEqual(['first', 'second']);
      await client.start(two, 'new', { id: 'order', onConflict: 'terminateExisting' });
      for (const key of ['a', 'c', 'b', 'd']) await raise(key, key);
      expect(await handle.result()).toEqual(['c', 'd']);
    });

    it('retry of a failed task run runs its handler again with fresh attempts', async () => {
      const { client, startWorker } = await engine();
      const attempts: number[] = [];
      let isBroken = true;
      const job = task(
        'job',
        (ctx, input: string) => {
          attempts.push(ctx.attempt);
          if (isBroken) throw new Error('broken');
          return input;
        },
        { retry: { maxAttempts: 1 } },
      );
      await startWorker({ tasks: [job] });
      const handle = await client.runTask(job, 'in', { id: 'job', dedupeKey: 'key' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      isBroken = false;
      await handle.retry({ from: 'failure' });
      expect(await handle.result()).toBe('in');
      expect(attempts).toEqual([1, 1]);
      expect((await client.listExecutions('job')).items).toMatchObject([
        { executionId: 1, status: 'failed' },
        { executionId: 2, status: 'completed' },
      ]);
    });

    it('retry rejects what cannot be retried and changes nothing', async () => {
      const { client, startWorker } = await engine();
      const done = orchestration('done', () => Promise.resolve('done'));
      const waits = orchestration('waits', (ctx) => ctx.waitFor('never'));
      const fails = orchestration('fails', () => Promise.reject(new Error('fails')));
      const parent = orchestration('parent', (ctx) => ctx.child(fails, undefined, { id: 'child' }));
      // A retried execution that failed again could be retried again.
      const waitsOnRetry = orchestration('waitsOnRetry', (ctx) => {
        if (ctx.executionId === 1) throw new Error('fails once');
        return ctx.waitFor('never');
      });
      await startWorker({ orchestrations: [done, waits, fails, parent, waitsOnRetry] });
      await (await client.start(done, undefined, { id: 'done' })).result();
      await client.start(waits, undefined, { id: 'waits' });
      await (
        await client.start(parent, undefined, { id: 'parent' })
      )
        .result()
        .catch(() => undefined);
      const codeOf = (call: Promise<unknown>) =>
        call.then(
          () => 'resolved',
          (error: unknown) => (isPerdureError(error) ? error.code : String(error)),
        );
      const from = 'failure';
      expect(await codeOf(client.retry('unknown', { from }))).toBe('INSTANCE_NOT_FOUND');
      expect(await codeOf(client.retry('done', { from }))).toBe('INSTANCE_NOT_RETRYABLE');
      expect(await codeOf(client.retry('waits', { from }))).toBe('INSTANCE_STILL_RUNNING');
      expect(await codeOf(client.retry('child', { from }))).toBe('INSTANCE_NOT_RETRYABLE');
      expect(await codeOf(client.retry('parent', { from: 'end' } as never))).toBe('INVALID_OPTION');
      expect(await codeOf(client.retry('parent', { from, input: 1 }))).toBe('INVALID_OPTION');
      expect(await client.get('done')).toMatchObject({ status: 'completed', executionId: 1 });
      const once = await client.start(waitsOnRetry, undefined, { id: 'once' });
      await expect(once.result()).rejects.toThrow('fails once');
      const racing = await Promise.all(
        [1, 2, 3].map(() => codeOf(client.retry('once', { from: 'start' }))),
      );
      expect(racing.toSorted()).toEqual([
        'INSTANCE_STILL_RUNNING',
        'INSTANCE_STILL_RUNNING',
        'resolved',
      ]);
    });

    it('a fork continues a copy and leaves its live original unchanged', async () => {
      const { client, startWorker } = await engine();
      const calls: string[] = [];
      const step = activity('step', (ctx) => {
        calls.push(ctx.instanceId);
        return ctx.instanceId;
      });
      const forked = orchestration('forked', async (ctx, input: string) => {
        const ids = [ctx.instanceId, await ctx.call(step)];
        const answer = await ctx.waitFor(approval);
        return { input, ids: [...ids, ctx.instanceId], answer, last: await ctx.call(step) };
      });
      await startWorker({ orchestrations: [forked], activities: [step] });
      const original = await client.start(forked, 'in', { id: 'original' });
      await expect.poll(async () => (await client.history('original')).items.length).toBe(4);
      const before = await client.exportHistory('original');
      const fork = await client.fork('original', { from: 3, id: 'fork' });
      const again = await client.fork('original', { from: 3, id: 'fork' });
      expect([fork.id, again.id]).toEqual(['fork', 'fork']);
      await fork.raiseEvent(approval, 'yes');
      expect(await fork.result()).toEqual({
        input: 'in',
        ids: ['original', 'original', 'fork'],
        answer: 'yes',
        last: 'fork',
      });
      expect(await fork.status()).toMatchObject({
        forkedFrom: { id: 'original', executionId: 1, eventId: 3 },
      });
      expect(await client.exportHistory('original')).toEqual(before);
      await expect(client.fork('original', { from: 4, id: 'fork' })).rejects.toMatchObject({
        code: 'INSTANCE_ALREADY_EXISTS',
      });
      await expect(client.fork('original', { from: 99 })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
      await expect(client.fork('original', { from: 'failure' })).rejects.toMatchObject({
        code: 'INSTANCE_STILL_RUNNING',
      });
      await original.raiseEvent(approval, 'no');
      expect(await original.result()).toMatchObject({ answer: 'no' });
      const fresh = await client.fork('original', { from: 'start', input: 'other' });
      await fresh.raiseEvent(approval, 'maybe');
      expect(await fresh.result()).toMatchObject({ input: 'other', answer: 'maybe' });
    });
  },
  modes,
);
