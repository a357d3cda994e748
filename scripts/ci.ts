/**
 * Runs every check and then the tests. Checks run side by side and are silent unless they fail; the
 * last line is always `N passed, N failed`, where a failed check counts as one more failure.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { countTests, type TestCounts, type VitestReport } from './test-counts.ts';

const root = join(import.meta.dirname, '..');

/** Scripts of package.json, quick ones first. Those of a later group look at dist/. */
const CHECKS: readonly (readonly string[])[] = [
  [
    'build',
    'check:types',
    'check:lint',
    'check:layers',
    'check:size',
    'check:words',
    'check:docs',
    'check:api',
    'check:seeds',
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

/** Runs a shell command; its output is returned, or shown as it comes. */
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

/** Whether the check passed; it reports its own outcome. */
async function runCheck(name: string): Promise<boolean> {
  const command = scripts[name];
  if (command === undefined) throw new Error(`package.json has no script ${name}`);
  const { code, output, seconds } = await run(command, false);
  console.log(`${code === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
  if (code !== 0) console.log(output.trimEnd());
  return code === 0;
}

/** Runs the checks of a group on all cores and answers how many failed. */
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
    return undefined; // Vitest ended before it could report; its exit code tells.
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
