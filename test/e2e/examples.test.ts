import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { root, runProgram } from './run-program.ts';

const examples = globSync('examples/*.ts', { cwd: root }).sort();

/** The lines of the comment that ends an example. */
function expectedOutput(source: string): string {
  const comment = source.split('\n// Output:\n')[1];
  if (comment === undefined) throw new Error('The example does not end with its output.');
  return comment.replaceAll(/^\/\/ ?/gm, '');
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'perdure-example-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('there is an example for each thing that a newcomer looks for', () => {
  expect(examples).toEqual(
    [
      'cancel-a-task',
      'cancel-from-outside',
      'child-orchestrations',
      'continue-as-new',
      'fan-out-fan-in',
      'hello',
      'race',
      'retention',
      'retries',
      'saga',
      'schedules',
      'tasks',
      'testing-with-skipped-time',
      'timeout-with-cleanup',
      'timers-and-events',
      'versioned-upgrade',
    ].map((name) => `examples/${name}.ts`),
  );
});

/** Every example as it is, and once more on a file where it lets the caller choose the store. */
const runs = examples.flatMap((example) => {
  const source = readFileSync(join(root, example), 'utf8');
  const output = expectedOutput(source);
  const onFile = { example, output, args: ['example.db'] };
  return [{ example, output, args: [] }, ...(source.includes('process.argv[2]') ? [onFile] : [])];
});

it.each(runs)('$example $args prints what its last comment says', async (run) => {
  const result = await runProgram(run.example, { cwd: folder, args: run.args });
  expect(result).toEqual({ code: 0, stdout: run.output, stderr: '' });
});

it('the first example can be run again on its file: the same id is the same run', async () => {
  for (let run = 0; run < 2; run += 1) {
    const { stdout } = await runProgram('examples/hello.ts', { cwd: folder });
    expect(stdout).toBe('Hello, World!\n');
  }
});
