import type { PerdureError } from '../../../src/model/failures/errors.ts';
import { golden, type GoldenProgram } from '../golden-program.ts';

/** Timers, external events, children, detached starts, continue-as-new, status, time and randomness. */
export const waiting: readonly GoldenProgram[] = [
  golden('timers', {
    code: async (ctx) => {
      await ctx.sleep('30d');
      await ctx.sleepUntil(new Date(Date.UTC(2031, 0, 1)));
      return ctx.now();
    },
    play: async (run) => {
      await run.start();
      run.nowMs = Date.UTC(2030, 0, 31);
      await run.turn(run.fired(1));
      run.nowMs = Date.UTC(2031, 0, 1);
      await run.turn(run.fired(2));
    },
    mutants: [
      [4, (ctx) => ctx.sleep('30d')],
      [2, (ctx) => ctx.waitFor('30d')],
    ],
  }),
  golden('buffered-events', {
    code: async (ctx) => {
      await ctx.call('slow');
      return [await ctx.waitFor('x'), await ctx.waitFor('y'), await ctx.waitFor('x')];
    },
    play: async (run) => {
      await run.start(undefined, run.raised('x', 1), run.raised('x', 2));
      await run.turn(run.completed(1));
      await run.turn(run.raised('y', 3));
    },
    mutants: [
      [
        6,
        async (ctx) => {
          await ctx.call('slow');
          return ctx.waitFor('y');
        },
      ],
    ],
  }),
  golden('wait-timeout', {
    code: async (ctx) => {
      const first = await ctx.waitFor('approval', { timeout: '1d' }).catch(() => 'reminder');
      return [first, await ctx.waitFor('approval', { timeout: '1d' })];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.fired(2));
      await run.turn(run.raised('approval', true));
    },
    mutants: [
      [
        6,
        (ctx) =>
          ctx.waitFor('approval', { timeout: '1d' }).then(
            () => undefined,
            () => 'x',
          ),
      ],
    ],
  }),
  golden('continue-as-new', {
    code: async (ctx, round: number) => {
      await ctx.waitFor('tick');
      await ctx.startDetached('audit', round, { id: `audit-${round}` });
      return ctx.continueAsNew(round + 1);
    },
    play: async (run) => {
      await run.start(1);
      await run.turn(run.raised('tick'), run.raised('tick'), run.raised('tock', 7));
      await run.turn(run.detachedConfirmed(2));
    },
    mutants: [
      [
        4,
        async (ctx) => {
          await ctx.waitFor('tick');
          return ctx.continueAsNew(2);
        },
      ],
      [
        8,
        async (ctx, round: number) => {
          await ctx.waitFor('tick');
          await ctx.startDetached('audit', round, { id: `audit-${round}` });
          return ctx.continueAsNew(round + 2);
        },
      ],
    ],
  }),
  golden('carried-events', {
    executionId: 2,
    code: async (ctx) => [
      await ctx.waitFor('tick'),
      await ctx.waitFor('tick'),
      await ctx.child('part', 'x'),
    ],
    play: async (run) => {
      const carried = [{ name: 'tick', payload: '"older"' }];
      await run.turn({ ...run.startMessage(2), carried });
      await run.turn(run.raised('tick', 'newer'));
      await run.turn(run.childCompleted(3, 'part'));
    },
    mutants: [[5, async (ctx) => [await ctx.waitFor('tick'), await ctx.waitFor('tick')]]],
  }),
  golden('next-version', {
    code: (ctx) => ctx.continueAsNew({ migrated: true }, { version: '2' }),
    play: (run) => run.start(),
    mutants: [
      [2, (ctx) => ctx.continueAsNew({ migrated: true })],
      [2, (ctx) => ctx.continueAsNew({ migrated: false }, { version: '2' })],
    ],
  }),
  golden('children', {
    code: async (ctx) => {
      const parts = await ctx.allSettled([
        ctx.child('part', 1),
        ctx.child('part', 2, { id: 'explicit', version: '3' }),
      ]);
      return [parts.map(({ status }) => status), await ctx.child('sum', parts.length)];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.childFailed(2, { code: 'INSTANCE_ALREADY_EXISTS' }));
      await run.turn(run.childCompleted(1, 'one'));
      await run.turn(run.childCompleted(3, 2));
    },
    mutants: [
      [3, (ctx) => ctx.all([ctx.child('part', 1), ctx.child('part', 2, { id: 'other' })])],
      [2, (ctx) => ctx.all([ctx.child('part', 1, { id: 'named' }), ctx.child('part', 2)])],
    ],
  }),
  golden('detached', {
    code: async (ctx) => {
      const ids = [1, 2].map((n) => ctx.startDetached('mail', n, { id: `mail-${n}` }));
      return Promise.all(ids);
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.detachedConfirmed(2), run.detachedConfirmed(1));
    },
    mutants: [[3, (ctx) => ctx.startDetached('mail', 1, { id: 'mail-1' })]],
  }),
  golden('detached-taken', {
    code: async (ctx) => {
      try {
        return await ctx.startDetached('mail', 1, { id: 'taken' });
      } catch (error) {
        const { code } = error as PerdureError;
        return [code, await ctx.startDetached('mail', 1, { id: 'free' })];
      }
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.detachedFailed(1, { code: 'INSTANCE_ALREADY_EXISTS' }));
      await run.turn(run.detachedConfirmed(2));
    },
    mutants: [
      [4, (ctx) => ctx.startDetached('mail', 1, { id: 'taken' }).catch(() => 'none')],
      [2, (ctx) => ctx.startDetached('mail', 2, { id: 'taken' })],
    ],
  }),
  golden('custom-status', {
    code: async (ctx) => {
      for (const percent of [0, 50, 100]) {
        ctx.setCustomStatus({ percent });
        await ctx.call('step', percent);
      }
    },
    play: async (run) => {
      await run.start();
      for (const operation of [2, 4, 6]) await run.turn(run.completed(operation));
    },
    mutants: [
      [
        5,
        async (ctx) => {
          ctx.setCustomStatus('started');
          for (const percent of [0, 50, 100]) await ctx.call('step', percent);
        },
      ],
    ],
  }),
  golden('time-and-randomness', {
    code: async (ctx) => {
      const draw = () => ({ random: ctx.random(), uuid: ctx.uuid(), now: ctx.now() });
      const first = draw();
      await ctx.call('use', first);
      return [first, draw()];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(1));
    },
    mutants: [
      [
        2,
        async (ctx) => {
          ctx.random();
          const draw = () => ({ random: ctx.random(), uuid: ctx.uuid(), now: ctx.now() });
          await ctx.call('use', draw());
        },
      ],
    ],
  }),
  golden('patched-globals', {
    code: async (ctx) => {
      const draw = () => [new Date().toISOString(), Date.now(), Math.random(), crypto.randomUUID()];
      const first = draw();
      await ctx.call('use', first);
      return draw();
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(1));
    },
    mutants: [[2, (ctx) => ctx.call('use', [new Date(0).toISOString(), 0, 0, ''])]],
  }),
];
