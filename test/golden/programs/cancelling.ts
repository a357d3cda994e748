import type { OrchestrationContext } from '../../../src/orchestration/orchestration-context.ts';
import { golden, type GoldenProgram } from '../golden-program.ts';

type Context = OrchestrationContext;

const codeOf = (error: { code: string }) => error.code;

async function withUndo(ctx: Context, name: string): Promise<unknown> {
  try {
    return await ctx.call(name);
  } finally {
    await ctx.shield(() => ctx.call(`undo-${name}`));
  }
}

/** Cancels of an instance: what they reject, how code cleans up, and how it ends. */
export const cancelling: readonly GoldenProgram[] = [
  golden('cancel-instance', {
    code: (ctx) => ctx.all([ctx.call('a'), ctx.sleep('1h'), ctx.waitFor('e'), ctx.child('c', 1)]),
    play: async (run) => {
      await run.start();
      await run.turn(run.cancel('changed my mind', 'jo'));
    },
    mutants: [
      [
        11,
        (ctx) =>
          ctx
            .all([ctx.call('a'), ctx.sleep('1h'), ctx.waitFor('e'), ctx.child('c', 1)])
            .catch(() => ctx.shield(() => ctx.call('more'))),
      ],
      [
        11,
        (ctx) =>
          ctx
            .all([ctx.call('a'), ctx.sleep('1h'), ctx.waitFor('e'), ctx.child('c', 1)])
            .catch(() => 'ignored'),
      ],
    ],
  }),
  golden('cancel-saga', {
    code: async (ctx) => {
      const undo: string[] = [];
      try {
        for (const step of ['flight', 'hotel', 'car']) {
          await ctx.call(`book-${step}`);
          undo.unshift(step);
        }
      } catch (error) {
        await ctx.shield(async () => {
          for (const step of undo) await ctx.call(`cancel-${step}`);
        });
        throw error;
      }
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.completed(1));
      await run.turn(run.completed(2));
      await run.turn(run.cancel());
      await run.turn(run.completed(4));
      await run.turn(run.completed(5));
    },
    mutants: [
      [
        9,
        async (ctx) => {
          for (const step of ['flight', 'hotel', 'car']) await ctx.call(`book-${step}`);
        },
      ],
    ],
  }),
  golden('cancel-parallel-cleanup', {
    code: (ctx) => Promise.all([withUndo(ctx, 'a'), withUndo(ctx, 'b'), ctx.call('c')]),
    play: async (run) => {
      await run.start();
      await run.turn(run.cancel());
      await run.turn(run.completed(5));
      await run.turn(run.failed(4));
    },
    mutants: [[9, (ctx) => Promise.all([ctx.call('a'), withUndo(ctx, 'b'), ctx.call('c')])]],
  }),
  golden('cancel-completes-anyway', {
    code: async (ctx) => {
      const paid = await ctx.shield(() => ctx.call('pay'));
      const sent = await ctx.call('send').catch(codeOf);
      return { paid, sent };
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.cancel());
      await run.turn(run.completed(1, 'paid'));
    },
    mutants: [
      [
        2,
        async (ctx) => {
          await ctx.call('pay');
        },
      ],
      [5, (ctx) => ctx.shield(() => ctx.call('pay'))],
    ],
  }),
  golden('cancel-cleanup-fails', {
    code: (ctx) => withUndo(ctx, 'a'),
    play: async (run) => {
      await run.start();
      await run.turn(run.cancel());
      await run.turn(run.failed(2, { message: 'cannot be undone' }));
    },
    mutants: [[7, (ctx) => withUndo(ctx, 'a').catch(() => undefined)]],
  }),
  golden('cancel-cleanup-expires', {
    code: (ctx) => withUndo(ctx, 'a'),
    play: async (run) => {
      await run.start();
      await run.turn(run.cancel());
      await run.turn(run.cleanupExpired());
    },
    mutants: [[5, (ctx) => ctx.call('a')]],
  }),
  golden('cancel-with-completions', {
    code: async (ctx) => {
      const results = await ctx.allSettled([ctx.call('a'), ctx.call('b'), ctx.sleep('1m')]);
      return results.map(({ status }) => status);
    },
    play: async (run) => {
      await run.start();
      await run.turn(run.cancel(), run.completed(2, 'done'), run.fired(3));
    },
    mutants: [[9, (ctx) => ctx.all([ctx.call('a'), ctx.call('b'), ctx.sleep('1m')])]],
  }),
  golden('cancel-wait-and-abandon', {
    code: (ctx) =>
      ctx.all([
        ctx.call('waits', 1, { cancellation: 'wait' }),
        ctx.call('left', 1, { cancellation: 'abandon' }),
        ctx.child('waits', 1, { cancellation: 'wait' }),
        ctx.child('left', 1, { cancellation: 'abandon', id: 'left' }),
        ctx.call('told'),
      ]),
    play: async (run) => {
      await run.start();
      await run.turn(run.cancel());
      await run.turn(run.childCanceled(3), run.completed(2), run.childCompleted(4));
      await run.turn(run.canceled(1));
    },
    mutants: [[2, (ctx) => ctx.call('waits', 1)]],
  }),
  golden('cancel-before-the-first-turn', {
    code: (ctx) => withUndo(ctx, 'a'),
    play: async (run) => {
      await run.turn(run.cancel(), run.startMessage());
      await run.turn(run.completed(2));
    },
    mutants: [[5, (ctx) => ctx.call('a')]],
  }),
  golden('cancel-too-late', {
    code: async (ctx, n: number) => {
      await ctx.waitFor('go');
      await ctx.continueAsNew(n + 1);
    },
    play: async (run) => {
      await run.start(1);
      await run.turn(run.raised('go'), run.raised('go', 'carried'), run.cancel('too late', 'jo'));
    },
    mutants: [
      [
        4,
        async (ctx, n: number) => {
          await ctx.waitFor('go');
          await ctx.continueAsNew(n + 2);
        },
      ],
    ],
  }),
  golden('begins-canceled', {
    executionId: 2,
    code: (ctx) => withUndo(ctx, 'a'),
    play: async (run) => {
      await run.turn({ ...run.startMessage(2), cancel: { reason: 'earlier', actor: null } });
      await run.turn(run.completed(1));
    },
    mutants: [[2, (ctx) => ctx.call('a')]],
  }),
  golden('continue-as-new-is-refused', {
    code: async (ctx) => {
      await ctx.call('a').catch(codeOf);
      ctx.setCustomStatus(await ctx.shield(() => ctx.continueAsNew(2)).catch(codeOf));
      await ctx.continueAsNew(2);
    },
    play: async (run) => {
      await run.start(1);
      await run.turn(run.cancel());
    },
    mutants: [
      [
        6,
        async (ctx) => {
          await ctx.call('a').catch(codeOf);
          ctx.setCustomStatus('OPERATION_CANCELED');
        },
      ],
    ],
  }),
  golden('canceled-child', {
    code: (ctx) => ctx.child('part', 1),
    play: async (run) => {
      await run.start();
      await run.turn(run.childCanceled(1, 'by somebody else'));
    },
    mutants: [[4, (ctx) => ctx.child('part', 1).catch(() => 'without it')]],
  }),
];
