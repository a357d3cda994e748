/**
 * Runs all checks, then the tests. Checks run in parallel and print their output only if they fail. The last line is always
 * `N passed, N failed`; a failed check counts as a failure.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { countTests, type TestCounts, type VitestReport } from './test-counts.ts';

const root = join(import.meta.dirname, '..');

/** Scripts of package.json. The second group needs dist/. */
const CHECKS: readonly (readonly string[])[] = [
  [
    'build',
    'check:types',
    'check:lint',
    'check:layers',
    'check:size',
    'check:words',
    'check:voice',
    'check:walks',
    'check:docs',
    'check:api',
    'check:commands',
    'check:format',
    'check:unused',
  ],
  ['check:public-types', 'check:publint', 'check:exports', 'check:package'],
];

interface Outcome {
  readonly code: number;
  readonly output: string;
  readonly seconds: string;
}

const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

/** Runs a shell command. Returns its output, or with `show` prints it. */
function run(command: string, show: boolean): Promise<Outcome> {
  const started = performance.now();
  const stdio = show ? 'inherit' : 'pipe';
  const child = spawn(command, { cwd: root, shell: true, stdio: ['ignore', stdio, stdio] });
  let output = '';
  const collect = (chunk: Buffer): void => void (output += chunk.toString());
  child.stdout?.on('data', collect);
  child.stderr?.on('data', collect);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      resolve({ code: code ?? 1, output, seconds });
    });
  });
}

/** Runs a check and prints its result. Returns whether it passed. */
async function runCheck(name: string): Promise<boolean> {
  const command = scripts[name];
  if (command === undefined) throw new Error(`package.json has no script ${name}`);
  const { code, output, seconds } = await run(command, false);
  console.log(`${code === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
  if (code !== 0) console.log(output.trimEnd());
  return code === 0;
}

/** Runs the checks of a group in parallel. Returns the number of failures. */
async function runGroup(names: readonly string[]): Promise<number> {
  const waiting = [...names];
  let failed = 0;
  const work = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      if (!(await runCheck(name))) failed += 1;
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return failed;
}

async function runTests(): Promise<TestCounts> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-tests-'));
  const file = join(folder, 'report.json');
  try {
    const reporters = `--reporter=default --reporter=json --outputFile.json="${file}"`;
    const { code } = await run(`vitest run ${reporters}`, true);
    return countTests(readReport(file), code);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readReport(file: string): VitestReport | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as VitestReport;
  } catch {
    return undefined; // Vitest exited without a report; its exit code counts.
  }
}

const checksOnly = process.argv.includes('--checks-only');
let failedChecks = 0;
for (const group of CHECKS) failedChecks += await runGroup(group);
if (checksOnly) {
  console.log(failedChecks === 0 ? 'All checks passed.' : `Checks failed: ${failedChecks}.`);
} else {
  const tests = await runTests();
  if (failedChecks > 0) console.log(`Checks failed: ${failedChecks}, see above.`);
  const skipped = tests.skipped > 0 ? `, ${tests.skipped} skipped` : '';
  console.log(`${tests.passed} passed, ${tests.failed + failedChecks} failed${skipped}`);
  if (tests.failed > 0) process.exitCode = 1;
}
if (failedChecks > 0) process.exitCode = 1;
