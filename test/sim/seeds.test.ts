import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { expectedCoverage } from './coverage.ts';
import { regressionSeeds } from './regression-seeds.ts';
import { simulate } from './simulation.ts';

const main = new URL('main.ts', import.meta.url).pathname;
const seeds = Number(process.env['PERDURE_SIM_SEEDS'] ?? 2_000);

async function sim(...args: readonly string[]): Promise<string> {
  const run = promisify(execFile)(process.execPath, [main, ...args], { maxBuffer: 64 * 2 ** 20 });
  const { stdout } = await run.catch((error: { readonly stdout: string }) => error);
  return stdout;
}

function hashesOf(output: string): readonly string[] {
  const lines = output.split('\n').filter((line) => /^\d+ [\da-f]{16}$/.test(line));
  return lines.toSorted((a, b) => Number(a.split(' ')[0]) - Number(b.split(' ')[0]));
}

it('no seed violates a rule, and the seeds reach every fault, program and operation', async () => {
  const output = await sim('--seeds', `${seeds}`, '--coverage');
  const lines = output.split('\n');
  expect(lines.filter((line) => /^seed \d+ failed: /.test(line))).toEqual([]);
  expect(output).toContain(`${seeds} seeds in `);
  if (seeds < 2_000) return;
  const reached = new Set(lines.flatMap((line) => /^reached (.*): \d+$/.exec(line)?.[1] ?? []));
  expect(expectedCoverage.filter((name) => !reached.has(name))).toEqual([]);
}, 600_000);

it('regression seeds pass', async () => {
  for (const { seed, decisions, found } of regressionSeeds) {
    const { violations } = await simulate({ seed, allowed: decisions && new Set(decisions) });
    expect({ found, violations }).toEqual({ found, violations: [] });
  }
});

it('the same seed gives the same trace in another process', async () => {
  const args = ['--hashes', '--seeds', '50', '--from', '5001'];
  const [together, apart] = await Promise.all([
    sim(...args, '--processes', '1'),
    sim(...args, '--processes', '2'),
  ]);
  expect(hashesOf(together)).toHaveLength(50);
  expect(hashesOf(apart)).toEqual(hashesOf(together));
}, 300_000);

/** Reads nondeterminism that a simulation cannot replace. Strings and comments do not count. */
const direct =
  /(?<![\w.`'#])(?:setImmediate|setTimeout|setInterval)\(|Math\.random\b|performance\.now\b|\bDate\.now\b|\brandom(?:Int|UUID|Bytes)\(|from 'node:timers/;

/** They run in another thread, or patch the globals themselves. */
const exempt: ReadonlySet<string> = new Set([
  'src/model/platform.ts',
  'src/model/epoch-time.ts',
  'src/orchestration/deterministic-globals.ts',
  'src/runtime/watchdog/watchdog-thread.ts',
]);

it('runtime, client, jobs, management and the SQLite provider get time and randomness from the platform', async () => {
  const found: string[] = [];
  const folders = '{model,replay,orchestration,runtime,client,jobs,tasks,schedules,management}';
  for (const pattern of [`src/${folders}/**/*.ts`, 'src/providers/{sqlite,shared,rules}/**/*.ts']) {
    for await (const file of glob(pattern)) {
      if (file.endsWith('.test.ts') || exempt.has(file)) continue;
      for (const [index, line] of readFileSync(file, 'utf8').split('\n').entries()) {
        const isComment = /^\s*(?:\/\/|\*|\/\*)/.test(line);
        if (!isComment && direct.test(line)) found.push(`${file}:${index + 1} ${line.trim()}`);
      }
    }
  }
  expect(found).toEqual([]);
});
