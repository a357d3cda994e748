import { describe, expect, it } from 'vitest';
import type { HistoryEvent } from '../../model/event.ts';
import type { Message } from '../../model/message.ts';
import type { OrchestrationContext } from '../../orchestration/orchestration-context.ts';
import { drive, type TurnDriver } from '../../../test/replay/turn-driver.ts';

type Code = (ctx: OrchestrationContext<void>) => unknown;

/** Records a run of `before`, with the given answers in one turn each, then replays it with `after`. */
async function replayChanged(
  before: Code,
  after: Code,
  ...answers: readonly ((run: TurnDriver) => Message)[]
): Promise<{ error: unknown; history: readonly HistoryEvent[] }> {
  const run = drive(before);
  await run.start();
  for (const answer of answers) await run.turn(answer(run));
  const error: unknown = await drive(after)
    .replayed(run.history)
    .then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  return { error, history: run.history };
}

const complete = (operation: number, value?: unknown) => (run: TurnDriver) =>
  run.completed(operation, value);

describe('R3: code and history must agree', () => {
  const changes: readonly {
    readonly change: string;
    readonly before: Code;
    readonly after: Code;
    readonly eventId: number;
    readonly says: readonly string[];
  }[] = [
    {
      change: 'another activity',
      before: (ctx) => ctx.call('a', 1),
      after: (ctx) => ctx.call('b', 1),
      eventId: 2,
      says: ['records a call of activity "a" with input 1', 'issued a call of activity "b"'],
    },
    {
      change: 'another input',
      before: (ctx) => ctx.call('a', { x: 1 }),
      after: (ctx) => ctx.call('a', { x: 2 }),
      eventId: 2,
      says: ['input {"x":1}', 'input {"x":2}'],
    },
    {
      change: 'an input where there was none',
      before: (ctx) => ctx.call('a'),
      after: (ctx) => ctx.call('a', null),
      eventId: 2,
      says: ['with no input', 'input null'],
    },
    {
      change: 'another kind of operation',
      before: (ctx) => ctx.call('a'),
      after: (ctx) => ctx.sleep(5),
      eventId: 2,
      says: ['a call of activity "a"', 'issued a timer'],
    },
    {
      change: 'another event name',
      before: (ctx) => ctx.waitFor('x'),
      after: (ctx) => ctx.waitFor('y'),
      eventId: 2,
      says: ['a wait for event "x"', 'a wait for event "y"'],
    },
    {
      change: 'another child',
      before: (ctx) => ctx.child('x'),
      after: (ctx) => ctx.child('y'),
      eventId: 2,
      says: ['the start of child "x"', 'the start of child "y"'],
    },
    {
      change: 'another child id',
      before: (ctx) => ctx.child('x', 1, { id: 'one' }),
      after: (ctx) => ctx.child('x', 1, { id: 'two' }),
      eventId: 2,
      says: ['as "one"', 'as "two"'],
    },
    {
      change: 'another id of a detached instance',
      before: async (ctx) => {
        await ctx.startDetached('x', 1, { id: 'one' });
        await ctx.sleep(1);
      },
      after: async (ctx) => {
        await ctx.startDetached('x', 1, { id: 'two' });
        await ctx.sleep(1);
      },
      eventId: 2,
      says: ['the detached start of "x" as "one"', 'as "two"'],
    },
    {
      change: 'a command that is no longer issued',
      before: (ctx) => ctx.all([ctx.call('a'), ctx.call('b')]),
      after: (ctx) => ctx.all([ctx.call('a')]),
      eventId: 3,
      says: ['records a call of activity "b"', 'the code does not do that'],
    },
    {
      change: 'a new command after the last recorded one',
      before: (ctx) => ctx.call('a'),
      after: (ctx) => ctx.all([ctx.call('a'), ctx.call('b')]),
      eventId: 3,
      says: ['history ends here', 'issued a call of activity "b"'],
    },
    {
      change: 'a custom status that is new',
      before: (ctx) => ctx.call('a'),
      after: (ctx) => {
        ctx.setCustomStatus('working');
        return ctx.call('a');
      },
      eventId: 2,
      says: ['a call of activity "a"', 'issued a custom status'],
    },
    {
      change: 'a withdrawal of another operation',
      before: (ctx) => {
        const [a, b] = [ctx.call('a'), ctx.call('b')];
        a.cancel();
        return b;
      },
      after: (ctx) => {
        const [a, b] = [ctx.call('a'), ctx.call('b')];
        b.cancel();
        return a;
      },
      eventId: 4,
      says: ['the withdrawal of operation 1', 'the withdrawal of operation 2'],
    },
    {
      change: 'a withdrawal by another trigger',
      before: (ctx) => {
        const [a, b] = [ctx.call('a'), ctx.call('b')];
        a.cancel();
        return b;
      },
      after: async (ctx) => {
        const [a, b] = [ctx.call('a'), ctx.call('b')];
        await ctx.race([1, a]);
        return b;
      },
      eventId: 4,
      says: ['the withdrawal of operation 1 (cancel)', 'the withdrawal of operation 1 (race_lost)'],
    },
    {
      change: 'a call that is canceled in another way',
      before: (ctx) => ctx.call('a', 1, { cancellation: 'wait' }),
      after: (ctx) => ctx.call('a', 1),
      eventId: 2,
      says: ["with input 1, canceled as 'wait'", 'issued a call of activity "a" with input 1.'],
    },
    {
      change: 'a child that is canceled in another way',
      before: (ctx) => ctx.child('c', 1),
      after: (ctx) => ctx.child('c', 1, { cancellation: 'abandon' }),
      eventId: 2,
      says: ['the start of child "c"', "canceled as 'abandon'"],
    },
    {
      change: 'a call that moved into a shield',
      before: (ctx) => ctx.call('a'),
      after: (ctx) => ctx.shield(() => ctx.call('a')),
      eventId: 2,
      says: ['a call of activity "a" with no input', 'with no input, in a shield'],
    },
    {
      change: 'a timeout that a scope did not have',
      before: (ctx) => ctx.scope(() => ctx.call('a')),
      after: (ctx) => ctx.scope(() => ctx.call('a'), { timeout: 5 }),
      eventId: 2,
      says: ['a call of activity "a"', 'issued a timer'],
    },
    {
      change: 'a return where the code waited',
      before: (ctx) => ctx.call('a'),
      after: async (ctx) => {
        void ctx.call('a');
        return 'early';
      },
      eventId: 3,
      says: ['history ends here', 'has ended: that it returned "early"'],
    },
  ];

  it.each(changes)('detects $change', async ({ before, after, eventId, says }) => {
    const { error } = await replayChanged(before, after);
    expect(error).toMatchObject({ code: 'NONDETERMINISM', eventId });
    for (const text of says) expect((error as Error).message).toContain(text);
    expect((error as Error).message).toContain('Instance "instance", execution 1');
    expect((error as Error).message).toContain('register the changed code as a new version');
  });

  it('detects a command that is issued before its event', async () => {
    const { error } = await replayChanged(
      async (ctx) => {
        await ctx.call('a');
        await ctx.call('b');
      },
      (ctx) => ctx.all([ctx.call('a'), ctx.call('b')]),
      complete(1),
    );
    expect(error).toMatchObject({ code: 'NONDETERMINISM', eventId: 3 });
    expect((error as Error).message).toContain('records the result of operation 1');
    expect((error as Error).message).toContain(
      'issued a call of activity "b" with no input before it',
    );
  });

  it('detects code that returns before the history ends', async () => {
    const { error } = await replayChanged(
      async (ctx) => {
        await ctx.call('a');
        await ctx.call('b');
      },
      async (ctx) => {
        await ctx.call('a');
        return 'done';
      },
      complete(1),
    );
    expect(error).toMatchObject({ code: 'NONDETERMINISM', eventId: 4 });
    expect((error as Error).message).toContain('has ended: that it returned "done"');
  });

  it('detects code that fails before the history ends', async () => {
    const { error } = await replayChanged(
      async (ctx) => ctx.all([ctx.call('a'), ctx.call('b')]),
      async (ctx) => {
        await Promise.race([ctx.call('a'), ctx.call('b')]);
        throw new Error('new check');
      },
      complete(1),
      complete(2),
    );
    expect(error).toMatchObject({ code: 'NONDETERMINISM', eventId: 5 });
    expect((error as Error).message).toContain('has ended: that it failed with Error: new check');
  });

  it('detects code that continues as new before the history ends', async () => {
    const { error } = await replayChanged(
      async (ctx) => {
        await ctx.call('a');
        await ctx.call('b');
      },
      async (ctx) => {
        await ctx.call('a');
        await ctx.continueAsNew();
      },
      complete(1),
    );
    expect(error).toMatchObject({ code: 'NONDETERMINISM', eventId: 4 });
    expect((error as Error).message).toContain('that it continued as new with no input');
  });

  it('detects code that waits after the history has ended', async () => {
    const { error } = await replayChanged(
      async () => 'done',
      (ctx) => ctx.waitFor('more'),
    );
    expect(error).toMatchObject({ code: 'NONDETERMINISM', eventId: 2 });
    expect((error as Error).message).toContain('issued a wait for event "more" before it');
  });

  it('detects a different outcome of the same kind', async () => {
    for (const [before, after] of [
      [async () => 1, async () => 2],
      [async () => Promise.reject(new Error('x')), async () => Promise.reject(new Error('y'))],
      [async () => 1, async () => Promise.reject(new Error('y'))],
    ] as const) {
      const { error } = await replayChanged(before, after);
      expect(error).toMatchObject({ code: 'NONDETERMINISM', eventId: 2 });
    }
  });

  it('detects a recorded answer of an operation that is not outstanding', async () => {
    const run = drive(async (ctx) => ctx.call('a'));
    await run.start();
    const [started, scheduled] = run.history;
    const answer: HistoryEvent = { kind: 'timerFired', at: 5, operation: 1 };
    await expect(run.replayed([started!, scheduled!, answer])).rejects.toMatchObject({
      code: 'NONDETERMINISM',
      eventId: 3,
    });
  });

  it('detects events before the start, after the end, and a second start', async () => {
    const run = drive(async () => 'done');
    await run.start();
    const [started, ended] = run.history;
    const event: HistoryEvent = { kind: 'eventReceived', at: 5, name: 'x', payload: null };
    for (const [history, eventId] of [
      [[event, started!, ended!], 1],
      [[started!, started!], 2],
      [[started!, ended!, event], 3],
      [[started!, ended!, ended!], 3],
    ] as const) {
      await expect(run.replayed(history)).rejects.toMatchObject({
        code: 'NONDETERMINISM',
        eventId,
      });
    }
  });

  it('rejects the turn without a change if the code issued more than the history', async () => {
    const run = drive(async (ctx) => ctx.call('a'));
    await run.start();
    const changed = drive(async (ctx) => ctx.all([ctx.call('a'), ctx.call('b')])).execution;
    await changed.replay(run.history);
    await expect(
      changed.turn({ messages: [run.completed(1)], nowMs: 5, version: '1' }),
    ).rejects.toMatchObject({ code: 'NONDETERMINISM', eventId: 3 });
    expect(changed.historyLength).toBe(2);
  });
});

describe('a compatible change of a running instance', () => {
  const harmless: readonly {
    readonly change: string;
    readonly before: Code;
    readonly after: Code;
  }[] = [
    {
      change: 'the order of keys in an input',
      before: (ctx) => ctx.call('a', { x: 1, y: [{ p: 1, q: 2 }] }),
      after: (ctx) => ctx.call('a', { y: [{ q: 2, p: 1 }], x: 1 }),
    },
    {
      change: 'the duration of a sleep',
      before: (ctx) => ctx.sleep('1h'),
      after: (ctx) => ctx.sleep('2h'),
    },
    {
      change: 'the retry policy of a call',
      before: (ctx) => ctx.call('a', 1, { retry: { maxAttempts: 3 } }),
      after: (ctx) => ctx.call('a', 1, { retry: { maxAttempts: 9 } }),
    },
    {
      change: 'the version of a child',
      before: (ctx) => ctx.child('x', 1, { version: '1' }),
      after: (ctx) => ctx.child('x', 1, { version: '2' }),
    },
    {
      change: 'a scope around the code',
      before: (ctx) => ctx.call('a'),
      after: (ctx) => ctx.scope(() => ctx.call('a'), { name: 'new' }),
    },
    {
      change: 'the timeout of a scope',
      before: (ctx) => ctx.scope(() => ctx.call('a'), { timeout: 5, name: 'x' }),
      after: (ctx) => ctx.scope(() => ctx.call('a'), { timeout: 50, name: 'y' }),
    },
    {
      change: 'the reason of a withdrawal',
      before: (ctx) => {
        ctx.sleep(5).cancel('not needed');
        return ctx.call('a');
      },
      after: (ctx) => {
        ctx.sleep(5).cancel('superfluous');
        return ctx.call('a');
      },
    },
    {
      change: 'the text of a custom status',
      before: (ctx) => {
        ctx.setCustomStatus('50 %');
        return ctx.call('a');
      },
      after: (ctx) => {
        ctx.setCustomStatus('half');
        return ctx.call('a');
      },
    },
  ];

  it.each(harmless)('is $change', async ({ before, after }) => {
    const { error } = await replayChanged(before, after);
    expect(error).toBeUndefined();
  });
});
