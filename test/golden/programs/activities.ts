import { golden, type GoldenProgram } from '../golden-program.ts';

/** Activity calls: in sequence, with options, failing, timing out, with compensation. */
export const activities: readonly GoldenProgram[] = [
  golden('hello', {
    code: (ctx, name: string) => ctx.call('greet', name),
    play: async (run) => {
      await run.start('World');
      await run.turn(run.completed(1, 'Hello, World!'));
    },
    mutants: [
      [2, (ctx, name: string) => ctx.call('welcome', name)],
      [2, (ctx, name: string) => ctx.call('greet', { name })],
      [2, async () => 'Hello, World!'],
      [
        4,
        async (ctx, name: string) => {
          await ctx.call('greet', name);
          return 'another result';
        },
      ],
    ],
  }),
  golden('sequence', {
    code: async (ctx) => {
      const results: unknown[] = [];
      for (const step of ['reserve', 'charge', 'ship']) results.push(await ctx.call(step, results));
      return results;
    },
    play: async (run) => {
      await run.start();
      for (const operation of [1, 2, 3]) await run.turn(run.completed(operation, { operation }));
    },
    mutants: [
      [
        4,
        async (ctx) => {
          const results: unknown[] = [];
          for (const step of ['reserve', 'ship', 'charge']) {
            results.push(await ctx.call(step, results));
          }
        },
      ],
      [
        6,
        async (ctx) => [
          await ctx.call('reserve', []),
          await ctx.call('charge', [{ operation: 1 }]),
        ],
      ],
    ],
  }),
  golden('unfinished', {
    code: async (ctx) => {
      await ctx.call('a');
      await ctx.all([ctx.call('b'), ctx.sleep('1d'), ctx.waitFor('c')]);
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(1));
    },
    mutants: [
      [
        6,
        async (ctx) => {
          await ctx.call('a');
          await ctx.all([ctx.call('b'), ctx.sleep('1d')]);
        },
      ],
      [
        7,
        async (ctx) => {
          await ctx.call('a');
          await ctx.all([ctx.call('b'), ctx.sleep('1d'), ctx.waitFor('c'), ctx.waitFor('d')]);
        },
      ],
    ],
  }),
  golden('call-options', {
    code: (ctx) =>
      ctx.call('flaky', 1, {
        retry: { maxAttempts: 5, backoff: 'linear', initialDelay: '2s', nonRetryable: ['E_FATAL'] },
        attemptTimeout: '30s',
        timeout: '5m',
      }),
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(1, 'at last'));
    },
    mutants: [[3, (ctx) => ctx.call('flaky', 1)]],
  }),
  golden('call-timeout', {
    code: async (ctx) => {
      try {
        return await ctx.call('slow', 1, { timeout: '1m' });
      } catch (error) {
        return ctx.call('report', (error as { code: string }).code);
      }
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.fired(2));
      await run.turn(run.completed(1, 'too late'), run.completed(3, 'reported'));
    },
    mutants: [[6, (ctx) => ctx.call('slow', 1, { timeout: '1m' })]],
  }),
  golden('failure', {
    code: (ctx) => ctx.call('charge'),
    play: async (run) => {
      await run.start();
      await run.turn(run.failed(1, { name: 'CardError', message: 'declined', code: 'E_CARD' }));
    },
    mutants: [[4, (ctx) => ctx.call('charge').catch(() => 'ignored')]],
  }),
  golden('compensation', {
    code: async (ctx) => {
      const undo: string[] = [];
      try {
        for (const step of ['flight', 'hotel', 'car']) {
          await ctx.call(`book-${step}`);
          undo.unshift(step);
        }
        return 'booked';
      } catch {
        for (const step of undo) await ctx.call(`cancel-${step}`);
        return 'undone';
      } finally {
        await ctx.call('notify');
      }
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(1));
      await run.turn(run.completed(2));
      await run.turn(run.failed(3));
      for (const operation of [4, 5, 6]) await run.turn(run.completed(operation));
    },
    mutants: [
      [
        8,
        async (ctx) => {
          const undo: string[] = [];
          try {
            for (const step of ['flight', 'hotel', 'car']) {
              await ctx.call(`book-${step}`);
              undo.push(step);
            }
          } catch {
            for (const step of undo) await ctx.call(`cancel-${step}`);
          }
        },
      ],
    ],
  }),
  golden('cancel', {
    code: async (ctx) => {
      const operations = [ctx.call('a'), ctx.sleep('1h'), ctx.waitFor('e')];
      await ctx.call('decide');
      for (const operation of operations) operation.cancel('not needed');
      const results = await Promise.allSettled(operations);
      return results.map(({ status }) => status);
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(4), run.completed(1));
    },
    mutants: [
      [
        7,
        async (ctx) => {
          const operations = [ctx.call('a'), ctx.sleep('1h'), ctx.waitFor('e')];
          await ctx.call('decide');
          for (const operation of operations.toReversed()) operation.cancel('not needed');
          await Promise.allSettled(operations);
        },
      ],
    ],
  }),
  golden('stray-await', {
    code: async (ctx) => {
      await ctx.call('a');
      await new Promise(() => undefined);
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(1));
    },
    mutants: [
      [
        4,
        async (ctx) => {
          await ctx.call('a');
        },
      ],
      [
        4,
        async (ctx) => {
          await ctx.call('a');
          await ctx.call('b');
        },
      ],
    ],
  }),
];
