import { expect, it } from 'vitest';
import type { StreamedChunk, StreamEntry } from '../../src/index.ts';
import { isPerdureError } from '../../src/model/failures/errors.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import type { StepContext } from '../../src/orchestration/steps.ts';
import { makeGate } from '../tasks/gate.ts';
import { describeEngine } from './describe-engine.ts';

async function readChunks(entries: AsyncIterable<StreamEntry>): Promise<readonly StreamedChunk[]> {
  const chunks: StreamedChunk[] = [];
  for await (const entry of entries) if (entry.kind === 'chunk') chunks.push(entry);
  return chunks;
}

const valuesOf = (chunks: readonly StreamedChunk[]) => chunks.map(({ value }) => value);
const codeOf = (error: unknown) => (isPerdureError(error) ? error.code : String(error));

describeEngine(
  'streams of steps',
  (open) => {
    it('steps and the code of an orchestration emit into one stream, each chunk once', async () => {
      const say = async (step: StepContext, words: readonly string[]) => {
        const stored: boolean[] = [];
        for (const word of words) stored.push(await step.emit(word));
        return stored;
      };
      const agent = orchestration('agent', async (ctx) => {
        ctx.emit('begin');
        const stored = await ctx.run('think', (step) => say(step, ['a', 'b']));
        ctx.emit('between');
        await ctx.sleep(5);
        await ctx.run('speak', (step) => say(step, ['c']));
        ctx.emit('end');
        return stored;
      });
      const { client } = await open({ orchestrations: [agent] });
      const handle = await client.start(agent);
      const chunks = await readChunks(handle.stream());
      expect(valuesOf(chunks)).toEqual(['begin', 'a', 'b', 'between', 'c', 'end']);
      expect(await handle.result()).toEqual([true, true]);
      expect(chunks[1]?.source).toEqual({
        executionId: 1,
        handler: { name: 'think', operation: 2, attempt: 1, runId: expect.any(String) },
      });
      expect(await readChunks(client.stream(handle.id, { after: chunks[3]?.cursor }))).toEqual(
        chunks.slice(4),
      );
    });

    it('chunks of failed attempts of a step stay, with their attempt and their run', async () => {
      const run = orchestration('run', (ctx) =>
        ctx.run(
          'flaky',
          (step) => {
            // Not awaited: stored before the outcome of the attempt.
            for (let n = 0; n < 3; n += 1) void step.emit(n);
            if (step.attempt < 3) throw new Error('again');
            return 'ok';
          },
          { retry: { maxAttempts: 3, initialDelay: 1 } },
        ),
      );
      const { client } = await open({ orchestrations: [run] });
      const handle = await client.start(run);
      const chunks = await readChunks(handle.stream());
      expect(await handle.result()).toBe('ok');
      expect(chunks.map(({ value, source }) => [source.handler?.attempt, value])).toEqual(
        [1, 2, 3].flatMap((attempt) => [0, 1, 2].map((n) => [attempt, n])),
      );
      expect(new Set(chunks.map(({ source }) => source.handler?.runId)).size).toBe(3);
      expect(new Set(chunks.map(({ source }) => source.handler?.operation)).size).toBe(1);
    });
  },
  [
    'all fast paths',
    'no fast paths',
    'a replay after every turn',
    'all hints dropped',
    'PostgreSQL',
    'over HTTP',
  ],
);

describeEngine(
  'emits of steps',
  (open) => {
    it('a step of a job emits to its caller, and waits for a slow reader', async () => {
      const count = 600;
      const talk = orchestration('talk', (ctx) =>
        ctx.run('count', async (step) => {
          for (let n = 0; n < count; n += 1) {
            const emitted = step.emit(n);
            if (n % 50 === 49) await emitted;
          }
          return 'done';
        }),
      );
      const { client } = await open({ orchestrations: [talk] });
      const job = client.submit(talk);
      const read: unknown[] = [];
      for await (const chunk of job.stream()) read.push(chunk);
      expect(read).toEqual(Array.from({ length: count }, (_, n) => n));
      expect(await job.result()).toBe('done');
    });

    it('a cancel stops a step that emits, and its later chunks are not stored', async () => {
      const refused = makeGate<unknown>();
      const endless = orchestration('endless', (ctx) =>
        ctx.run('emit', async (step) => {
          try {
            for (let n = 0; ; n += 1) await step.emit(n);
          } catch (error) {
            refused.open(error);
            throw error;
          }
        }),
      );
      const { client } = await open({ orchestrations: [endless] });
      const handle = await client.start(endless);
      const reader = handle.stream();
      await reader.next();
      await handle.cancel({ wait: true });
      expect(await refused.opened).toMatchObject({ code: 'OPERATION_CANCELED' });
      expect((await handle.status()).status).toBe('canceled');
      const numbers = valuesOf(await readChunks(handle.stream()));
      expect(numbers).toEqual(numbers.map((_, n) => n));
    });

    it('emit() of a step that has ended resolves with false', async () => {
      let ended: StepContext | undefined;
      const run = orchestration('run', async (ctx) => {
        await ctx.run('first', async (step) => {
          ended = step;
          await step.emit('in time');
        });
        return ctx.run('second', () => ended?.emit('late'));
      });
      const { client } = await open({ orchestrations: [run] });
      const handle = await client.start(run);
      expect(await handle.result()).toBe(false);
      expect(valuesOf(await readChunks(handle.stream()))).toEqual(['in time']);
    });

    it('emit() of a step rejects bad chunks, and above its queue with STREAM_OVERFLOW', async () => {
      const run = orchestration('run', (ctx) =>
        ctx.run('emit', async (step) => {
          const bad = [() => 1, 1n, new Date(), { deep: [undefined] }, 'x'.repeat(1_100_000)];
          const much = Array.from({ length: 12 }, () => 'x'.repeat(1_000_000));
          const results = await Promise.allSettled(
            [undefined, ...bad, ...much].map((chunk) => step.emit(chunk)),
          );
          return results.map((one) => (one.status === 'rejected' ? codeOf(one.reason) : 'stored'));
        }),
      );
      const { client } = await open({ orchestrations: [run], payloadLimitBytes: 1_050_000 });
      expect(await (await client.start(run)).result()).toEqual([
        'stored',
        ...Array<string>(4).fill('NOT_SERIALIZABLE'),
        'PAYLOAD_TOO_LARGE',
        ...Array<string>(8).fill('stored'),
        ...Array<string>(4).fill('STREAM_OVERFLOW'),
      ]);
    });

    it('the stream of steps is bounded, and its oldest chunks are dropped', async () => {
      const flood = orchestration('flood', (ctx) =>
        ctx.run('emit', async (step) => {
          for (let n = 0; n < 200; n += 1) void step.emit({ n, text: 'x'.repeat(1_000) });
        }),
      );
      const { client } = await open({ orchestrations: [flood], streamLimitBytes: 64 * 1024 });
      const handle = await client.start(flood);
      await handle.result();
      const { value: first } = await handle.stream().next();
      expect(first).toMatchObject({ kind: 'dropped' });
      const chunks = await readChunks(handle.stream());
      expect(chunks.length).toBeLessThan(64);
      expect(chunks.at(-1)?.value).toMatchObject({ n: 199 });
    });
  },
  ['all fast paths', 'PostgreSQL'],
);

describeEngine(
  'emits in transactions',
  (open) => {
    it('step.emit() in a transaction on SQLite rejects with TRANSACTION_NESTED', async () => {
      const run = orchestration('run', (ctx) =>
        ctx.transaction('write', (_tx, step) => step.emit(1).catch(codeOf)),
      );
      const { client } = await open({ orchestrations: [run] });
      expect(await (await client.start(run)).result()).toBe('TRANSACTION_NESTED');
    });
  },
  ['all fast paths'],
);

describeEngine(
  'emits in transactions of PostgreSQL',
  (open) => {
    it('step.emit() in a transaction is stored before its commit', async () => {
      const run = orchestration('run', (ctx) =>
        ctx.transaction('write', (_tx, step) => {
          void step.emit(1);
          return step.emit(2);
        }),
      );
      const { client } = await open({ orchestrations: [run] });
      const handle = await client.start(run);
      expect(await handle.result()).toBe(true);
      expect(valuesOf(await readChunks(handle.stream()))).toEqual([1, 2]);
    });
  },
  ['PostgreSQL'],
);
