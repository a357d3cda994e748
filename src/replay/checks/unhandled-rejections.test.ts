import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { drive } from '../../../test/replay/turn-driver.ts';

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

describe('R10: a rejection that nobody handles', () => {
  it('inside an orchestration fails that instance only, also when a listener would end the process', async () => {
    const { said, code } = await run('inside', 'unhandledRejection');
    expect(said).toEqual([
      'broken',
      'failed: nobody handles this',
      'neighbour executionCompleted',
      'late reported',
      'late executionFailed',
      'prompt executionCompleted',
      "PerdureWarning: Instance 'tooLate' had already ended when a promise of its code was rejected and nobody handled it: Error: after the end",
    ]);
    expect(code).toBe(0);
  });

  it('that is noticed in the middle of a replay, and handled by a later event, is no failure', async () => {
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
    // All in one turn, so that nobody notices; a replay lets the event loop turn after 1,000 events.
    await run.turn(...steps.slice(0, 400), run.completed(1), ...steps.slice(400));
    const cold = await run.replayed();
    const messages = [run.completed(802, 'end')];
    const { events } = await cold.turn({ messages, nowMs: 1, version: '1' });
    expect(events.at(-1)).toMatchObject({
      kind: 'executionCompleted',
      payload: '["handled later","end"]',
    });
  });

  it('outside ends the process as it always does', async () => {
    const { said, stderr, code } = await run('outside');
    expect(code).toBe(1);
    expect(said).toEqual(['exit 1']);
    expect(stderr).toContain('Error: foreign');
  });

  it('outside goes to a listener for unhandled rejections as it always does', async () => {
    const { said, code } = await run('outside', 'unhandledRejection');
    expect(said).toEqual(['listener: Error: foreign', 'survived', 'exit 0']);
    expect(code).toBe(0);
  });

  it('outside goes to a listener for uncaught exceptions with its origin', async () => {
    const { said } = await run('outside', 'uncaughtException');
    expect(said).toEqual(['unhandledRejection: foreign', 'survived', 'exit 0']);
  });
});
