import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { median } from './benchmark.ts';
import { cases, type CaseName } from './cases.ts';
import { describeGoal, rateGoal, type Goal, type Round } from './goal.ts';
import type { ProviderName } from './stores.ts';

/** The machine and the versions of the run. */
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
    load: `${loadavg()[0]?.toFixed(1)} (1-minute average before the run)`,
  };
}

const rounds = `after a
warm-up with the same work. Cases run in sequence, in several rounds. Each value is the median of the rounds; a ratio is
the median of the ratios per round. Every result is verified.`;

export const method: Readonly<Record<ProviderName, string>> = {
  sqlite: `Each value comes from a fresh process on a fresh file (WAL, synchronous=FULL), ${rounds}
The client and the worker share a process, except for cancels across processes. The raw baseline is hand-written SQL with
the same pragmas and one transaction per state change.`,
  postgres: `Each value comes from a fresh process on a fresh database of one server (fsync and synchronous_commit on), ${rounds}
The client and the worker share a process, except in the cases across processes. The raw baseline is hand-written SQL with
one round trip and transaction per state change, over 16 connections. Peers run in the same rounds on the same server, with
the best settings of their documentation.`,
};

export const notMeasured: Readonly<Record<ProviderName, string>> = {
  sqlite: `Not measured: more than two processes on one file, CPU-bound handlers, power loss, other file systems and
disks.`,
  postgres: `Not measured: a server on another machine (here client, worker and server share the processors), network latency,
replication, connection poolers, large payloads, CPU-bound handlers.`,
};

/** The results of every case, median over the rounds. */
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

/** Every measured goal, and whether it is met. */
export function goalTable(goals: readonly Goal[], rounds: readonly Round[]): readonly string[] {
  return goals.flatMap((goal) => {
    const values = rounds.map(goal.figure).filter((value) => value !== undefined);
    if (values.length === 0) return [];
    const value = median(values);
    const shown = `${format(value)} ${goal.unit}`.padEnd(14);
    return [
      `${goal.what.padEnd(62)} ${shown} ${rateGoal(goal, value).padEnd(28)} (${describeGoal(goal)})`,
    ];
  });
}

function format(value: number): string {
  if (value >= 1_000) return Math.round(value).toLocaleString('en');
  return value.toPrecision(3);
}
