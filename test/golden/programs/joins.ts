import type { OrchestrationContext } from '../../../src/orchestration/orchestration-context.ts';
import { golden, type GoldenProgram } from '../golden-program.ts';

type Context = OrchestrationContext;

const fanOut = (ctx: Context, width: number) =>
  Array.from({ length: width }, (_, i) => ctx.call('work', i));

/** Concurrent operations: native and durable combinators, nested and in branches. */
export const joins: readonly GoldenProgram[] = [
  golden('native-all', {
    code: (ctx) => Promise.all(fanOut(ctx, 5)),
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(4, 'd'), run.completed(1, 'a'));
      await run.turn(run.completed(5, 'e'), run.completed(3, 'c'), run.completed(2, 'b'));
    },
    mutants: [
      [6, (ctx) => Promise.all(fanOut(ctx, 4))],
      [7, (ctx) => Promise.all(fanOut(ctx, 6))],
      [8, (ctx) => Promise.race(fanOut(ctx, 5))],
    ],
  }),
  golden('wide-fan-out', {
    code: async (ctx) => (await ctx.all(fanOut(ctx, 40))).length,
    play: async (run) => {
      await run.start();
      const answers = Array.from({ length: 40 }, (_, i) => run.completed(40 - i, i));
      await run.turn(...answers.slice(0, 20));
      await run.turn(...answers.slice(20));
    },
    mutants: [[42, (ctx) => Promise.all([...fanOut(ctx, 40), ctx.call('extra')])]],
  }),
  golden('all-fails', {
    code: async (ctx) => {
      try {
        return await ctx.all(fanOut(ctx, 3));
      } catch {
        return ctx.call('give-up');
      }
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.failed(2));
      await run.turn(run.completed(1), run.completed(4, 'gave up'));
    },
    mutants: [[6, async (ctx) => ctx.all(fanOut(ctx, 3)).catch(() => ctx.call('other'))]],
  }),
  golden('all-settled', {
    code: async (ctx) => {
      const results = await Promise.allSettled(fanOut(ctx, 3));
      return results.map(({ status }) => status);
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.failed(3), run.completed(1), run.failed(2));
    },
    mutants: [[6, (ctx) => Promise.all(fanOut(ctx, 3))]],
  }),
  golden('any', {
    code: (ctx) => Promise.any(fanOut(ctx, 3)),
    play: async (run) => {
      await run.start();
      await run.turn(run.failed(2));
      await run.turn(run.completed(3, 'third'));
    },
    mutants: [[6, (ctx) => Promise.race(fanOut(ctx, 3))]],
  }),
  golden('native-race', {
    code: async (ctx) => {
      const winner = await Promise.race(fanOut(ctx, 2));
      return ctx.call('use', winner);
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(2, 'fast'), run.completed(1, 'slow'));
      await run.turn(run.completed(3));
    },
    mutants: [[5, async (ctx) => ctx.call('use', await ctx.race(fanOut(ctx, 2)))]],
  }),
  golden('context-race', {
    code: async (ctx) => {
      await ctx.race([ctx.call('work'), ctx.sleep('10s'), ctx.waitFor('stop')]);
      return ctx.call('after');
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.fired(2), run.completed(1));
      await run.turn(run.raised('stop'), run.completed(4, 'done'));
    },
    mutants: [
      [
        6,
        async (ctx) => {
          await Promise.race([ctx.call('work'), ctx.sleep('10s'), ctx.waitFor('stop')]);
          return ctx.call('after');
        },
      ],
    ],
  }),
  golden('select', {
    code: async (ctx) => {
      const first = await ctx.select({ work: ctx.call('work'), timeout: ctx.sleep('10s') });
      const second = await ctx.select([ctx.waitFor('x'), ctx.waitFor('y')]);
      return [first, second];
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(1, 'result'));
      await run.turn(run.raised('y', 5));
    },
    mutants: [
      [
        6,
        async (ctx) => {
          await ctx.select({ work: ctx.call('work'), timeout: ctx.sleep('10s') });
          return ctx.select([ctx.waitFor('y'), ctx.waitFor('x')]);
        },
      ],
    ],
  }),
  golden('parallel-branches', {
    code: (ctx) =>
      Promise.all(
        ['a', 'b', 'c'].map(async (branch) => {
          const first = await ctx.call(`${branch}-1`);
          await ctx.sleep(10);
          return [first, await ctx.call(`${branch}-2`, first)];
        }),
      ),
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(2, 'B'));
      await run.turn(run.completed(3, 'C'), run.fired(4), run.completed(1, 'A'));
      await run.turn(run.fired(5), run.completed(6, 'B2'), run.fired(7));
      await run.turn(run.completed(9, 'A2'), run.completed(8, 'C2'));
    },
    mutants: [
      [
        2,
        async (ctx) => Promise.all(['c', 'b', 'a'].map(async (branch) => ctx.call(`${branch}-1`))),
      ],
      [
        6,
        (ctx) =>
          Promise.all(
            ['a', 'b', 'c'].map(async (branch) => {
              const first = await ctx.call(`${branch}-1`);
              return ctx.call(`${branch}-2`, first);
            }),
          ),
      ],
    ],
  }),
  golden('generators', {
    code: async (ctx) => {
      async function* pages() {
        for (let page = 1; page <= 3; page++) yield await ctx.call('fetch-page', page);
      }
      const total: unknown[] = [];
      for await (const page of pages()) total.push(page, await ctx.call('store-page', page));
      return total;
    },
    play: async (run) => {
      await run.start();
      for (let operation = 1; operation <= 6; operation++) {
        await run.turn(run.completed(operation, operation));
      }
    },
    mutants: [
      [
        8,
        async (ctx) => {
          for (let page = 1; page <= 2; page++) {
            await ctx.call('fetch-page', page);
            await ctx.call('store-page', page === 1 ? 1 : 99);
          }
        },
      ],
    ],
  }),
  golden('heartbeat-loop', {
    code: async (ctx) => {
      const work = ctx.call('work');
      for (let beats = 0; ; beats++) {
        const { key } = await ctx.select({ work: work.then(() => 'done'), beat: ctx.sleep('5s') });
        if (key === 'work') return beats;
        ctx.setCustomStatus({ beats });
      }
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.fired(2));
      await run.turn(run.fired(4));
      await run.turn(run.completed(1));
    },
    mutants: [
      [
        5,
        async (ctx) => {
          const work = ctx.call('work');
          for (;;) {
            const { key } = await ctx.select({ work: work.then(() => 1), beat: ctx.sleep('5s') });
            if (key === 'work') return;
          }
        },
      ],
    ],
  }),
];
