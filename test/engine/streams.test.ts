import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { flow } from '../../src/flows.ts';
import type { StreamedChunk, StreamEntry } from '../../src/index.ts';
import { activity, isolatedActivity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { makeGate } from '../tasks/gate.ts';
import { describeEngine } from './describe-engine.ts';

async function readAll(entries: AsyncIterable<StreamEntry>): Promise<readonly StreamEntry[]> {
  const read: StreamEntry[] = [];
  for await (const entry of entries) read.push(entry);
  return read;
}

function chunksOf(entries: readonly StreamEntry[]): readonly StreamedChunk[] {
  return entries.filter((entry) => entry.kind === 'chunk');
}

const valuesOf = (entries: readonly StreamEntry[]) => chunksOf(entries).map(({ value }) => value);

const everyMode = [
  'all fast paths',
  'no fast paths',
  'a replay after every turn',
  'all hints dropped',
  'PostgreSQL',
  'over HTTP',
];

describeEngine(
  'streams of runs',
  (open) => {
    it('an orchestration and its activities emit into one stream, each chunk once', async () => {
      const ask = activity('ask', async (ctx, turn: number) => {
        for (const token of ['a', 'b', 'c']) await ctx.emit(`${token}${turn}`);
        return turn;
      });
      const agent = orchestration('agent', async (ctx, turns: number) => {
        ctx.emit({ started: turns });
        for (let turn = 1; turn <= turns; turn += 1) {
          await ctx.call(ask, turn);
          ctx.emit({ turn });
          await ctx.sleep(5);
        }
        ctx.emit('last');
        return 'done';
      });
      const { client } = await open({ orchestrations: [agent], activities: [ask] });
      const handle = await client.start(agent, 3);
      const entries = await readAll(handle.stream());
      expect(valuesOf(entries)).toEqual([
        { started: 3 },
        ...[1, 2, 3].flatMap((turn) => [`a${turn}`, `b${turn}`, `c${turn}`, { turn }]),
        'last',
      ]);
      const [first, second] = chunksOf(entries);
      expect(first?.source).toEqual({ executionId: 1 });
      expect(second?.source).toEqual({
        executionId: 1,
        handler: { name: 'ask', operation: 2, attempt: 1, runId: expect.any(String) },
      });
      expect(first?.at).toBeGreaterThan(0);
      expect(await readAll(client.stream(handle.id))).toEqual(entries);
    });

    it('readers begin, leave and continue by cursor, each without gaps or repeats', async () => {
      const gate = makeGate();
      const count = task('count', async (ctx) => {
        for (let n = 0; n < 50; n += 1) await ctx.emit(n);
        await gate.opened;
        for (let n = 50; n < 100; n += 1) await ctx.emit(n);
      });
      const { client } = await open({ tasks: [count] });
      const run = await client.runTask(count);
      const readers = [1, 20, 49].map(async (leaveAfter) => {
        const first: StreamEntry[] = [];
        for await (const entry of client.stream<number>(run.id)) {
          first.push(entry);
          if (first.length === leaveAfter) break;
        }
        gate.open();
        const rest = await readAll(client.stream(run.id, { after: first.at(-1)?.cursor }));
        return valuesOf([...first, ...rest]);
      });
      const all = Array.from({ length: 100 }, (_, n) => n);
      for (const values of await Promise.all(readers)) expect(values).toEqual(all);
    });

    it('bad cursors, ids, jobs and options reject with their codes', async () => {
      const talk = task('talk', async (ctx) => {
        await ctx.emit(1);
      });
      const { client } = await open({ tasks: [talk] });
      const run = await client.runTask(talk, undefined, { id: 'mine' });
      const other = await client.runTask(talk, undefined, { id: 'other' });
      await other.result();
      const [last] = await readAll(run.stream());
      const next = (id: string, after?: unknown) =>
        client.stream(id, { after: after as string }).next();
      for (const after of ['', '1', 'x.y', `-1.abc`, '1e3.abc', '1.abc\n', '9'.repeat(500), 7, {}])
        await expect(next('mine', after)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
      const cursor = last?.cursor ?? '';
      const stream = cursor.split('.')[1] ?? '';
      expect(await next('mine', cursor)).toEqual({ done: true, value: undefined });
      for (const after of [`2.${stream}`, `999999999999999.${stream}`])
        await expect(next('mine', after)).rejects.toMatchObject({ code: 'CURSOR_UNKNOWN' });
      await expect(next('other', cursor)).rejects.toMatchObject({ code: 'CURSOR_UNKNOWN' });
      await expect(next('missing')).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
      await expect(next('')).rejects.toMatchObject({ code: 'INVALID_ID' });
      const wrong = client.stream('mine', { afterr: cursor } as object).next();
      await expect(wrong).rejects.toMatchObject({ code: 'INVALID_OPTION' });
      // A new instance with the same id has another stream.
      await client.deleteInstance('mine');
      await (await client.runTask(talk, undefined, { id: 'mine' })).result();
      await expect(next('mine', cursor)).rejects.toMatchObject({ code: 'CURSOR_UNKNOWN' });
      const job = client.submit(talk);
      await job.result();
      await expect(next(job.id)).rejects.toMatchObject({
        code: expect.stringMatching(/STREAM_TAKEN|INSTANCE_NOT_FOUND/),
      });
    });

    it('a stream above its limit drops the oldest chunks and marks the gap', async () => {
      const text = 'x'.repeat(1_000);
      const flood = task('flood', async (ctx) => {
        for (let n = 0; n < 200; n += 1) await ctx.emit({ n, text });
      });
      const { client } = await open({ tasks: [flood], streamLimitBytes: 64 * 1024 });
      const run = await client.runTask(flood);
      await run.result();
      const [mark, ...rest] = await readAll(run.stream());
      expect(mark).toMatchObject({ kind: 'dropped' });
      const count = mark?.kind === 'dropped' ? mark.count : 0;
      expect(count).toBeGreaterThan(130);
      expect(chunksOf(rest).map(({ value }) => (value as { n: number }).n)).toEqual(
        Array.from({ length: 200 - count }, (_, index) => count + index),
      );
      expect(await readAll(run.stream({ after: mark?.cursor }))).toEqual(rest);
    });

    it('the stream of a deleted instance rejects its readers', async () => {
      const talk = task('talk', async (ctx) => {
        await ctx.emit(1);
        await ctx.canceled();
        ctx.throwIfCanceled();
      });
      const { client } = await open({ tasks: [talk] });
      const run = await client.runTask(talk);
      const reader = run.stream();
      expect((await reader.next()).value).toMatchObject({ value: 1 });
      const [next] = await Promise.allSettled([
        reader.next(),
        client.deleteInstance(run.id, { force: true }),
      ]);
      expect(next).toMatchObject({ reason: { code: 'INSTANCE_NOT_FOUND' } });
    });

    it('readers of a replaced run continue with the new one, each chunk once', async () => {
      const talk = orchestration('talk', async (ctx, word: string) => {
        for (const n of [1, 2]) ctx.emit(`${word} ${n}`);
        await ctx.waitFor('go');
        ctx.emit(`${word} 3`);
      });
      const { client } = await open({ orchestrations: [talk] });
      const start = (word: string) =>
        client.start(talk, word, { id: 'chat', onConflict: 'terminateExisting' });
      await start('old');
      const attached = client.stream('chat');
      const first = (await attached.next()).value as StreamEntry;
      const second = (await attached.next()).value as StreamEntry;
      // Replaced twice: while it runs, with a reader attached, and after its end.
      await start('new');
      const rest = readAll(attached);
      await client.raiseEvent('chat', 'go');
      const next = ['new 1', 'new 2', 'new 3'];
      expect(valuesOf(await rest)).toEqual(next);
      const handle = await start('last');
      await client.raiseEvent('chat', 'go');
      await handle.result();
      const reloaded = await readAll(client.stream('chat', { after: second.cursor }));
      expect(valuesOf(reloaded)).toEqual([...next, 'last 1', 'last 2', 'last 3']);
      expect(chunksOf(reloaded).map(({ source }) => source.executionId)).toEqual([
        2, 2, 2, 3, 3, 3,
      ]);
      expect(valuesOf([first, second])).toEqual(['old 1', 'old 2']);
    });

    it('a reader of a replaced task run continues with the new one', async () => {
      const gate = makeGate();
      const talk = task('talk', async (ctx, word: string) => {
        await ctx.emit(`${word} 1`);
        if (word === 'old') await gate.opened;
        await ctx.emit(`${word} 2`);
      });
      const { client } = await open({ tasks: [talk] });
      const run = (word: string) =>
        client.runTask(talk, word, { id: 'chat', onConflict: 'terminateExisting' });
      await run('old');
      const reader = client.stream('chat');
      const first = (await reader.next()).value as StreamEntry;
      await run('new');
      gate.open();
      const rest = await readAll(reader);
      expect(valuesOf(rest)).toEqual(['new 1', 'new 2']);
      expect(await readAll(client.stream('chat', { after: first.cursor }))).toEqual(rest);
      const runs = new Set(chunksOf([first, ...rest]).map(({ source }) => source.handler?.runId));
      expect(runs.size).toBe(2);
    });

    it('a reader ends by its signal', async () => {
      const silent = task('silent', async (ctx) => {
        await ctx.canceled();
        ctx.throwIfCanceled();
      });
      const { client } = await open({ tasks: [silent] });
      const run = await client.runTask(silent);
      const controller = new AbortController();
      const [aborted] = await Promise.allSettled([
        run.stream({ signal: controller.signal }).next(),
        delay(20).then(() => controller.abort(new Error('enough'))),
      ]);
      expect(aborted).toMatchObject({ reason: { message: 'enough' } });
      await expect(run.stream({ signal: controller.signal }).next()).rejects.toThrow('enough');
      await run.cancel();
    });
  },
  everyMode,
);

describeEngine(
  'streams of handlers',
  (open) => {
    it('chunks of failed attempts stay, with their attempt and their run', async () => {
      const flaky = activity(
        'flaky',
        async (ctx) => {
          await ctx.emit(`attempt ${ctx.attempt}`);
          if (ctx.attempt < 3) throw new Error('again');
          return 'ok';
        },
        { retry: { maxAttempts: 3, initialDelay: 1 } },
      );
      const run = orchestration('run', (ctx) => ctx.call(flaky));
      const { client } = await open({ orchestrations: [run], activities: [flaky] });
      const handle = await client.start(run);
      const chunks = chunksOf(await readAll(handle.stream()));
      expect(chunks.map(({ value, source }) => [value, source.handler?.attempt])).toEqual([
        ['attempt 1', 1],
        ['attempt 2', 2],
        ['attempt 3', 3],
      ]);
      expect(new Set(chunks.map(({ source }) => source.handler?.runId)).size).toBe(3);
      expect(new Set(chunks.map(({ source }) => source.handler?.operation)).size).toBe(1);
    });

    it('emit() without await is stored before the outcome, also before a failure', async () => {
      const burst = task('burst', async (ctx, fails: boolean) => {
        for (let n = 0; n < 300; n += 1) void ctx.emit(n);
        if (fails) throw new Error('after its chunks');
      });
      const { client } = await open({ tasks: [burst] });
      for (const fails of [false, true]) {
        const run = await client.runTask(burst, fails);
        const entries = await readAll(run.stream());
        expect(valuesOf(entries)).toEqual(Array.from({ length: 300 }, (_, n) => n));
        expect((await run.status()).status).toBe(fails ? 'failed' : 'completed');
      }
    });

    it('emit() rejects with STREAM_OVERFLOW if a handler queues too much without await', async () => {
      const greedy = task('greedy', async (ctx) => {
        const text = 'x'.repeat(1_000_000);
        const emits = Array.from({ length: 12 }, () => ctx.emit(text));
        const results = await Promise.allSettled(emits);
        return results.map((one) => (one.status === 'rejected' ? codeOf(one.reason) : 'stored'));
      });
      const { client } = await open({ tasks: [greedy] });
      const results = await (await client.runTask(greedy)).result();
      expect(results).toEqual([
        ...Array<string>(8).fill('stored'),
        ...Array<string>(4).fill('STREAM_OVERFLOW'),
      ]);
    });

    it('emit() rejects values that JSON cannot carry, and chunks above the payload limit', async () => {
      const bad = task('bad', async (ctx) => {
        const emits = [() => 1, 1n, new Date(), { deep: [undefined] }, 'x'.repeat(3_000)];
        const results = await Promise.allSettled(emits.map((value) => ctx.emit(value)));
        await ctx.emit(undefined);
        return results.map((one) => (one.status === 'rejected' ? codeOf(one.reason) : 'stored'));
      });
      const code = orchestration('code', async (ctx) => {
        const codes = [() => 1, 'x'.repeat(3_000)].map((value) => {
          try {
            return ctx.emit(value);
          } catch (error) {
            return codeOf(error);
          }
        });
        ctx.emit(undefined);
        return codes;
      });
      const { client } = await open({
        tasks: [bad],
        orchestrations: [code],
        payloadLimitBytes: 2_000,
      });
      const run = await client.runTask(bad);
      const refused = 'NOT_SERIALIZABLE';
      expect(await run.result()).toEqual([refused, refused, refused, refused, 'PAYLOAD_TOO_LARGE']);
      expect(valuesOf(await readAll(run.stream()))).toEqual([null]);
      const handle = await client.start(code);
      expect(await handle.result()).toEqual([refused, 'PAYLOAD_TOO_LARGE']);
      expect(valuesOf(await readAll(handle.stream()))).toEqual([null]);
    });

    it('an isolated handler and a step of a flow emit to the stream of their run', async () => {
      const module = new URL('./workers/isolated-handlers.ts', import.meta.url);
      const emitCount = isolatedActivity<number, readonly boolean[]>('count', {
        module,
        exportName: 'emitCount',
      });
      const run = orchestration('run', (ctx) => ctx.call(emitCount, 2));
      const talking = flow('talking')
        .input<string>()
        .step('say', {}, async (ctx, { input }) => ctx.emit(input))
        .output();
      const { client } = await open({
        orchestrations: [run],
        activities: [emitCount],
        flows: [talking],
      });
      expect(valuesOf(await readAll((await client.start(run)).stream()))).toEqual([
        { n: 1 },
        { n: 2 },
      ]);
      const flowRun = await client.runFlow(talking, 'hello');
      const [chunk] = chunksOf(await readAll(client.stream(flowRun.id)));
      expect(chunk).toMatchObject({ value: 'hello', source: { handler: { attempt: 1 } } });
    });

    it('an orchestration that runs as a job emits to its caller', async () => {
      const talk = orchestration('talk', async (ctx) => {
        for (let n = 0; n < 5; n += 1) {
          ctx.emit(n);
          await ctx.sleep(1);
        }
        ctx.emit('last');
        return 'done';
      });
      const { client } = await open({ orchestrations: [talk] });
      const job = client.submit(talk);
      const read: unknown[] = [];
      for await (const chunk of job.stream()) read.push(chunk);
      expect(read).toEqual([0, 1, 2, 3, 4, 'last']);
    });

    it('a stream continues over continue-as-new and a retry; a fork starts its own', async () => {
      let isBroken = true;
      const work = activity('work', () => {
        if (isBroken) throw new Error('broken');
      });
      const run = orchestration('run', async (ctx, round: number) => {
        ctx.emit(`round ${round}`);
        if (round === 1) await ctx.continueAsNew(2);
        await ctx.call(work);
        ctx.emit('worked');
      });
      const { client } = await open({ orchestrations: [run], activities: [work] });
      const handle = await client.start(run, 1);
      const before = await readAll(handle.stream());
      expect(valuesOf(before)).toEqual(['round 1', 'round 2']);
      expect(chunksOf(before).map(({ source }) => source.executionId)).toEqual([1, 2]);
      isBroken = false;
      await client.fork(handle.id, { from: 'failure', id: 'forked' });
      expect(valuesOf(await readAll(client.stream('forked')))).toEqual(['worked']);
      await handle.retry({ from: 'failure' });
      const after = await readAll(handle.stream({ after: before.at(-1)?.cursor }));
      expect(valuesOf(after)).toEqual(['worked']);
      expect(chunksOf(after)[0]?.source.executionId).toBe(3);
    });

    it('emit() after the run has ended resolves with false', async () => {
      const gate = makeGate();
      const late = makeGate<boolean>();
      const slow = activity('slow', async (ctx) => {
        await gate.opened;
        late.open(await ctx.emit('late'));
      });
      const run = orchestration('run', async (ctx) => {
        ctx.emit('first');
        void ctx.call(slow, undefined, { cancellation: 'abandon' });
        await ctx.sleep(20);
      });
      const { client } = await open({ orchestrations: [run], activities: [slow] });
      const handle = await client.start(run);
      await handle.result();
      gate.open();
      expect(await late.opened).toBe(false);
      expect(valuesOf(await readAll(handle.stream()))).toEqual(['first']);
    });

    it('a reader of another process follows by hints', async () => {
      const gate = makeGate();
      const talk = task('talk', async (ctx) => {
        for (let n = 0; n < 5; n += 1) {
          await ctx.emit(Date.now());
          await delay(100);
        }
        gate.open();
      });
      const { client, reopen } = await open({ tasks: [talk] });
      const other = await reopen();
      const run = await client.runTask(talk);
      const delays: number[] = [];
      for await (const entry of other.client.stream<number>(run.id)) {
        if (entry.kind === 'chunk') delays.push(Date.now() - entry.value);
      }
      expect(delays).toHaveLength(5);
      expect(Math.min(...delays)).toBeLessThan(100);
    });
  },
  ['all fast paths', 'PostgreSQL'],
);

function codeOf(error: unknown): unknown {
  return (error as { readonly code?: unknown }).code;
}
