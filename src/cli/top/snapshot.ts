import type { ClientSurface } from '../../client/client.ts';
import type { DefinitionQueueInfo } from '../../client/reading/queues.ts';
import type { SeriesDurationInfo, SeriesMinute } from '../../client/reading/series.ts';
import type { WorkerInfo } from '../../client/reading/workers.ts';
import type { InstanceStatus } from '../../model/status.ts';
import { findProblems, readForDoctor } from '../doctor/examine.ts';
import { defaultLimits, type Finding } from '../doctor/finding.ts';
import type { Selectors } from '../doctor/selector.ts';

/** What `perdure top` shows. */
export interface TopSnapshot {
  readonly target: string;
  /** The time of the store's clock. */
  readonly at: number;
  readonly instances: Readonly<Record<InstanceStatus, number>>;
  readonly storageBytes: number;
  /** Per second, since the snapshot before; absent in the first one. */
  readonly rates?: { readonly starts: number; readonly ends: number };
  /** Starts and ends of the last 30 minutes, oldest first. Minutes without counts have zeros. */
  readonly minutes: readonly {
    readonly at: number;
    readonly starts: number;
    readonly ends: number;
  }[];
  /** Upper bounds of percentiles of the last 5 minutes, in milliseconds. Absent without durations. */
  readonly latency: {
    readonly instances: Percentiles;
    readonly attempts: Percentiles;
    readonly waits: Percentiles;
  };
  readonly queues: readonly DefinitionQueueInfo[];
  readonly workers: readonly Pick<
    WorkerInfo,
    'id' | 'name' | 'status' | 'host' | 'pid' | 'slots' | 'leaked' | 'ageMs'
  >[];
  readonly findings: readonly Finding[];
}

export interface Percentiles {
  readonly count: number;
  readonly p50Ms?: number;
  readonly p95Ms?: number;
}

const minuteMs = 60_000;
const shownMinutes = 30;
const latencyMinutes = 5;
const live: readonly InstanceStatus[] = ['pending', 'running', 'canceling'];

/** Reads a snapshot. With the one before, it has rates. */
export async function readSnapshot(
  client: ClientSurface,
  {
    target,
    selectors,
    before,
  }: {
    readonly target: string;
    readonly selectors: Selectors;
    readonly before?: TopSnapshot | undefined;
  },
): Promise<TopSnapshot> {
  const [reads, queues, series] = await Promise.all([
    readForDoctor(client),
    client.queues(),
    client.series({ from: `${shownMinutes - 1}m` }),
  ]);
  const { attention, metrics, workers } = reads;
  const { at } = attention;
  const examination = { nodeVersion: process.version, ...selectors, reads, limits: defaultLimits };
  const recent = series.filter((minute) => minute.at > at - latencyMinutes * minuteMs);
  const snapshot: TopSnapshot = {
    target,
    at,
    instances: metrics.instances,
    storageBytes: metrics.storageBytes,
    minutes: fillMinutes(series, at),
    latency: {
      instances: percentiles(recent.map((minute) => minute.instances)),
      attempts: percentiles(recent.map((minute) => minute.attempts)),
      waits: percentiles(recent.map((minute) => minute.waits)),
    },
    queues,
    workers: workers.map(({ id, name, status, host, pid, slots, leaked, ageMs }) => ({
      id,
      name,
      status,
      host,
      pid,
      slots,
      leaked,
      ageMs,
    })),
    findings: findProblems(examination),
  };
  return before === undefined ? snapshot : { ...snapshot, rates: ratesOf(before, snapshot) };
}

/** Deleted instances lower the counts, so a rate is at least 0. */
function ratesOf(before: TopSnapshot, after: TopSnapshot): { starts: number; ends: number } {
  const seconds = Math.max(0.001, (after.at - before.at) / 1_000);
  const all = ({ instances }: TopSnapshot) => sum(Object.values(instances));
  const open = ({ instances }: TopSnapshot) => sum(live.map((status) => instances[status]));
  const starts = Math.max(0, all(after) - all(before));
  const ends = Math.max(0, all(after) - open(after) - (all(before) - open(before)));
  return { starts: starts / seconds, ends: ends / seconds };
}

function fillMinutes(series: readonly SeriesMinute[], nowMs: number): TopSnapshot['minutes'] {
  const byTime = new Map(series.map((minute) => [minute.at, minute]));
  const last = Math.floor(nowMs / minuteMs) * minuteMs;
  return Array.from({ length: shownMinutes }, (_, index) => {
    const at = last - (shownMinutes - 1 - index) * minuteMs;
    const minute = byTime.get(at);
    return { at, starts: minute?.starts ?? 0, ends: sum(Object.values(minute?.ends ?? {})) };
  });
}

/** Merges the buckets of several minutes. */
export function percentiles(durations: readonly SeriesDurationInfo[]): Percentiles {
  const counts = new Map<number, number>();
  for (const { buckets } of durations) {
    for (const { upToMs = Number.POSITIVE_INFINITY, count } of buckets) {
      counts.set(upToMs, (counts.get(upToMs) ?? 0) + count);
    }
  }
  const count = sum([...counts.values()]);
  if (count === 0) return { count };
  const maxMs = Math.max(...durations.map((one) => one.maxMs));
  const sorted = [...counts].toSorted(([one], [other]) => one - other);
  const at = (share: number): number => {
    let seen = 0;
    for (const [upToMs, number] of sorted) {
      seen += number;
      if (seen >= count * share) return Math.min(upToMs, maxMs);
    }
    return maxMs;
  };
  return { count, p50Ms: at(0.5), p95Ms: at(0.95) };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
