import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { SeriesRow } from '../../../src/providers/contract/series.ts';
import type { NewWorker, WorkerDefinitions } from '../../../src/providers/contract/workers.ts';
import { minuteMs, seriesBoundsMs } from '../../../src/providers/rules/series.ts';

/** The minutes of series that a seeded store has, beside those that its workers write. */
const seededMinutes = 360;

/** Writes hours of minute series: a day curve with a dip and a burst of failures. */
export async function writeSeries(provider: Provider, now: number): Promise<void> {
  const last = Math.floor(now / minuteMs) * minuteMs;
  const rows: SeriesRow[] = [];
  for (let index = seededMinutes; index >= 1; index -= 1) {
    const minute = last - index * minuteMs;
    const load = 60 + 25 * Math.sin(index / 40) + 9 * Math.sin(index / 3.1) - dip(index);
    const failed = index > 40 && index < 58 ? load * 0.2 : load * 0.012;
    rows.push(row(minute, '', load, failed), row(minute, 'fulfilOrder', load * 0.6, failed));
    rows.push(row(minute, 'sendReceipt', load * 0.4, 0));
  }
  // A batch holds what a process wrote in one round: a few rows per minute.
  for (let start = 0, number = 1; start < rows.length; start += 300, number += 1) {
    await provider.writeSeries({
      writerId: 'seed',
      number,
      rows: rows.slice(start, start + 300),
    });
  }
}

function dip(index: number): number {
  return index > 150 && index < 175 ? 40 : 0;
}

function row(minute: number, name: string, load: number, failures: number): SeriesRow {
  const starts = Math.max(0, Math.round(load * 60));
  const failed = Math.round(failures * 60);
  const ends = { completed: Math.max(0, starts - failed), ...(failed > 0 && { failed }) };
  const ready = Math.round(load * 2);
  const depth = { ready, delayed: 12, claimed: 40, oldestMs: 420 + ready * 6 };
  return {
    minute,
    name,
    counts: {
      starts,
      ends,
      instances: durations(starts, 11),
      attempts: durations(starts * 3, 6),
      waits: durations(starts * 3, 3),
    },
    ...(name === '' && { depths: { orchestrations: depth, activities: depth, tasks: depth } }),
  };
}

/** Durations around one bucket. */
function durations(count: number, around: number) {
  const buckets = Array.from({ length: seriesBoundsMs.length + 1 }, () => 0);
  const shares = [0.1, 0.25, 0.4, 0.18, 0.05];
  for (const [index, share] of shares.entries()) {
    buckets[around - 2 + index] = Math.round(count * share);
  }
  const total = buckets.reduce((sum, bucket) => sum + bucket, 0);
  const typicalMs = seriesBoundsMs[around] ?? 0;
  return { count: total, sumMs: total * typicalMs * 0.6, maxMs: typicalMs * 7, buckets };
}

const hosts: Readonly<Record<string, string>> = {
  'worker-eu-1': 'eu-1.shop.example',
  'worker-eu-2': 'eu-2.shop.example',
  'worker-eu-3': 'eu-3.shop.example',
  'worker-eu-7': 'eu-7.shop.example',
  'worker-us-1': 'us-1.shop.example',
};

/** The provider, with workers that register under hosts and process ids that are the same in every seed. */
export function withFixedHosts(provider: Provider): Provider {
  return {
    ...provider,
    registerWorkers: (workers) =>
      provider.registerWorkers(
        workers.map((worker) => ({
          ...worker,
          host: hosts[worker.name] ?? worker.host,
          pid: 4_120,
        })),
      ),
  };
}

/** A worker of another process. */
export function otherWorker(
  name: string,
  definitions: WorkerDefinitions,
  fields: Partial<NewWorker>,
): NewWorker {
  return {
    workerId: `seed-${name}`,
    name,
    host: hosts[name] ?? name,
    pid: 4_120,
    buildId: '9f2c1ab',
    slots: { activities: 48, orchestrations: 256, inUse: 0 },
    leaked: 0,
    heartbeatMs: 10_000,
    runningMs: 3 * 3_600_000,
    attemptLimits: [],
    ...definitions,
    ...fields,
  };
}
