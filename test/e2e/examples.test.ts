import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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
      'child-orchestrations',
      'continue-as-new',
      'fan-out-fan-in',
      'hello',
      'retries',
      'testing-with-skipped-time',
      'timers-and-events',
      'versioned-upgrade',
    ].map((name) => `examples/${name}.ts`),
  );
});

describe.each(examples)('%s', (example) => {
  const source = readFileSync(join(root, example), 'utf8');

  it('prints what its last comment says', async () => {
    const result = await runProgram(example, { cwd: folder });
    expect(result).toEqual({ code: 0, stdout: expectedOutput(source), stderr: '' });
  });

  // An example that opens no store of the caller's choice has nothing more to show.
  if (source.includes('process.argv[2]')) {
    it('prints the same on a file', async () => {
      const result = await runProgram(example, { cwd: folder, args: [join(folder, 'example.db')] });
      expect(result).toEqual({ code: 0, stdout: expectedOutput(source), stderr: '' });
    });
  }
});

it('the first example can be run again on its file: the same id is the same run', async () => {
  for (let run = 0; run < 2; run += 1) {
    const { stdout } = await runProgram('examples/hello.ts', { cwd: folder });
    expect(stdout).toBe('Hello, World!\n');
  }
});
