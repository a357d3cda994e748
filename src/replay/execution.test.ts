import { describe, expect, it } from 'vitest';
import { drive, kindsOf } from '../../test/replay/turn-driver.ts';

describe('R1: history order is execution order', () => {
  it('records an incoming event, then the commands it led to, then the next incoming event', async () => {
    const run = drive(async (ctx) => {
      await Promise.all([
        ctx.call('a').then(() => ctx.call('after a')),
        ctx.call('b').then(() => ctx.call('after b')),
      ]);
    });
    await run.start();
    const events = await run.turn(run.completed(2), run.completed(1));
    expect(events).toMatchObject([
      { kind: 'activityCompleted', operation: 2 },
      { kind: 'activityScheduled', operation: 3, name: 'after b' },
      { kind: 'activityCompleted', operation: 1 },
      { kind: 'activityScheduled', operation: 4, name: 'after a' },
    ]);
  });

  it('numbers operations in the order in which the code issued them', async () => {
    const run = drive(async (ctx) => {
      await Promise.all([ctx.sleep(1), ctx.call('a'), ctx.waitFor('e'), ctx.child('c')]);
    });
    expect(await run.start()).toMatchObject([
      { kind: 'executionStarted' },
      { kind: 'timerCreated', operation: 1 },
      { kind: 'activityScheduled', operation: 2 },
      { kind: 'eventAwaited', operation: 3 },
      { kind: 'childScheduled', operation: 4 },
    ]);
  });

  it('applies the start first, regardless of message order', async () => {
    const run = drive(async (ctx) => ctx.waitFor('early'));
    const events = await run.turn(run.raised('early', 7), run.startMessage());
    expect(kindsOf(events)).toEqual([
      'executionStarted',
      'eventAwaited',
      'eventReceived',
      'executionCompleted',
    ]);
    expect(run.output).toBe(7);
  });

  it('throws for a first turn without a start message', async () => {
    const run = drive(async () => undefined);
    await expect(run.turn(run.raised('early'))).rejects.toMatchObject({ code: 'UNDECODABLE' });
  });
});

describe('R2: events are applied one at a time', () => {
  it('a native race is won by the first completion in a batch', async () => {
    const run = drive(async (ctx) => Promise.race([ctx.call('a'), ctx.call('b')]));
    await run.start();
    await run.turn(run.completed(2, 'b'), run.completed(1, 'a'));
    expect(run.output).toBe('b');
  });

  it('drains all microtasks of an event before it applies the next', async () => {
    const order: string[] = [];
    const run = drive(
      async (ctx) => {
        const first = async () => {
          await ctx.call('a');
          for (let i = 0; i < 50; i++) await Promise.resolve();
          order.push('fifty microtasks after a');
        };
        const second = async () => {
          await ctx.call('b');
          order.push('b');
        };
        await Promise.all([first(), second()]);
      },
      { alwaysReplay: false },
    );
    await run.start();
    await run.turn(run.completed(1), run.completed(2));
    expect(order).toEqual(['fifty microtasks after a', 'b']);
  });

  it('runs one turn at a time', async () => {
    const run = drive(async (ctx) => ctx.call('a'));
    const { execution } = run;
    const first = execution.turn({ messages: [run.startMessage()], nowMs: 1, version: '1' });
    await expect(execution.turn({ messages: [], nowMs: 1, version: '1' })).rejects.toThrow(
      'one turn at a time',
    );
    expect((await first).events).toHaveLength(2);
  });
});

describe('R7: the first outcome is final', () => {
  it('ends with what the code returned', async () => {
    const run = drive(async (_, input: { x: number }) => ({ doubled: input.x * 2 }));
    await run.start({ x: 21 });
    expect(run.output).toEqual({ doubled: 42 });
    expect(run.execution.ended).toBe(true);
  });

  it('ends with the thrown value, also if it is not an error', async () => {
    const run = drive(async () => {
      // oxlint-disable-next-line typescript/only-throw-error -- what user code might do
      throw undefined;
    });
    await run.start();
    expect(run.failure).toEqual({ name: 'NonError', message: 'undefined was thrown' });
  });

  it('fails the instance when its result cannot be stored', async () => {
    const run = drive(async () => ({ when: 10n }));
    await run.start();
    expect(run.failure).toMatchObject({ code: 'NOT_SERIALIZABLE' });
    expect(run.failure.message).toContain('The result of orchestration "subject"');
  });

  it('fails the instance when its result is above the payload limit', async () => {
    const run = drive(async () => 'x'.repeat(200), { payloadLimitBytes: 100 });
    await run.start();
    expect(run.failure).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
  });

  it('records no commands after the code has returned', async () => {
    const run = drive(async (ctx) => {
      const background = async () => {
        for (let i = 0; i < 20; i++) await Promise.resolve();
        ctx.setCustomStatus('too late');
        await ctx.call('too late');
      };
      void background();
      return 'done';
    });
    expect(kindsOf(await run.start())).toEqual(['executionStarted', 'executionCompleted']);
  });

  it('drops the messages of a batch that come after the end', async () => {
    const run = drive(async (ctx) => Promise.race([ctx.call('a'), ctx.call('b')]));
    await run.start();
    const events = await run.turn(run.completed(1), run.completed(2));
    expect(kindsOf(events)).toEqual(['activityCompleted', 'executionCompleted']);
    expect(await run.turn(run.completed(2))).toEqual([]);
  });
});

describe('R8: time and randomness come from history', () => {
  it('returns the time of the last applied event, which never decreases', async () => {
    const run = drive(async (ctx) => {
      const times = [ctx.now()];
      for (let i = 0; i < 3; i++) {
        await ctx.call('a');
        times.push(ctx.now());
      }
      return times;
    });
    run.nowMs = 500;
    await run.start();
    run.nowMs = 700;
    await run.turn(run.completed(1));
    run.nowMs = 600;
    await run.turn(run.completed(2));
    run.nowMs = 900;
    await run.turn(run.completed(3));
    expect(run.output).toEqual([500, 700, 700, 900]);
    expect(run.history.map(({ at }) => at)).toEqual([500, 500, 700, 700, 700, 700, 900, 900]);
  });

  it('draws the same random numbers in every replay, and others in another execution', async () => {
    const draw = async (options: { incarnation: string; executionId: number }) => {
      const run = drive(async (ctx) => [ctx.random(), ctx.uuid(), ctx.random()], options);
      await run.start();
      return run.output;
    };
    const first = await draw({ incarnation: 'i', executionId: 1 });
    expect(await draw({ incarnation: 'i', executionId: 1 })).toEqual(first);
    expect(await draw({ incarnation: 'i', executionId: 2 })).not.toEqual(first);
    expect(await draw({ incarnation: 'j', executionId: 1 })).not.toEqual(first);
  });
});

describe('a live execution', () => {
  it('continues in a replayed copy with the same result', async () => {
    const run = drive(async (ctx) => [await ctx.call('a'), await ctx.call('b')]);
    await run.start();
    const cold = await run.replayed();
    const result = await cold.turn({
      messages: [run.completed(1, 'A')],
      nowMs: 2_000,
      version: '1',
    });
    expect(result).toMatchObject({
      firstEventId: 3,
      events: [{ kind: 'activityCompleted' }, { kind: 'activityScheduled', name: 'b' }],
    });
  });

  it('replays a history in pieces, cut anywhere', async () => {
    const run = drive(async (ctx) => {
      await ctx.all([ctx.call('a'), ctx.call('b'), ctx.sleep(5)]);
      return ctx.call('c');
    });
    await run.start();
    await run.turn(run.completed(1), run.completed(2), run.fired(3));
    await run.turn(run.completed(4, 'end'));
    const cold = await run.replayed([]);
    for (const event of run.history) await cold.replay([event]);
    cold.assertReplayed();
    expect(cold.ended).toBe(true);
  });

  it('grows in size with its results', async () => {
    const run = drive(async (ctx) => ctx.all([ctx.call('a'), ctx.call('b')]));
    await run.start();
    const before = run.execution.sizeBytes;
    await run.turn(run.completed(1, 'x'.repeat(20_000)));
    // A pending call takes more than its result without the payload.
    expect(run.execution.sizeBytes).toBeGreaterThan(before + 18_000);
  });

  it('grows in size with its open scopes, and shrinks when they have settled', async () => {
    const run = drive(async (ctx) => {
      await ctx.all(Array.from({ length: 10 }, () => ctx.scope(() => ctx.waitFor('e'))));
      await ctx.sleep(1);
    });
    await run.start();
    const before = run.execution.sizeBytes;
    await run.turn(...Array.from({ length: 10 }, () => run.raised('e')));
    expect(run.execution.sizeBytes).toBeLessThan(before - 10_000);
  });

  it('throws for a turn after dispose()', async () => {
    const run = drive(async (ctx) => ctx.call('a'));
    await run.start();
    run.execution.dispose();
    await expect(run.turn(run.completed(1))).rejects.toThrow('after dispose()');
  });

  it('does not inherit the async context of its first turn', async () => {
    const { AsyncLocalStorage } = await import('node:async_hooks');
    const storage = new AsyncLocalStorage<string>();
    const run = drive(async () => storage.getStore() ?? 'none');
    await storage.run('request 1', () => run.start());
    expect(run.output).toBe('none');
  });
});
