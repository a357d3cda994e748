/** `npm run bench [-- --quick] [--only <case>] [--rounds <n>]`: measures, compares, and says what is met. */
import { spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { median, type Figures } from './benchmark.ts';
import { caseNames, cases, isCaseName, type Case, type CaseName } from './cases.ts';
import { createFinishedInstances } from './finished-instances.ts';
import { goals, type Round } from './goals.ts';
import { caseTable, describeMachine, goalTable, method, notMeasured } from './report.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true },
    rounds: { type: 'string' },
  },
});
const { quick } = values;
const rounds = Number(values.rounds ?? (quick ? 1 : 3));
const unknown = values.only?.find((name) => !isCaseName(name));
if (unknown !== undefined || !Number.isSafeInteger(rounds) || rounds < 1) {
  throw new Error(
    `Usage: npm run bench [-- --quick] [--rounds <n>] [--only <case>]. Cases: ${caseNames.join(', ')}`,
  );
}
const chosen = caseNames.filter((name) => {
  const { slow = false }: Case = cases[name];
  return values.only === undefined ? !(quick && slow) : values.only.includes(name);
});

const folder = mkdtempSync(join(tmpdir(), 'perdure-bench-'));
const finishedStore = join(folder, 'finished.db');

/** Runs one case in a process and on a file of its own. */
async function runCase(name: CaseName, round: number): Promise<Figures> {
  const store = join(folder, `${name}-${round}.db`);
  const { onFinished = false }: Case = cases[name];
  if (onFinished) copyFileSync(finishedStore, store);
  const script = join(import.meta.dirname, 'run-case.ts');
  const args = ['--expose-gc', script, name, JSON.stringify({ store, quick })];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  if (code !== 0) throw new Error(`The case ${name} ended with ${code}.`);
  for (const suffix of ['', '-wal', '-shm']) rmSync(store + suffix, { force: true });
  return JSON.parse(output) as Figures;
}

try {
  const machine = describeMachine();
  console.log(
    `${Object.entries(machine)
      .map(([key, value]) => `${key}: ${value}`)
      .join('\n')}\n`,
  );
  console.log(`${method}\n\n${notMeasured}\n`);
  if (chosen.some((name) => (cases[name] as Case).onFinished === true)) {
    await createFinishedInstances(finishedStore, quick ? 10_000 : 100_000);
  }
  const results: Round[] = [];
  for (let round = 1; round <= rounds; round++) {
    const figures: Partial<Record<CaseName, Figures>> = {};
    for (const name of chosen) {
      console.error(`round ${round} of ${rounds}: ${name}`);
      figures[name] = await runCase(name, round);
    }
    results.push(figures);
  }
  console.log(`\n${caseTable(results).join('\n')}\n`);
  console.log(goalTable(results).join('\n'));
  const reached = goals.map(({ what, figure }) => {
    const found = results.map(figure).filter((value) => value !== undefined);
    return { what, value: found.length === 0 ? null : median(found) };
  });
  const file = join(import.meta.dirname, 'results.json');
  writeFileSync(file, JSON.stringify({ machine, quick, rounds: results, goals: reached }, null, 2));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
