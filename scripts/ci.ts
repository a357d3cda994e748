/**
 * Runs the build, then the tests and all checks. Checks print their output only if they fail. The last line is always
 * `N passed, N failed`; a failed check counts as a failure.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { countTests, type TestCounts, type VitestReport } from './test-counts.ts';

const root = join(import.meta.dirname, '..');

/** Scripts of package.json. The longest are first, so that no core is idle at the end. */
const CHECKS: readonly string[] = [
  'build',
  'check:format',
  'check:types',
  'check:lint',
  'check:package',
  'check:voice',
  'check:exports',
  'check:public-types',
  'check:unused',
  'check:publint',
  'check:layers',
  'check:walks',
  'check:api',
  'check:commands',
  'check:words',
  'check:docs',
  'check:size',
];

/** The checks that read dist/. */
const NEED_BUILD: ReadonlySet<string> = new Set([
  'check:package',
  'check:exports',
  'check:public-types',
  'check:publint',
]);

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

/** Runs checks, `parallel` at a time. Calls `onBuilt` after the build. Returns the number of failures. */
async function runChecks(parallel: () => number, onBuilt: () => void): Promise<number> {
  const built = Promise.withResolvers<void>();
  const waiting = [...CHECKS];
  let failed = 0;
  const work = async (index: number): Promise<void> => {
    while (index < parallel()) {
      const name = waiting.shift();
      if (name === undefined) return;
      if (NEED_BUILD.has(name)) await built.promise;
      if (!(await runCheck(name))) failed += 1;
      if (name !== 'build') continue;
      built.resolve();
      onBuilt();
    }
  };
  await Promise.all(Array.from({ length: parallel() }, (_, index) => work(index)));
  return failed;
}

/** Runs the checks on all cores until the build has ended, then one at a time beside the tests. */
async function runAll(): Promise<{ readonly failedChecks: number; readonly tests: TestCounts }> {
  const built = Promise.withResolvers<void>();
  let parallel = availableParallelism();
  const [failedChecks, tests] = await Promise.all([
    runChecks(
      () => parallel,
      () => {
        parallel = 1;
        built.resolve();
      },
    ),
    built.promise.then(() => runTests()),
  ]);
  return { failedChecks, tests };
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

if (process.argv.includes('--checks-only')) {
  const failedChecks = await runChecks(availableParallelism, () => undefined);
  console.log(failedChecks === 0 ? 'All checks passed.' : `Checks failed: ${failedChecks}.`);
  if (failedChecks > 0) process.exitCode = 1;
} else {
  const { failedChecks, tests } = await runAll();
  if (failedChecks > 0) console.log(`Checks failed: ${failedChecks}, see above.`);
  const skipped = tests.skipped > 0 ? `, ${tests.skipped} skipped` : '';
  console.log(`${tests.passed} passed, ${tests.failed + failedChecks} failed${skipped}`);
  if (tests.failed + failedChecks > 0) process.exitCode = 1;
}
