import type {
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from '../../providers/contract/management.ts';
import type { ServerMetrics } from './server-metrics.ts';

type Labels = Readonly<Record<string, string | number>>;
type Sample = readonly [labels: Labels, value: number];

/** Formats metrics in the text format of Prometheus. */
export function toPrometheus(params: {
  readonly system: SystemMetrics;
  readonly queues: QueueDepths;
  readonly server: ServerMetrics;
  readonly nowMs: number;
}): string {
  const { system, queues, server, nowMs } = params;
  const depths = (['orchestrations', 'activities', 'tasks'] as const).map(
    (queue) => [queue, queues[queue]] as const,
  );
  const byState = depths.flatMap(([queue, depth]): readonly Sample[] =>
    (['ready', 'delayed', 'claimed'] as const).map((state) => [{ queue, state }, depth[state]]),
  );
  return [
    metric(
      'perdure_instances',
      'gauge',
      'Instances by status.',
      bySubject('status', system.instances),
    ),
    metric(
      'perdure_finished_executions',
      'gauge',
      'Executions that continued as new and are not pruned.',
      [[{}, system.finishedExecutions]],
    ),
    metric('perdure_storage_bytes', 'gauge', 'Size of the store, in bytes.', [
      [{}, system.storageBytes],
    ]),
    metric('perdure_reclaimable_bytes', 'gauge', 'Bytes that a vacuum could reclaim.', [
      [{}, system.reclaimableBytes],
    ]),
    metric('perdure_pending_reclaims', 'gauge', 'Rows of deleted instances that await deletion.', [
      [{}, system.pendingReclaims],
    ]),
    metric('perdure_queue_depth', 'gauge', 'Queue entries by queue and state.', byState),
    metric(
      'perdure_queue_oldest_ready_seconds',
      'gauge',
      'Age of the oldest claimable entry, in seconds.',
      depths.map(([queue, depth]) => [{ queue }, ageOf(depth, nowMs)]),
    ),
    metric('perdure_queue_messages', 'gauge', 'Messages to instances, including timers.', [
      [{}, queues.messages],
    ]),
    metric(
      'perdure_server_under_way',
      'gauge',
      'Current load of the server: requests, streams and bytes.',
      server.gauges.map(([what, value]) => [{ what }, value]),
    ),
    metric(
      'perdure_server_answers_total',
      'counter',
      'Responses by route and status.',
      server.responses.map(({ route, status, count }) => [{ route, status }, count]),
    ),
    metric(
      'perdure_server_refused_total',
      'counter',
      'Requests rejected with 401 or 403, by status and reason.',
      server.rejections.map(({ status, reason, count }) => [{ status, reason }, count]),
    ),
  ].join('');
}

function bySubject(name: string, counts: Readonly<Record<string, number>>): readonly Sample[] {
  return Object.entries(counts).map(([subject, count]) => [{ [name]: subject }, count]);
}

function ageOf({ oldestReadyAt }: QueueDepth, nowMs: number): number {
  return oldestReadyAt === null ? 0 : Math.max(0, nowMs - oldestReadyAt) / 1_000;
}

// No name or label value needs escaping: none comes from a user.
function metric(
  ...[name, type, help, samples]: readonly [string, 'gauge' | 'counter', string, readonly Sample[]]
): string {
  const lines = samples.map(([labels, value]) => `${name}${formatLabels(labels)} ${value}\n`);
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
}

function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}
