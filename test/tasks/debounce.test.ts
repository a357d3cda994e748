import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { flow } from '../../src/flows.ts';
import {
  orchestration,
  task,
  type AdmissionOptions,
  type ErrorCode,
  type RunTaskOptions,
} from '../../src/index.ts';
import { describeEngine } from '../engine/describe-engine.ts';

const modes = ['all fast paths', 'PostgreSQL', 'over HTTP'];

const echo = task('echo', (ctx, text: string) => `${text} ${ctx.headers['by'] ?? ''}`.trim());
const hello = orchestration('hello', async (_ctx, text: string) => text);
const greeting = flow('greeting')
  .input<string>()
  .step('greet', (_ctx, { input }) => input)
  .output();

describeEngine(
  'debounced starts and windows of dedupe keys',
  (open) => {
    it('runTask() with debounce runs once, with the newest input, headers and tags', async () => {
      const { client } = await open({ tasks: [echo] });
      const debounce = { key: 'k', wait: 300, maxWait: '1m' };
      const first = await client.runTask(echo, 'one', { debounce, headers: { by: 'ada' } });
      expect(first.created).toBe(true);
      const options = { debounce, headers: { by: 'bob' }, tags: { t: '2' } };
      const second = await client.runTask(echo, 'two', { ...options, id: 'another' });
      expect(second).toMatchObject({ id: first.id, created: false });
      const waiting = await client.get(first.id);
      expect(waiting).toMatchObject({ status: 'pending', tags: { t: '2' }, input: 'two' });
      const { waits, text, short } = await client.why(first.id);
      const startsAt = waiting?.runAt ?? 0;
      expect(waits[0]).toEqual({ kind: 'debounced', key: 'k', moves: 1, startsAt });
      expect(text).toContain(new Date(startsAt).toISOString());
      expect(`${text} ${short}`).toMatch(
        /Debounced.*\(moved 1 time\).*Debounced.*\(moved 1 time\)/,
      );
      expect((await client.list({})).items).toMatchObject([{ id: first.id, runAt: startsAt }]);
      expect(await second.result()).toBe('two bob');
      const { startedAt = 0 } = await second.status();
      expect(startedAt).toBeGreaterThanOrEqual(startsAt);
      // It has started: the next request has a run of its own, also under the id of the first.
      const third = await client.runTask(echo, 'three', { debounce: { key: 'k', wait: 1 } });
      expect(third.created).toBe(true);
      expect(await third.result()).toBe('three');
    });

    it('start() and runFlow() with debounce run once, with the newest input', async () => {
      const { client } = await open({ orchestrations: [hello], flows: [greeting] });
      const debounce = { key: 'k', wait: 200 };
      const first = await client.start(hello, 'one', { debounce, id: 'same' });
      // The input hash of the same id does not conflict.
      const second = await client.start(hello, 'two', { debounce, id: 'same' });
      expect(second.id).toBe(first.id);
      expect((await client.get('same'))?.runAt).toBeGreaterThan(0);
      expect(await second.result()).toBe('two');
      const flows = [];
      for (const input of ['a', 'b'])
        flows.push(await client.runFlow(greeting, input, { debounce }));
      expect(new Set(flows.map(({ id }) => id)).size).toBe(1);
      expect(await flows[0]?.result()).toBe('b');
    });

    it('a repeated requestKey changes nothing', async () => {
      const { client } = await open({ tasks: [echo] });
      const debounce = { key: 'k', wait: 200 };
      const { id } = await client.runTask(echo, 'one', { debounce });
      const repeated = { debounce: { ...debounce, requestKey: 'r' } };
      await client.runTask(echo, 'two', repeated);
      const moved = await client.get(id);
      await client.runTask(echo, 'ignored', repeated);
      expect((await client.get(id))?.runAt).toBe(moved?.runAt);
      expect(await client.wait(id)).toMatchObject({ output: 'two' });
      expect((await client.runTask(echo, 'ignored', repeated)).id).toBe(id);
    });

    it('dedupe with `for` returns the run after its end, until its window has passed', async () => {
      const { client } = await open({ tasks: [echo], orchestrations: [hello] });
      const dedupe = { key: 'k', for: '1h' };
      const run = await client.runTask(echo, 'one', { dedupe });
      await run.result();
      const again = await client.runTask(echo, 'two', { dedupe });
      expect(again).toMatchObject({ id: run.id, created: false });
      expect(await again.result()).toBe('one');
      const instance = await client.start(hello, 'one', { dedupe });
      await instance.result();
      expect((await client.start(hello, 'two', { dedupe })).id).toBe(instance.id);
      // A plain key holds while a run is active.
      expect((await client.runTask(echo, 'three', { dedupeKey: 'k' })).created).toBe(true);
      await client.deleteInstance(instance.id);
      expect((await client.start(hello, 'two', { dedupe })).id).not.toBe(instance.id);
      const short = { dedupe: { key: 'short', for: 50 } };
      await (await client.runTask(echo, 'one', short)).result();
      await delay(60);
      expect((await client.runTask(echo, 'two', short)).created).toBe(true);
    });

    it('handlers debounce with ctx.client', async () => {
      const asking = task('asking', async (ctx, text: string) => {
        const debounce = { key: 'k', wait: 2_000 };
        return (await ctx.client.runTask(echo, text, { debounce })).id;
      });
      const { client } = await open({ tasks: [asking, echo] });
      const ids = [];
      for (const text of ['one', 'two'])
        ids.push(await (await client.runTask(asking, text)).result());
      expect(new Set(ids).size).toBe(1);
      expect(await client.wait(ids[0] ?? '')).toMatchObject({ output: 'two' });
    });

    const wait = 1_000;
    const key = 'k';
    const wrong: readonly [what: string, options: object, code: ErrorCode][] = [
      ['a wait of 0', { debounce: { key, wait: 0 } }, 'INVALID_OPTION'],
      ['a negative wait', { debounce: { key, wait: -1 } }, 'INVALID_DURATION'],
      ['a wait that is NaN', { debounce: { key, wait: Number.NaN } }, 'INVALID_DURATION'],
      ['a wait of 400 days', { debounce: { key, wait: '400d' } }, 'INVALID_OPTION'],
      ['an infinite wait', { debounce: { key, wait: Infinity } }, 'INVALID_DURATION'],
      ['no wait', { debounce: { key } }, 'INVALID_OPTION'],
      ['no key', { debounce: { wait } }, 'INVALID_ID'],
      ['an empty key', { debounce: { key: '', wait } }, 'INVALID_ID'],
      ['a key of 10 KB', { debounce: { key: 'k'.repeat(10_240), wait } }, 'INVALID_ID'],
      ['maxWait below wait', { debounce: { key, wait, maxWait: 999 } }, 'INVALID_OPTION'],
      ['an unknown option', { debounce: { key, wait, max: 2_000 } }, 'INVALID_OPTION'],
      ['text as debounce', { debounce: 'k' }, 'INVALID_OPTION'],
      ['debounce and dedupeKey', { debounce: { key, wait }, dedupeKey: key }, 'INVALID_OPTION'],
      ['debounce and delay', { debounce: { key, wait }, delay: 1 }, 'INVALID_OPTION'],
      [
        'debounce and dedupe',
        { debounce: { key, wait }, dedupe: { key, for: 1 } },
        'INVALID_OPTION',
      ],
      ['dedupe and dedupeKey', { dedupe: { key, for: 1 }, dedupeKey: key }, 'INVALID_OPTION'],
      ['dedupe without a time', { dedupe: { key } }, 'INVALID_OPTION'],
      ['dedupe for 0', { dedupe: { key, for: 0 } }, 'INVALID_OPTION'],
      ['dedupe for a negative time', { dedupe: { key, for: '-1h' } }, 'INVALID_DURATION'],
      ['dedupe for 1,000 years', { dedupe: { key, for: '300000d' } }, 'INVALID_OPTION'],
      ['dedupe with a key of 10 KB', { dedupe: { key: 'k'.repeat(10_240), for: 1 } }, 'INVALID_ID'],
    ];

    it('runTask() and start() reject invalid and contradictory options', async () => {
      const { client } = await open();
      for (const [what, options, code] of wrong) {
        const given = options as AdmissionOptions;
        const codeOf = async (call: Promise<unknown>) =>
          call.then(() => 'accepted').catch((error: unknown) => (error as { code?: string }).code);
        expect([what, await codeOf(client.runTask(echo, 'x', given))]).toEqual([what, code]);
        expect([what, await codeOf(client.start(hello, 'x', given))]).toEqual([what, code]);
      }
      expect((await client.list({})).items).toEqual([]);
    });

    it('submit() and schedules reject debounce; schedules take dedupe', async () => {
      const { client } = await open({ tasks: [echo] });
      const debounce = { debounce: { key, wait } } as RunTaskOptions;
      expect(() => client.submit(echo, 'x', debounce as never)).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION' }),
      );
      const schedule = { every: '1h', task: echo, input: 'x' } as const;
      await expect(
        client.schedules.put('s', { ...schedule, options: debounce }),
      ).rejects.toMatchObject({ code: 'INVALID_OPTION' });
      const dedupe = { key, for: '1h' };
      await client.schedules.put('s', { ...schedule, options: { dedupe } });
      const run = await client.runTask(echo, 'first', { dedupe });
      await run.result();
      expect(await client.schedules.trigger('s')).toMatchObject({ id: run.id });
      expect((await client.list({ name: 'echo' })).items).toHaveLength(1);
      const job = client.submit(echo, 'x', { dedupe });
      await expect(job.result()).rejects.toMatchObject({ code: 'INSTANCE_ALREADY_EXISTS' });
    });
  },
  modes,
);
