/**
 * `npm run bench [-- --provider postgres] [--quick] [--only <case>] [--rounds <n>] [--workers <n>] [--rows <n>]
 * [--peers]`: measures the cases and compares them with the goals.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { median, type BenchmarkSetup, type Figures } from './benchmark.ts';
import { cases, type Case, type CaseName } from './cases.ts';
import { createFinishedInstances } from './finished-instances.ts';
import type { Round } from './goal.ts';
import { goals } from './goals.ts';
import { readOptions } from './options.ts';
import { installPeers } from './peers.ts';
import { caseTable, describeMachine, goalTable, method, notMeasured } from './report.ts';
import { runProgram } from './run-program.ts';
import { openStores } from './stores.ts';

const { provider, quick, rounds, workers, rows, cases: chosen } = readOptions();
if (chosen.some((name) => isPeer(cases[name]))) installPeers();
const stores = await openStores(provider);

function isPeer({ peer = false }: Case): boolean {
  return peer;
}

function isOnce({ once = false }: Case): boolean {
  return once;
}

function isOnFinished({ onFinished = false }: Case): boolean {
  return onFinished;
}

/** Runs one case in a separate process on a fresh store. */
async function runCase(name: CaseName, finished: string | undefined): Promise<Figures> {
  const store = await stores.make(name, isOnFinished(cases[name]) ? finished : undefined);
  const setup: BenchmarkSetup = {
    store,
    quick,
    ...(workers !== undefined && { workers }),
    ...(rows !== undefined && { rows }),
  };
  const script = join(import.meta.dirname, 'run-case.ts');
  try {
    return await runProgram(`The case ${name}`, [
      '--expose-gc',
      script,
      name,
      JSON.stringify(setup),
    ]);
  } finally {
    await stores.remove(store);
  }
}

async function makeFinished(): Promise<string> {
  const store = await stores.make('finished');
  await createFinishedInstances(store, quick ? 10_000 : 100_000);
  return store;
}

try {
  const machine = { ...describeMachine(), ...stores.versions };
  const lines = Object.entries(machine).map(([key, value]) => `${key}: ${value}`);
  console.log(`${lines.join('\n')}\n`);
  console.log(`${method[provider]}\n\n${notMeasured[provider]}\n`);
  const needsFinished = chosen.some((name) => isOnFinished(cases[name]));
  const finished = needsFinished ? await makeFinished() : undefined;
  const results: Round[] = [];
  for (let round = 1; round <= rounds; round++) {
    const figures: Partial<Record<CaseName, Figures>> = {};
    for (const name of chosen) {
      const known = isOnce(cases[name]) ? results[0]?.[name] : undefined;
      if (known === undefined) console.error(`round ${round} of ${rounds}: ${name}`);
      figures[name] = known ?? (await runCase(name, finished));
    }
    results.push(figures);
  }
  console.log(`\n${caseTable(results).join('\n')}\n`);
  console.log(goalTable(goals[provider], results).join('\n'));
  const reached = goals[provider].map(({ what, figure }) => {
    const found = results.map(figure).filter((value) => value !== undefined);
    return { what, value: found.length === 0 ? null : median(found) };
  });
  const file = join(import.meta.dirname, 'results.json');
  const report = { provider, machine, quick, rounds: results, goals: reached };
  writeFileSync(file, JSON.stringify(report, null, 2));
} finally {
  await stores.close();
}
