import { golden, type GoldenProgram } from '../golden-program.ts';

const triggerOf = (error: { trigger?: string }) => error.trigger;

/** Scopes and shields, their timeouts, race losers, and ends that wait. */
export const scopes: readonly GoldenProgram[] = [
  golden('scope', {
    code: async (ctx) => {
      const first = await ctx.scope(async () => {
        void ctx.sleep('1h');
        void ctx.scope(() => ctx.call('inner'));
        return ctx.call('a');
      });
      return [first, await ctx.call('b')];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(3, 'a'));
      await run.turn(run.completed(4, 'b'));
    },
    mutants: [
      [
        6,
        async (ctx) => {
          void ctx.sleep('1h');
          void ctx.call('inner');
          await ctx.call('a');
          await ctx.call('b');
        },
      ],
    ],
  }),
  golden('scope-canceled', {
    code: async (ctx) => {
      const scope = ctx.scope(() => ctx.all([ctx.call('a'), ctx.scope(() => ctx.call('b'))]));
      await ctx.waitFor('stop');
      scope.cancel('not needed');
      return [await scope.catch(triggerOf), await ctx.call('c')];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.raised('stop'));
      await run.turn(run.completed(4, 'c'));
    },
    mutants: [
      [
        6,
        async (ctx) => {
          const scope = ctx.scope(() => ctx.all([ctx.call('a'), ctx.scope(() => ctx.call('b'))]));
          await ctx.waitFor('stop');
          return [await scope.catch(triggerOf), await ctx.call('c')];
        },
      ],
    ],
  }),
  golden('scope-timeout', {
    code: async (ctx) => {
      const attempt = (n: number) =>
        ctx.scope(
          async () => {
            try {
              return await ctx.call('work', n);
            } finally {
              await ctx.shield(() => ctx.call('release', n));
            }
          },
          { timeout: '1m', name: `attempt ${n}` },
        );
      const first = await attempt(1).catch(triggerOf);
      return [first, await attempt(2)];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.fired(1));
      await run.turn(run.completed(3));
      await run.turn(run.completed(5, 'done'));
      await run.turn(run.completed(6));
    },
    mutants: [
      [
        2,
        async (ctx) => {
          await ctx.scope(() => ctx.call('work', 1)).catch(triggerOf);
        },
      ],
      [
        6,
        async (ctx) => {
          await ctx.scope(() => ctx.call('work', 1), { timeout: '1m' }).catch(triggerOf);
        },
      ],
    ],
  }),
  golden('shield-timeout', {
    code: async (ctx) => {
      try {
        await ctx.waitFor('never');
      } finally {
        await ctx.shield(() => ctx.call('release'), { timeout: '10s' });
      }
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.cancel());
      await run.turn(run.fired(2));
    },
    mutants: [
      [
        5,
        async (ctx) => {
          try {
            await ctx.waitFor('never');
          } finally {
            await ctx.shield(() => ctx.call('release'));
          }
        },
      ],
    ],
  }),
  golden('nested-shields', {
    code: (ctx) =>
      ctx
        .shield(
          async () => {
            const inner = ctx.shield(() => ctx.call('inner'), { timeout: '2m' });
            return [await inner.catch(triggerOf), await ctx.call('refused').catch(triggerOf)];
          },
          { timeout: '1m' },
        )
        .catch(triggerOf),
    play: async (run) => {
      await run.start();
      await run.turn(run.cancel());
      await run.turn(run.fired(1));
    },
    mutants: [
      [3, (ctx) => ctx.shield(() => ctx.call('inner'), { timeout: '1m' }).catch(triggerOf)],
    ],
  }),
  golden('race-children-and-scopes', {
    code: async (ctx) => {
      const winner = await ctx.select({
        child: ctx.child('slow', 1, { id: 'slow' }),
        scope: ctx.scope(() => ctx.all([ctx.call('a'), ctx.call('b')])),
        timeout: ctx.sleep('10s'),
      });
      return [winner.key, (await ctx.call('next')) ?? null];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.fired(4));
      await run.turn(run.childCanceled(1), run.completed(5));
    },
    mutants: [
      [
        7,
        async (ctx) => {
          await ctx.select(
            {
              child: ctx.child('slow', 1, { id: 'slow' }),
              scope: ctx.scope(() => ctx.all([ctx.call('a'), ctx.call('b')])),
              timeout: ctx.sleep('10s'),
            },
            { keepLosers: true },
          );
          await ctx.call('next');
        },
      ],
    ],
  }),
  golden('kept-losers', {
    code: async (ctx) => {
      const calls = [ctx.call('a'), ctx.call('b'), ctx.call('c')];
      const first = await ctx.race(calls, { keepLosers: true });
      const second = await ctx.any(calls.slice(1));
      return [first, second];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(1, 'A'));
      await run.turn(run.failed(2));
      await run.turn(run.completed(3, 'C'));
    },
    mutants: [
      [
        6,
        async (ctx) => {
          await ctx.race([ctx.call('a'), ctx.call('b'), ctx.call('c')]);
        },
      ],
    ],
  }),
  golden('race-with-late-loser', {
    code: async (ctx) => {
      const calls = [ctx.call('a'), ctx.call('b'), ctx.call('c')];
      const winner = await ctx.race(calls);
      return [winner, (await Promise.allSettled(calls)).map(({ status }) => status)];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(2, 'b'), run.completed(3, 'c'));
    },
    mutants: [
      [
        6,
        async (ctx) => {
          await Promise.race([ctx.call('a'), ctx.call('b'), ctx.call('c')]);
        },
      ],
    ],
  }),
  golden('end-waits', {
    code: async (ctx) => {
      void ctx.call('told');
      void ctx.call('waits', 1, { cancellation: 'wait' });
      void ctx.shield(() => ctx.child('part', 1));
      return ctx.call('work');
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(4, 'result'));
      await run.turn(run.cancel('too late'), run.completed(1));
      await run.turn(run.canceled(2, { reason: 'completed' }), run.childCompleted(3));
    },
    mutants: [
      [
        7,
        async (ctx) => {
          void ctx.call('told');
          void ctx.call('waits', 1, { cancellation: 'wait' });
          void ctx.shield(() => ctx.child('part', 1));
          await ctx.call('work');
          return ctx.call('more');
        },
      ],
    ],
  }),
  golden('end-at-once', {
    code: async (ctx) => {
      void ctx.call('told');
      void ctx.call('left', 1, { cancellation: 'abandon' });
      void ctx.child('told', 1);
      void ctx.sleep('1h');
      await ctx.call('work');
      throw new Error('broke');
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(5));
    },
    mutants: [
      [
        8,
        async (ctx) => {
          void ctx.call('told');
          void ctx.call('left', 1, { cancellation: 'abandon' });
          void ctx.child('told', 1);
          void ctx.sleep('1h');
          await ctx.call('work');
        },
      ],
    ],
  }),
  golden('call-timeout-waits', {
    code: (ctx) =>
      ctx
        .call('slow', 1, { timeout: '1m', cancellation: 'wait' })
        .catch((error: { code: string }) => error.code),
    play: async (run) => {
      await run.start();
      await run.turn(run.fired(2));
      await run.turn(run.canceled(1, { trigger: 'timeout', reason: 'timeout' }));
    },
    mutants: [[2, (ctx) => ctx.call('slow', 1, { timeout: '1m' })]],
  }),
];
