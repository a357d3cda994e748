import { describe, expect, it } from 'vitest';
import { TurnDriver } from '../../test/replay/turn-driver.ts';
import type { HistoryEvent } from '../model/event.ts';
import type { OrchestrationContext } from '../orchestration/orchestration-context.ts';
import { orchestration } from '../orchestration/orchestration.ts';
import { checkReplay } from './replay-test.ts';

const define = (code: (ctx: OrchestrationContext<void>) => unknown) =>
  orchestration('subject', code);

const today = define(async (ctx) => {
  await ctx.call('charge', { at: new Date().toISOString() });
  return ctx.call('ship');
});

async function record(): Promise<TurnDriver> {
  const run = new TurnDriver(today, { alwaysReplay: false });
  await checkReplay({ definition: today, history: [] });
  await run.start();
  await run.turn(run.completed(1));
  return run;
}

describe('checkReplay', () => {
  it('accepts a running history and the code that recorded it', async () => {
    const { history } = await record();
    expect(await checkReplay({ definition: today, history })).toEqual({ ok: true });
  });

  it('accepts an ended history and the code that recorded it', async () => {
    const run = await record();
    await run.turn(run.completed(2, 'shipped'));
    expect(await checkReplay({ definition: today, history: run.history })).toEqual({ ok: true });
  });

  it('returns the first event that differs, with the recorded and issued commands', async () => {
    const { history } = await record();
    const changed = define(async (ctx) => {
      await ctx.call('charge', { at: new Date().toISOString() });
      return ctx.call('gift-wrap');
    });
    const result = await checkReplay({ definition: changed, history, instanceId: 'order-1' });
    expect(result).toMatchObject({ ok: false, eventId: 4 });
    expect(result).toHaveProperty('message', expect.stringContaining('Instance "order-1"'));
    expect(result).toHaveProperty('message', expect.stringContaining('activity "ship"'));
    expect(result).toHaveProperty('message', expect.stringContaining('activity "gift-wrap"'));
  });

  it('detects code that issues more commands than recorded', async () => {
    const { history } = await record();
    const changed = define(async (ctx) => {
      await ctx.call('charge', { at: new Date().toISOString() });
      await ctx.all([ctx.call('ship'), ctx.call('notify')]);
    });
    expect(await checkReplay({ definition: changed, history })).toMatchObject({
      ok: false,
      eventId: 5,
    });
  });

  it('requires the recorded incarnation, execution id and instance id for random values', async () => {
    const random = define(async (ctx) => ctx.child('part', ctx.uuid()));
    const run = new TurnDriver(random, { instanceId: 'i', incarnation: 'x', executionId: 2 });
    await run.start();
    const { history } = run;
    const known = {
      definition: random,
      history,
      instanceId: 'i',
      incarnation: 'x',
      executionId: 2,
    };
    expect(await checkReplay(known)).toEqual({ ok: true });
    expect(await checkReplay({ ...known, incarnation: 'y' })).toMatchObject({ ok: false });
    expect(await checkReplay({ ...known, executionId: 1 })).toMatchObject({ ok: false });
    expect(await checkReplay({ ...known, instanceId: 'j' })).toMatchObject({ ok: false });
  });

  it('accepts histories that ended with a stray await or a failure', async () => {
    const stray = define(async () => new Promise(() => undefined));
    const failing = define(async (ctx) => ctx.call('a'));
    const strayRun = new TurnDriver(stray);
    await strayRun.start();
    expect(strayRun.failure.code).toBe('STRAY_AWAIT');
    const failingRun = new TurnDriver(failing);
    await failingRun.start();
    await failingRun.turn(failingRun.failed(1));
    for (const { definition, history } of [strayRun, failingRun]) {
      expect(await checkReplay({ definition, history })).toEqual({ ok: true });
    }
    const fixed = define(async () => 'fixed');
    expect(await checkReplay({ definition: fixed, history: strayRun.history })).toMatchObject({
      ok: false,
      eventId: 2,
    });
  });

  it('ignores a final terminate or cancel event, but compares the events before it', async () => {
    const { history } = await record();
    const at = 5_000;
    const ends: readonly HistoryEvent[] = [
      { kind: 'executionTerminated', at, reason: 'stuck', actor: null },
      { kind: 'executionCanceled', at, reason: 'stop', cleanupSkipped: true },
    ];
    const changed = define(async (ctx) => {
      await ctx.call('charge', { at: new Date().toISOString() });
      await ctx.all([ctx.call('ship'), ctx.call('notify')]);
    });
    for (const end of ends) {
      expect(await checkReplay({ definition: today, history: [...history, end] })).toEqual({
        ok: true,
      });
      expect(await checkReplay({ definition: changed, history: [...history, end] })).toMatchObject({
        ok: false,
        eventId: 5,
      });
      expect(
        await checkReplay({ definition: today, history: [...history, end, end] }),
      ).toMatchObject({ ok: false, eventId: 6 });
    }
  });

  it('accepts the history of an instance canceled before it started', async () => {
    const history: readonly HistoryEvent[] = [{ kind: 'executionCanceled', at: 1, reason: 'stop' }];
    expect(await checkReplay({ definition: today, history })).toEqual({ ok: true });
  });

  it('accepts the history of a canceled instance and detects changed clean-up code', async () => {
    const careful = define(async (ctx) => {
      try {
        await ctx.call('work');
      } finally {
        await ctx.shield(() => ctx.call('undo'));
      }
    });
    const careless = define(async (ctx) => {
      await ctx.call('work');
    });
    const run = new TurnDriver(careful);
    await run.start();
    await run.turn(run.cancel());
    await run.turn(run.completed(2));
    const { history } = run;
    expect(await checkReplay({ definition: careful, history })).toEqual({ ok: true });
    expect(await checkReplay({ definition: careless, history })).toMatchObject({
      ok: false,
      eventId: 5,
    });
    const swallowing = define(async (ctx) => {
      await ctx.call('work').catch(() => undefined);
      await ctx.shield(() => ctx.call('undo'));
    });
    expect(await checkReplay({ definition: swallowing, history })).toMatchObject({
      ok: false,
      eventId: 7,
    });
  });

  it('rejects with UNDECODABLE for a damaged history', async () => {
    const { history } = await record();
    const damaged = history.map((event) =>
      event.kind === 'activityCompleted' ? { ...event, payload: '{' } : event,
    );
    await expect(checkReplay({ definition: today, history: damaged })).rejects.toMatchObject({
      code: 'UNDECODABLE',
    });
  });
});
