import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import Database from 'better-sqlite3';
import { median } from './benchmark.ts';
import { cases, type CaseName } from './cases.ts';
import { describeGoal, goals, judge, type Round } from './goals.ts';

/** The machine and the versions that the figures belong to. */
export function describeMachine(): Readonly<Record<string, string>> {
  const db = new Database(':memory:');
  const sqlite = db.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? '';
  db.close();
  const { version } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  ) as { version: string };
  return {
    perdure: version,
    node: process.version,
    sqlite,
    processor: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}`,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    system: `${process.platform} ${release()}`,
  };
}

export const method = `Each figure comes from a fresh process on a fresh file (WAL, synchronous=FULL), after a first run of the same
work that warms up the compiler. Cases run in rounds, one after the other; shown is the median of the rounds, and
for ratios the median of the rounds' ratios. Every result is checked. The client and the worker share a process,
but for cancels across processes. The raw baseline is hand-written SQL with the same pragmas, one transaction per state
change.`;

export const notMeasured = `Not measured: more than two processes on one file, large payloads, handlers that use the processor, a machine that
loses power, other file systems and disks.`;

/** The figures of every case, median over the rounds. */
export function caseTable(rounds: readonly Round[]): readonly string[] {
  const names = Object.keys(rounds[0] ?? {}) as CaseName[];
  return names.map((name) => {
    const figures = Object.keys(rounds[0]?.[name] ?? {}).map((figure) => {
      const value = median(rounds.map((round) => round[name]?.[figure] ?? Number.NaN));
      return `${figure} ${format(value)}`;
    });
    return `${cases[name].title.padEnd(52)} ${figures.join('  ')}`;
  });
}

/** Every goal for which there are figures, and whether it is met. */
export function goalTable(rounds: readonly Round[]): readonly string[] {
  return goals.flatMap((goal) => {
    const values = rounds.map(goal.figure).filter((value) => value !== undefined);
    if (values.length === 0) return [];
    const value = median(values);
    const shown = `${format(value)} ${goal.unit}`.padEnd(14);
    return [
      `${goal.what.padEnd(62)} ${shown} ${judge(goal, value).padEnd(28)} (${describeGoal(goal)})`,
    ];
  });
}

function format(value: number): string {
  if (value >= 1_000) return Math.round(value).toLocaleString('en');
  return value.toPrecision(3);
}
