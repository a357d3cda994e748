import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as immediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { drive, kindsOf } from '../../../test/replay/turn-driver.ts';
import type { OrchestrationContext } from '../../orchestration/orchestration-context.ts';

describe('R6: the code may act only inside its turn', () => {
  it('fails an instance that waits for nothing durable, and names the last durable operation', async () => {
    const run = drive(async (ctx) => {
      await ctx.call('charge', 5);
      await readFile(import.meta.filename);
      await ctx.call('ship');
    });
    await run.start();
    const events = await run.turn(run.completed(1));
    expect(kindsOf(events)).toEqual(['activityCompleted', 'executionFailed']);
    expect(run.failure).toMatchObject({ code: 'STRAY_AWAIT' });
    expect(run.failure.message).toContain("activity 'charge', operation 1");
    expect(run.failure.message).toContain('Do the I/O or the waiting in an activity');
  });

  it('names no operation if there was none', async () => {
    const run = drive(async () => new Promise(() => undefined));
    await run.start();
    expect(run.failure.message).toContain('Before its first durable operation');
  });

  it('a context call outside a turn throws, and the next turn fails the instance', async () => {
    let isBroken = 0;
    const stray = Promise.withResolvers<unknown>();
    const run = drive(
      async (ctx) => {
        const pending = ctx.call('pending');
        await immediate();
        try {
          await ctx.call('stray');
        } catch (error) {
          stray.resolve(error);
        }
        await pending;
      },
      { onBroken: () => (isBroken += 1), alwaysReplay: false },
    );
    expect(kindsOf(await run.start())).toEqual(['executionStarted', 'activityScheduled']);
    const thrown = await stray.promise;
    expect(thrown).toMatchObject({ code: 'STRAY_AWAIT' });
    expect((thrown as Error).message).toContain("activity 'stray' was called outside a turn");
    expect((thrown as Error).message).toContain("activity 'pending', operation 1");
    expect(isBroken).toBe(1);
    expect(kindsOf(await run.turn({ kind: 'wake' }))).toEqual(['executionFailed']);
    expect(run.failure).toMatchObject({ code: 'STRAY_AWAIT' });
    expect(run.execution.ended).toBe(true);
  });

  it('fails a broken instance before it applies other messages', async () => {
    const broken = Promise.withResolvers<void>();
    const run = drive(
      async (ctx) => {
        const pending = ctx.call('pending');
        await immediate();
        await ctx.sleep(1).catch(() => undefined);
        return pending;
      },
      { onBroken: broken.resolve, alwaysReplay: false },
    );
    await run.start();
    await broken.promise;
    expect(kindsOf(await run.turn(run.completed(1)))).toEqual(['executionFailed']);
  });

  it('ignores a result that the code returns outside a turn', async () => {
    const broken = Promise.withResolvers<void>();
    const run = drive(
      async (ctx) => {
        void ctx.call('pending');
        await immediate();
        return 'sneaked in';
      },
      { onBroken: broken.resolve, alwaysReplay: false },
    );
    await run.start();
    await broken.promise;
    await run.turn({ kind: 'wake' });
    expect(run.failure.message).toContain('the orchestration ended outside a turn');
  });

  it('detects all stray awaits among many clean instances', async () => {
    const dirty = async (ctx: OrchestrationContext<void>) => {
      await ctx.call('a');
      await readFile(import.meta.filename);
      await ctx.call('b');
    };
    const clean = async (ctx: OrchestrationContext<void>) => {
      await ctx.call('a');
      for (let i = 0; i < 100; i++) await Promise.resolve();
      await ctx.call('b');
    };
    const runs = Array.from({ length: 400 }, (_, i) =>
      drive(i % 2 === 0 ? dirty : clean, { alwaysReplay: false }),
    );
    await Promise.all(runs.map((run) => run.start()));
    await Promise.all(runs.map((run) => run.turn(run.completed(1))));
    const last = runs.map((run) => run.history.at(-1)?.kind);
    expect(last.filter((kind) => kind === 'executionFailed')).toHaveLength(200);
    expect(last.filter((kind) => kind === 'activityScheduled')).toHaveLength(200);
  });

  it('an instance cannot use the context of another', async () => {
    let leaked: OrchestrationContext<void> | undefined;
    let isBroken = false;
    const owner = drive(
      async (ctx) => {
        leaked = ctx;
        return ctx.call('own');
      },
      { onBroken: () => (isBroken = true), alwaysReplay: false },
    );
    await owner.start();
    const other = drive(async () => leaked?.call('foreign'), { alwaysReplay: false });
    await other.start();
    expect(other.failure).toMatchObject({ code: 'STRAY_AWAIT' });
    expect(isBroken).toBe(false);
    await owner.turn(owner.completed(1, 'fine'));
    expect(owner.output).toBe('fine');
  });

  it('an instance cannot use the context of another, even during its turn', async () => {
    const contexts: OrchestrationContext<void>[] = [];
    const run = () =>
      drive(
        async (ctx) => {
          contexts.push(ctx);
          while (contexts.length < 2) await Promise.resolve();
          const [first, second] = contexts;
          const other = ctx === first ? second : first;
          try {
            return await other?.call('foreign');
          } catch (error) {
            return [(error as { code: string }).code, await ctx.call('own')];
          }
        },
        { alwaysReplay: false },
      );
    const runs = [run(), run()];
    await Promise.all(runs.map((each) => each.start()));
    await Promise.all(runs.map((each) => each.turn(each.completed(1, 'fine'))));
    expect(runs.map(({ output }) => output)).toEqual([
      ['STRAY_AWAIT', 'fine'],
      ['STRAY_AWAIT', 'fine'],
    ]);
  });

  it('a context call after dispose() throws and is reported', async () => {
    const stray = Promise.withResolvers<unknown>();
    let isBroken = false;
    const run = drive(
      async (ctx) => {
        void ctx.call('pending');
        await immediate();
        try {
          await ctx.call('stray');
        } catch (error) {
          stray.resolve(error);
        }
      },
      { onBroken: () => (isBroken = true), alwaysReplay: false },
    );
    await run.start();
    run.execution.dispose();
    expect(await stray.promise).toMatchObject({ code: 'STRAY_AWAIT' });
    await immediate();
    expect(isBroken).toBe(true);
  });
});

const program = join(import.meta.dirname, '../../../test/replay/programs/unhandled-rejection.ts');

/** Runs the program in a process of its own and answers what it said, and how it ended. */
function run(...args: string[]): Promise<{ said: string[]; stderr: string; code: number }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [...process.execArgv, program, ...args], (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : 0;
      resolve({ said: stdout.trim().split('\n'), stderr, code });
    });
  });
}

describe('R10: an unhandled rejection', () => {
  it('inside an orchestration fails only its instance, also if a listener would end the process', async () => {
    const { said, code } = await run('inside', 'unhandledRejection');
    expect(said).toEqual([
      'broken',
      'failed: nobody handles this',
      'neighbour executionCompleted',
      'late reported',
      'late executionFailed',
      'prompt executionCompleted',
      'PerdureWarning: Unhandled rejection after the end of instance "tooLate": Error: after the end',
    ]);
    expect(code).toBe(0);
  });

  it('that is reported during a replay and handled by a later event does not fail the instance', async () => {
    const run = drive(
      async (ctx) => {
        const branch = ctx.call('branch').then(() => Promise.reject(new Error('handled later')));
        for (let i = 0; i < 800; i++) await ctx.call('step');
        return [await branch.catch((error: Error) => error.message), await ctx.call('last')];
      },
      { alwaysReplay: false },
    );
    await run.start();
    const steps = Array.from({ length: 800 }, (_, i) => run.completed(i + 2));
    // In one turn, the rejection is not reported; a replay yields to the event loop after 1,000 events.
    await run.turn(...steps.slice(0, 400), run.completed(1), ...steps.slice(400));
    const cold = await run.replayed();
    const messages = [run.completed(802, 'end')];
    const { events } = await cold.turn({ messages, nowMs: 1, version: '1' });
    expect(events.at(-1)).toMatchObject({
      kind: 'executionCompleted',
      payload: '["handled later","end"]',
    });
  });

  it('outside ends the process as usual', async () => {
    const { said, stderr, code } = await run('outside');
    expect(code).toBe(1);
    expect(said).toEqual(['exit 1']);
    expect(stderr).toContain('Error: foreign');
  });

  it('outside is passed to a listener for unhandled rejections', async () => {
    const { said, code } = await run('outside', 'unhandledRejection');
    expect(said).toEqual(['listener: Error: foreign', 'survived', 'exit 0']);
    expect(code).toBe(0);
  });

  it('outside is passed to a listener for uncaught exceptions with its origin', async () => {
    const { said } = await run('outside', 'uncaughtException');
    expect(said).toEqual(['unhandledRejection: foreign', 'survived', 'exit 0']);
  });
});
