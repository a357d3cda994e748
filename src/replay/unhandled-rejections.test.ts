import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const program = join(import.meta.dirname, '../../test/replay/programs/unhandled-rejection.ts');

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
