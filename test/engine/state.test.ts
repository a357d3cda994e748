import { activity, isPerdureError, orchestration, type Client } from 'perdure';
import { expect, it } from 'vitest';
import { describeEngine } from './describe-engine.ts';

const noop = activity('noop', async () => 'done');
const modes = [
  'all fast paths',
  'no fast paths',
  'no warm cache',
  'a replay after every turn',
  'all hints dropped',
  'PostgreSQL',
  'over HTTP',
];

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return 'resolved';
  } catch (error) {
    return isPerdureError(error) ? error.code : String(error);
  }
}

async function valuesOf(client: Client, id: string): Promise<Readonly<Record<string, unknown>>> {
  return Object.fromEntries((await client.state(id)).map(({ key, value }) => [key, value]));
}

describeEngine(
  'state',
  (open) => {
    it('a client reads state without a worker; the code reads its own writes at every position', async () => {
      const counts = orchestration('counts', async (ctx) => {
        const seen: unknown[] = [ctx.state.get('n') ?? null];
        ctx.state.set('n', 1);
        ctx.state.set('list', ['a']);
        seen.push(ctx.state.get('n'), ctx.state.delete('missing'));
        await ctx.waitFor('go');
        seen.push(ctx.state.get('n'), ctx.state.keys());
        // A copy: changing it changes no state.
        ctx.state.get<string[]>('list')?.push('b');
        ctx.state.set('n', 2);
        ctx.state.set('gone', true);
        ctx.state.set('gone', undefined);
        await ctx.call(noop);
        seen.push(ctx.state.get('n'), ctx.state.get('list'), ctx.state.delete('list'));
        ctx.state.set('nothing', null);
        await ctx.waitFor('end');
        return [...seen, ctx.state.keys()];
      });
      const engine = await open({ orchestrations: [counts], activities: [noop] });
      const { client } = engine;
      const handle = await client.start(counts, undefined, { id: 'a' });
      const first = await handle.waitForState<number>('n');
      expect(first).toMatchObject({ key: 'n', value: 1 });
      const elsewhere = await engine.reopen();
      expect(await valuesOf(elsewhere.client, 'a')).toEqual({ n: 1, list: ['a'] });
      await handle.raiseEvent('go');
      const second = await handle.waitForState<number>('n', { after: first.version });
      expect(second.value).toBe(2);
      expect(second.version).toBeGreaterThan(first.version);
      await handle.waitForState('nothing');
      expect(await valuesOf(client, 'a')).toEqual({ n: 2, nothing: null });
      expect(await handle.state('list')).toBeUndefined();
      expect(await client.state<number>('a', 'n')).toEqual(second);
      await handle.raiseEvent('end');
      const keys = ['n', 'list'];
      expect(await handle.result()).toEqual([
        null,
        1,
        false,
        1,
        keys,
        2,
        ['a'],
        true,
        ['n', 'nothing'],
      ]);
      expect(await valuesOf(elsewhere.client, 'a')).toEqual({ n: 2, nothing: null });
    });

    it('state survives continueAsNew(), and every execution replays its own', async () => {
      const loops = orchestration('loops', async (ctx, round: number) => {
        const before = ctx.state.get<number[]>('rounds') ?? [];
        ctx.state.set('rounds', [...before, round]);
        await ctx.call(noop);
        if (round === 2) ctx.state.set('two', 'kept');
        if (round === 3) ctx.state.delete('one');
        if (round === 1) ctx.state.set('one', 'x');
        await ctx.call(noop);
        if (round < 4) await ctx.continueAsNew(round + 1);
        return [ctx.state.get('rounds'), ctx.state.keys()];
      });
      const { client } = await open({ orchestrations: [loops], activities: [noop] });
      const handle = await client.start(loops, 1, { id: 'a' });
      expect(await handle.result()).toEqual([
        [1, 2, 3, 4],
        ['rounds', 'two'],
      ]);
      expect(await valuesOf(client, 'a')).toEqual({ rounds: [1, 2, 3, 4], two: 'kept' });
      await client.pruneExecutions('a', { keepLast: 1 });
      expect(await valuesOf(client, 'a')).toEqual({ rounds: [1, 2, 3, 4], two: 'kept' });
      await client.deleteInstance('a');
      expect(await codeOf(client.state('a'))).toBe('INSTANCE_NOT_FOUND');
    });

    it('a retry and a fork have the state of the events that they keep', async () => {
      let isBroken = true;
      const step = activity('step', () => {
        if (isBroken) throw new Error('broken');
      });
      const flaky = orchestration('flaky', async (ctx, round: number) => {
        if (round === 1) {
          ctx.state.set('base', 1);
          ctx.state.set('other', 1);
          await ctx.continueAsNew(2);
        }
        ctx.state.set('stage', 'before');
        try {
          await ctx.call(step, undefined, { retry: { maxAttempts: 1 } });
        } catch (error) {
          ctx.state.set('stage', 'failed');
          ctx.state.delete('base');
          ctx.state.set('late', true);
          throw error;
        }
        return {
          base: ctx.state.get('base'),
          stage: ctx.state.get('stage'),
          keys: ctx.state.keys(),
        };
      });
      const { client } = await open({ orchestrations: [flaky], activities: [step] });
      const handle = await client.start(flaky, 1, { id: 'a' });
      expect(await codeOf(handle.result())).toBe('INSTANCE_FAILED');
      const failed = { stage: 'failed', other: 1, late: true };
      expect(await valuesOf(client, 'a')).toEqual(failed);
      const version = (await handle.state('stage'))?.version ?? 0;
      await handle.retry({ from: 'start' });
      expect(await codeOf(handle.result())).toBe('INSTANCE_FAILED');
      expect(await valuesOf(client, 'a')).toEqual(failed);
      expect((await handle.state('stage'))?.version).toBeGreaterThan(version);
      const started = (await client.history('a')).items[0]?.event;
      expect(started).toMatchObject({
        kind: 'executionStarted',
        state: [{ key: 'base' }, { key: 'other' }],
      });
      isBroken = false;
      const done = { base: 1, stage: 'before', keys: ['base', 'other', 'stage'] };
      const kept = { base: 1, other: 1, stage: 'before' };
      const fork = await client.fork('a', { from: 'failure', id: 'fork' });
      expect(await fork.result()).toEqual(done);
      expect(await valuesOf(client, 'fork')).toEqual(kept);
      expect(await valuesOf(client, 'a')).toEqual(failed);
      await handle.retry({ from: 'failure' });
      expect(await handle.result()).toEqual(done);
      expect(await valuesOf(client, 'a')).toEqual(kept);
    });

    it('a retry of an execution that ended before its first turn has the state that was carried to it', async () => {
      const carries = orchestration('carries', async (ctx, round: number) => {
        if (round > 1) return ctx.state.get('kept');
        ctx.state.set('kept', 'yes');
        return ctx.continueAsNew(2, { version: '2' });
      });
      const engine = await open({ orchestrations: [carries] });
      const { client } = engine;
      const handle = await client.start(carries, 1, { id: 'a' });
      await handle.waitForState('kept');
      await handle.terminate();
      await handle.retry({ from: 'start', input: 2 });
      const next = orchestration('carries', (ctx) => Promise.resolve(ctx.state.get('kept')), {
        version: '2',
      });
      await engine.startWorker({ orchestrations: [next] });
      expect(await handle.result()).toBe('yes');
    });

    it('limits, invalid keys and unserializable values throw typed errors and change nothing', async () => {
      const big = 'x'.repeat(90);
      const hostile = orchestration('hostile', async (ctx) => {
        const codes: string[] = [];
        const attempt = (act: () => unknown): void => {
          try {
            act();
            codes.push('ok');
          } catch (error) {
            codes.push(isPerdureError(error) ? error.code : String(error));
          }
        };
        attempt(() => ctx.state.set('__proto__', { polluted: true }));
        attempt(() => ctx.state.set('constructor', 1));
        attempt(() => ctx.state.set('three', 3));
        attempt(() => ctx.state.set('four', 4));
        attempt(() => ctx.state.set('three', big + big));
        attempt(() => ctx.state.set('three', 'ä'.repeat(60)));
        attempt(() => ctx.state.set('three', big));
        attempt(() => ctx.state.set('', 1));
        attempt(() => ctx.state.set('a\u0000b', 1));
        attempt(() => ctx.state.set('x'.repeat(257), 1));
        attempt(() => ctx.state.set(7 as never, 1));
        attempt(() => ctx.state.get('\ud800'));
        attempt(() => ctx.state.delete(''));
        attempt(() => ctx.state.set('three', new Map()));
        attempt(() => ctx.state.set('three', () => 1));
        attempt(() => ctx.state.set('three', 1n));
        await ctx.call(noop);
        const { polluted } = {} as { polluted?: unknown };
        return { codes, polluted: polluted ?? 'no', keys: ctx.state.keys() };
      });
      const options = { orchestrations: [hostile], activities: [noop] };
      const { client } = await open({ ...options, stateLimits: { keys: 3, valueBytes: 100 } });
      const handle = await client.start(hostile, undefined, { id: 'a' });
      const tooMuch = 'STATE_LIMIT_EXCEEDED';
      expect(await handle.result()).toEqual({
        codes: [
          'ok',
          'ok',
          'ok',
          tooMuch,
          tooMuch,
          tooMuch,
          'ok',
          ...Array.from({ length: 6 }, () => 'INVALID_NAME'),
          ...Array.from({ length: 3 }, () => 'NOT_SERIALIZABLE'),
        ],
        polluted: 'no',
        keys: ['__proto__', 'constructor', 'three'],
      });
      const entries = await client.state('a');
      expect(entries.map(({ key, value }) => [key, value])).toEqual([
        ['__proto__', { polluted: true }],
        ['constructor', 1],
        ['three', big],
      ]);
      expect(await client.state('a', '__proto__')).toMatchObject({ value: { polluted: true } });
      expect(await codeOf(client.state('a', ''))).toBe('INVALID_NAME');
      expect(await codeOf(client.waitForState('a', 'x', { after: -1 }))).toBe('INVALID_OPTION');
      expect(await codeOf(client.waitForStatus('a', { since: 1 } as never))).toBe('INVALID_OPTION');
    });

    it('an uncaught STATE_LIMIT_EXCEEDED fails the instance and keeps its earlier state', async () => {
      const greedy = orchestration('greedy', async (ctx) => {
        ctx.state.set('kept', 1);
        await ctx.call(noop);
        ctx.state.set('kept', 'x'.repeat(70_000));
      });
      const { client } = await open({ orchestrations: [greedy], activities: [noop] });
      const handle = await client.start(greedy, undefined, { id: 'a' });
      await expect(handle.result()).rejects.toMatchObject({
        failure: { code: 'STATE_LIMIT_EXCEEDED' },
      });
      expect(await valuesOf(client, 'a')).toEqual({ kept: 1 });
    });

    it('an instance has 256 keys of 64 KiB each by default', async () => {
      const codeOfSet = (set: () => void): string => {
        try {
          set();
          return 'set';
        } catch (error) {
          return isPerdureError(error) ? error.code : String(error);
        }
      };
      const fills = orchestration('fills', async (ctx) => {
        for (let n = 1; n < 256; n += 1) ctx.state.set(`key ${n}`, n);
        // The quotes are part of the value.
        const largest = 'x'.repeat(64 * 1024 - 2);
        const codes = [
          codeOfSet(() => ctx.state.set('last', `${largest}x`)),
          codeOfSet(() => ctx.state.set('last', largest)),
          codeOfSet(() => ctx.state.set('one more', 1)),
          codeOfSet(() => ctx.state.set('key 1', 'changed')),
        ];
        await ctx.call(noop);
        ctx.state.delete('key 2');
        return [...codes, codeOfSet(() => ctx.state.set('one more', 1))];
      });
      const { client } = await open({ orchestrations: [fills], activities: [noop] });
      const handle = await client.start(fills, undefined, { id: 'a' });
      const tooMuch = 'STATE_LIMIT_EXCEEDED';
      expect(await handle.result()).toEqual([tooMuch, 'set', tooMuch, 'set', 'set']);
      const values = await valuesOf(client, 'a');
      expect(Object.keys(values)).toHaveLength(256);
      expect(values).toMatchObject({ 'key 1': 'changed', 'one more': 1 });
      expect(values['last']).toHaveLength(64 * 1024 - 2);
    });

    it('waits reject with INSTANCE_OVER, INSTANCE_NOT_FOUND or TIMEOUT', async () => {
      const waits = orchestration('waits', async (ctx) => {
        ctx.setCustomStatus('begun');
        await ctx.waitFor('go');
        ctx.state.set('last', 'words');
      });
      const { client } = await open({ orchestrations: [waits] });
      const handles = await Promise.all(
        ['ends', 'fails', 'deleted'].map((id) => client.start(waits, undefined, { id })),
      );
      const [ends, fails, deleted] = handles as [
        (typeof handles)[number],
        (typeof handles)[number],
        (typeof handles)[number],
      ];
      expect(await ends.waitForStatus()).toEqual({ value: 'begun', version: 1 });
      await Promise.all([fails.waitForStatus(), deleted.waitForStatus()]);
      const codes = [
        codeOf(ends.waitForStatus({ after: 1 })),
        codeOf(ends.waitForState('never')),
        codeOf(fails.waitForState('last')),
        codeOf(deleted.waitForState('last')),
        codeOf(client.waitForState('unknown', 'x')),
        codeOf(ends.waitForState('never', { timeout: 10 })),
        codeOf(ends.waitForStatus({ after: 1, timeout: 10 })),
      ];
      const last = ends.waitForState('last');
      await Promise.all([codes[5], codes[6]]);
      await ends.raiseEvent('go');
      await fails.terminate();
      await deleted.delete({ force: true });
      expect(await Promise.all(codes)).toEqual([
        'INSTANCE_OVER',
        'INSTANCE_OVER',
        'INSTANCE_OVER',
        'INSTANCE_NOT_FOUND',
        'INSTANCE_NOT_FOUND',
        'TIMEOUT',
        'TIMEOUT',
      ]);
      expect((await last).value).toBe('words');
      expect((await client.waitForState('ends', 'last')).value).toBe('words');
      expect(await client.waitForStatus('ends')).toEqual({ value: 'begun', version: 1 });
    });

    it('waitForStatus() delivers each version that the code leaves before it waits', async () => {
      const reports = orchestration('reports', async (ctx) => {
        for (let n = 1; n <= 4; n++) {
          ctx.setCustomStatus({ n });
          await ctx.waitFor('next');
        }
      });
      const { client } = await open({ orchestrations: [reports] });
      const handle = await client.start(reports, undefined, { id: 'a' });
      let after = 0;
      for (let n = 1; n <= 4; n++) {
        const status = await handle.waitForStatus<{ n: number }>({ after });
        expect(status).toEqual({ value: { n }, version: n });
        after = status.version;
        await handle.raiseEvent('next');
      }
      expect(await codeOf(handle.waitForStatus({ after }))).toBe('INSTANCE_OVER');
    });
  },
  modes,
);

describeEngine(
  'state limits',
  (open) => {
    it('a replay accepts recorded state above a limit that was lowered since', async () => {
      const grows = orchestration('grows', async (ctx) => {
        ctx.state.set('a', 'x'.repeat(50));
        ctx.state.set('b', 1);
        await ctx.waitFor('go');
        try {
          ctx.state.set('c', 1);
        } catch (error) {
          return isPerdureError(error) ? error.code : 'other';
        }
        return 'set';
      });
      const engine = await open();
      const worker = await engine.startWorker({ orchestrations: [grows] });
      const handle = await engine.client.start(grows, undefined, { id: 'a' });
      await handle.waitForState('b');
      await worker.stop();
      await engine.startWorker({
        orchestrations: [grows],
        stateLimits: { keys: 1, valueBytes: 10 },
      });
      await handle.raiseEvent('go');
      expect(await handle.result()).toBe('STATE_LIMIT_EXCEEDED');
      expect(await valuesOf(engine.client, 'a')).toEqual({ a: 'x'.repeat(50), b: 1 });
    });
  },
  ['all fast paths', 'no warm cache'],
);

describeEngine(
  'hints of state',
  (open) => {
    it('waits of another process resolve by hint, without a poll', async () => {
      const ticks = orchestration('ticks', async (ctx) => {
        for (let n = 1; n <= 5; n++) {
          await ctx.waitFor('next');
          ctx.state.set('n', n);
          ctx.setCustomStatus(n);
        }
        await ctx.waitFor('end');
      });
      const hour = { pollInterval: '1h' } as const;
      const engine = await open({ orchestrations: [ticks], pollInterval: 1_000 }, hour);
      const { client } = await engine.reopen();
      const handle = await engine.client.start(ticks, undefined, { id: 'a' });
      let after = 0;
      let seen = 0;
      for (let n = 1; n <= 5; n++) {
        const state = client.waitForState('a', 'n', { after });
        const status = client.waitForStatus('a', { after: seen });
        await handle.raiseEvent('next');
        const [entry, custom] = await Promise.all([state, status]);
        expect([entry.value, custom.value]).toEqual([n, n]);
        [after, seen] = [entry.version, custom.version];
      }
      const ended = codeOf(client.waitForState('a', 'n', { after }));
      await handle.raiseEvent('end');
      expect(await ended).toBe('INSTANCE_OVER');
    });
  },
  ['all fast paths', 'PostgreSQL', 'over HTTP'],
);
