import type {
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from '../../providers/contract/management.ts';
import type { RetentionStatus } from '../../management/retention-records.ts';
import type { LimitsInfo } from '../../client/managing/limits.ts';
import {
  maxMetricSamples,
  otherMetricName,
  storeInstruments,
} from '../../model/metrics/instruments.ts';
import {
  countSamples,
  formatMetric,
  type TextSample,
} from '../../model/metrics/prometheus-text.ts';
import type { UnclaimedWorkInfo, WorkerInfo } from '../../client/reading/workers.ts';
import type { ServerMetrics } from './server-metrics.ts';

/** Formats all metrics of a server: of its store, of itself and of the workers of its process. At most 2,000 samples. */
export function toPrometheus(params: {
  readonly system: SystemMetrics;
  readonly queues: QueueDepths;
  readonly workers: readonly WorkerInfo[];
  readonly unclaimed: readonly UnclaimedWorkInfo[];
  /** The number of blocked instances, up to 10,000. */
  readonly blocked: number;
  /** The definitions with limits or keys, at most 200. */
  readonly limits: readonly LimitsInfo[];
  readonly retention: RetentionStatus;
  readonly server: ServerMetrics;
  /** The metrics of the workers of this process, in the same format. */
  readonly runs: string;
  readonly nowMs: number;
}): string {
  const { system, queues, workers, unclaimed, blocked, limits, retention, server, runs, nowMs } =
    params;
  const depths = (['orchestrations', 'activities', 'tasks'] as const).map(
    (queue) => [queue, queues[queue]] as const,
  );
  const byState = depths.flatMap(([queue, depth]): readonly TextSample[] =>
    (['ready', 'delayed', 'claimed', 'paused'] as const).map((state) => [
      { queue, state },
      depth[state],
    ]),
  );
  const ages = depths.map(([queue, depth]): TextSample => [{ queue }, ageOf(depth, nowMs)]);
  const load = server.gauges.map(([what, value]): TextSample => [{ what }, value]);
  const responses = server.responses.map(({ route, status, count }): TextSample => [
    { route, status },
    count,
  ]);
  const rejections = server.rejections.map(({ status, reason, count }): TextSample => [
    { status, reason },
    count,
  ]);
  const { finishedExecutions, storageBytes, reclaimableBytes, pendingReclaims } = system;
  const others = [
    gauge('perdure_instances', 'Instances by status.', bySubject('status', system.instances)),
    gauge(
      'perdure_finished_executions',
      'Executions that continued as new and are not pruned.',
      finishedExecutions,
    ),
    gauge('perdure_paused_instances', 'Paused instances.', system.pausedInstances),
    gauge('perdure_paused_definitions', 'Paused definitions.', system.pausedDefinitions),
    gauge('perdure_blocked_instances', 'Blocked instances, counted up to 10,000.', blocked),
    gauge('perdure_retention_paused', 'Whether retention is paused.', retention.paused ? 1 : 0),
    gauge(
      'perdure_retention_last_sweep_timestamp_seconds',
      'When the last retention sweep ended, in seconds since the epoch; 0 for none.',
      (retention.lastReport?.endedAt ?? 0) / 1_000,
    ),
    gauge(
      'perdure_retention_last_sweep_left',
      'Due roots that the last retention sweep skipped.',
      retention.lastReport?.left ?? 0,
    ),
    gauge('perdure_storage_bytes', 'Size of the store, in bytes.', storageBytes),
    gauge('perdure_reclaimable_bytes', 'Bytes that a vacuum could reclaim.', reclaimableBytes),
    gauge(
      'perdure_pending_reclaims',
      'Rows of deleted instances that await deletion.',
      pendingReclaims,
    ),
    gauge('perdure_queue_depth', 'Queue entries by queue and state.', byState),
    gauge(
      'perdure_queue_oldest_ready_seconds',
      'Age of the oldest claimable entry, in seconds.',
      ages,
    ),
    gauge('perdure_queue_messages', 'Messages to instances, including timers.', queues.messages),
    gauge('perdure_workers', 'Workers by status, at most 1,000.', byStatus(workers)),
    gauge(
      'perdure_worker_slots',
      'Slots for activities and tasks of the live workers, by state.',
      slotsOf(workers),
    ),
    gauge(
      'perdure_leaked_handlers',
      'Handlers of live workers that still run after their grace.',
      sum(workers, ({ leaked }) => leaked),
    ),
    gauge(
      'perdure_unclaimed_definitions',
      'Definitions with work due for 10 s that no live worker can run, at most 100.',
      unclaimed.length,
    ),
    gauge(
      'perdure_unclaimed_work_seconds',
      'Time that the oldest entry of such a definition has been due, in seconds.',
      unclaimed.map(({ kind, name, version, dueForMs }): TextSample => [
        { kind, name, ...(version !== undefined && { version }) },
        dueForMs / 1_000,
      ]),
    ),
    gauge(
      'perdure_server_under_way',
      'Current load of the server: requests, streams and bytes.',
      load,
    ),
    counter('perdure_server_answers_total', 'Responses by route and status.', responses),
    counter(
      'perdure_server_refused_total',
      'Requests rejected with 401 or 403, by status and reason.',
      rejections,
    ),
    runs,
  ].join('');
  return limitGauges(limits, maxMetricSamples - countSamples(others)) + others;
}

type LimitFigures = Pick<LimitsInfo, 'kind' | 'name' | 'effective' | 'running' | 'waiting'>;

const gaugesPerLimit = 3;
// One for each kind.
const maxOtherLimits = 3;

/** Keys are not labels: their number has no bound. Definitions that do not fit into `room` samples are added up as `other`. */
function limitGauges(limits: readonly LimitsInfo[], room: number): string {
  const { limitRunning, limitMax, limitWaiting } = storeInstruments;
  const figures = fitLimits(limits, Math.floor(room / gaugesPerLimit));
  const samples = (valueOf: (one: LimitFigures) => number | undefined): readonly TextSample[] =>
    figures.flatMap((one): readonly TextSample[] => {
      const { kind, name } = one;
      const value = valueOf(one);
      return value === undefined ? [] : [[{ kind, name }, value]];
    });
  return [
    gauge(
      limitRunning.name,
      limitRunning.help,
      samples(({ running }) => running),
    ),
    gauge(
      limitMax.name,
      limitMax.help,
      samples(({ effective }) => effective.global),
    ),
    gauge(
      limitWaiting.name,
      limitWaiting.help,
      samples(({ waiting }) => waiting),
    ),
  ].join('');
}

function fitLimits(limits: readonly LimitsInfo[], max: number): readonly LimitFigures[] {
  if (limits.length <= max) return limits;
  const own: LimitFigures[] = [];
  const others = new Map<string, LimitFigures>();
  for (const info of limits) {
    const { kind, name, running, waiting } = info;
    // A definition of this name would be a duplicate of the sum.
    if (own.length < max - maxOtherLimits && name !== otherMetricName) own.push(info);
    else {
      const sum = others.get(kind) ?? { running: 0, waiting: 0 };
      others.set(kind, {
        kind,
        name: otherMetricName,
        // Definitions without a limit are added up too, so that a sum of limits would mislead.
        effective: {},
        running: sum.running + running,
        waiting: sum.waiting + waiting,
      });
    }
  }
  return [...own, ...others.values()];
}

function bySubject(name: string, counts: Readonly<Record<string, number>>): readonly TextSample[] {
  return Object.entries(counts).map(([subject, count]) => [{ [name]: subject }, count]);
}

function byStatus(workers: readonly WorkerInfo[]): readonly TextSample[] {
  return (['live', 'stale'] as const).map((status): TextSample => [
    { status },
    workers.filter((worker) => worker.status === status).length,
  ]);
}

function slotsOf(workers: readonly WorkerInfo[]): readonly TextSample[] {
  const used = sum(workers, ({ slots }) => slots.inUse);
  const free = sum(workers, ({ slots }) => Math.max(0, slots.activities - slots.inUse));
  return [
    [{ state: 'used' }, used],
    [{ state: 'free' }, free],
  ];
}

/** Adds up a number of the live workers. */
function sum(workers: readonly WorkerInfo[], of: (worker: WorkerInfo) => number): number {
  return workers.reduce(
    (total, worker) => (worker.status === 'live' ? total + of(worker) : total),
    0,
  );
}

function ageOf({ oldestReadyAt }: QueueDepth, nowMs: number): number {
  return oldestReadyAt === null ? 0 : Math.max(0, nowMs - oldestReadyAt) / 1_000;
}

function gauge(name: string, help: string, value: number | readonly TextSample[]): string {
  return formatMetric(name, 'gauge', help, typeof value === 'number' ? [[{}, value]] : value);
}

function counter(name: string, help: string, samples: readonly TextSample[]): string {
  return formatMetric(name, 'counter', help, samples);
}
