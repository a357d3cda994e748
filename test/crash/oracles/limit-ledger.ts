import type { LedgerLine } from '../programs/limit-definitions.ts';

/** The handler of a run in one process. */
interface Interval {
  readonly group: string;
  readonly key: string;
  readonly run: string;
  readonly from: number;
  readonly to: number;
}

/** The lines of one process, and when it was killed. */
export interface ProcessLedger {
  readonly lines: readonly LedgerLine[];
  readonly killedAt?: number;
}

/** The times in which each handler ran. A handler of a process that was killed ran until then. */
export function intervalsOf({ lines, killedAt = Infinity }: ProcessLedger): readonly Interval[] {
  const open = new Map<string, LedgerLine>();
  const intervals: Interval[] = [];
  for (const line of lines) {
    const name = `${line.group} ${line.run}`;
    const begun = open.get(name);
    if (line.what === 'claim') continue;
    if (line.what === 'begin') open.set(name, line);
    else if (begun !== undefined) {
      intervals.push({ ...line, from: begun.at, to: line.at });
      open.delete(name);
    }
  }
  for (const { group, key, run, at } of open.values()) {
    intervals.push({ group, key, run, from: at, to: killedAt });
  }
  return intervals;
}

/** The times from the first begin to the last end of each instance, over all processes. */
export function spansOf(lines: readonly LedgerLine[]): readonly Interval[] {
  const byRun = Map.groupBy(lines, ({ run }) => run);
  return Array.from(byRun.values(), (own) => {
    const times = own.map(({ at }) => at);
    const [{ group, key, run } = { group: '', key: '', run: '' }] = own;
    return { group, key, run, from: Math.min(...times), to: Math.max(...times) };
  });
}

/** The most intervals that overlap at one time. */
export function mostAtOnce(intervals: readonly Interval[]): number {
  const steps = intervals.flatMap(({ from, to }) => [
    { at: from, by: 1 },
    { at: to, by: -1 },
  ]);
  // An end at the time of a begin comes first.
  steps.sort((one, other) => one.at - other.at || one.by - other.by);
  let running = 0;
  let most = 0;
  for (const { by } of steps) {
    running += by;
    most = Math.max(most, running);
  }
  return most;
}

/** The most intervals of one key that overlap at one time. */
export function mostAtOncePerKey(intervals: readonly Interval[]): number {
  const byKey = Map.groupBy(intervals, ({ key }) => key);
  return Math.max(0, ...Array.from(byKey.values(), mostAtOnce));
}

/** The most times within a window of this length. */
export function mostWithin(times: readonly number[], windowMs: number): number {
  const sorted = times.toSorted((one, other) => one - other);
  let first = 0;
  let most = 0;
  for (const [last, at] of sorted.entries()) {
    while ((sorted[first] ?? at) <= at - windowMs) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

/** The most lines of one key within a window of this length. */
export function mostWithinPerKey(lines: readonly LedgerLine[], windowMs: number): number {
  const byKey = Map.groupBy(lines, ({ key }) => key);
  const mostOf = (own: readonly LedgerLine[]) =>
    mostWithin(
      own.map(({ at }) => at),
      windowMs,
    );
  return Math.max(0, ...Array.from(byKey.values(), mostOf));
}
