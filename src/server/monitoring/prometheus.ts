import type {
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from '../../providers/contract/management.ts';
import type { UnclaimedWorkInfo, WorkerInfo } from '../../client/reading/workers.ts';
import type { ServerMetrics } from './server-metrics.ts';

type Labels = Readonly<Record<string, string | number>>;
type Sample = readonly [labels: Labels, value: number];

export function toPrometheus(params: {
  readonly system: SystemMetrics;
  readonly queues: QueueDepths;
  readonly workers: readonly WorkerInfo[];
  readonly unclaimed: readonly UnclaimedWorkInfo[];
  readonly server: ServerMetrics;
  readonly nowMs: number;
}): string {
  const { system, queues, workers, unclaimed, server, nowMs } = params;
  const depths = (['orchestrations', 'activities', 'tasks'] as const).map(
    (queue) => [queue, queues[queue]] as const,
  );
  const byState = depths.flatMap(([queue, depth]): readonly Sample[] =>
    (['ready', 'delayed', 'claimed', 'paused'] as const).map((state) => [
      { queue, state },
      depth[state],
    ]),
  );
  const ages = depths.map(([queue, depth]): Sample => [{ queue }, ageOf(depth, nowMs)]);
  const load = server.gauges.map(([what, value]): Sample => [{ what }, value]);
  const responses = server.responses.map(({ route, status, count }): Sample => [
    { route, status },
    count,
  ]);
  const rejections = server.rejections.map(({ status, reason, count }): Sample => [
    { status, reason },
    count,
  ]);
  const { finishedExecutions, storageBytes, reclaimableBytes, pendingReclaims } = system;
  return [
    gauge('perdure_instances', 'Instances by status.', bySubject('status', system.instances)),
    gauge(
      'perdure_finished_executions',
      'Executions that continued as new and are not pruned.',
      finishedExecutions,
    ),
    gauge('perdure_paused_instances', 'Paused instances.', system.pausedInstances),
    gauge('perdure_paused_definitions', 'Paused definitions.', system.pausedDefinitions),
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
      unclaimed.map(({ kind, name, version, dueForMs }): Sample => [
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
  ].join('');
}

function bySubject(name: string, counts: Readonly<Record<string, number>>): readonly Sample[] {
  return Object.entries(counts).map(([subject, count]) => [{ [name]: subject }, count]);
}

function byStatus(workers: readonly WorkerInfo[]): readonly Sample[] {
  return (['live', 'stale'] as const).map((status): Sample => [
    { status },
    workers.filter((worker) => worker.status === status).length,
  ]);
}

function slotsOf(workers: readonly WorkerInfo[]): readonly Sample[] {
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

function gauge(name: string, help: string, value: number | readonly Sample[]): string {
  return metric(name, 'gauge', help, typeof value === 'number' ? [[{}, value]] : value);
}

function counter(name: string, help: string, samples: readonly Sample[]): string {
  return metric(name, 'counter', help, samples);
}

function metric(
  ...[name, type, help, samples]: readonly [string, 'gauge' | 'counter', string, readonly Sample[]]
): string {
  const lines = samples.map(([labels, value]) => `${name}${formatLabels(labels)} ${value}\n`);
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
}

function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

/** Escapes a label value as the text format of Prometheus requires: names of definitions may contain any character. */
function escapeLabel(value: string | number): string {
  return String(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
