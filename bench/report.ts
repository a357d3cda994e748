import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { median } from './benchmark.ts';
import { cases, type CaseName } from './cases.ts';
import { describeGoal, judge, type Goal, type Round } from './goal.ts';
import type { ProviderName } from './stores.ts';

/** The machine and the versions that the figures belong to. */
export function describeMachine(): Readonly<Record<string, string>> {
  const { version } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  ) as { version: string };
  return {
    perdure: version,
    node: process.version,
    processor: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}`,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    system: `${process.platform} ${release()}`,
    load: `${loadavg()[0]?.toFixed(1)} in the minute before the run`,
  };
}

const rounds = `after a first run of the same
work that warms up the compiler. Cases run in rounds, one after the other; shown is the median of the rounds, and
for ratios the median of the rounds' ratios. Every result is checked.`;

export const method: Readonly<Record<ProviderName, string>> = {
  sqlite: `Each figure comes from a fresh process on a fresh file (WAL, synchronous=FULL), ${rounds}
The client and the worker share a process, but for cancels across processes. The raw baseline is hand-written SQL with the
same pragmas, one transaction per state change.`,
  postgres: `Each figure comes from a fresh process on a fresh database of one server (fsync and synchronous_commit on), ${rounds}
The client and the worker share a process, but for what is measured across processes. The raw baseline is hand-written SQL,
one round trip and transaction per state change, over 16 connections. Peers run in the same rounds on the same server,
in the best setting that their documentation gives.`,
};

export const notMeasured: Readonly<Record<ProviderName, string>> = {
  sqlite: `Not measured: more than two processes on one file, large payloads, handlers that use the processor, a machine that
loses power, other file systems and disks.`,
  postgres: `Not measured: a server on another machine (here the client, the worker and the server share the processors), a network,
replication, poolers, large payloads, handlers that use the processor.`,
};

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
export function goalTable(goals: readonly Goal[], rounds: readonly Round[]): readonly string[] {
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
