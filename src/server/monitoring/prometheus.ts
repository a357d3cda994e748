import type {
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from '../../providers/contract/management.ts';
import type { ServerMetrics } from './server-metrics.ts';

type Labels = Readonly<Record<string, string | number>>;
type Sample = readonly [labels: Labels, value: number];

/** Writes figures in the text format of Prometheus. */
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
      'Executions that continued as new and were not pruned.',
      [[{}, system.finishedExecutions]],
    ),
    metric('perdure_storage_bytes', 'gauge', 'What the store takes up.', [
      [{}, system.storageBytes],
    ]),
    metric('perdure_reclaimable_bytes', 'gauge', 'What a vacuum could give back.', [
      [{}, system.reclaimableBytes],
    ]),
    metric(
      'perdure_pending_reclaims',
      'gauge',
      'Rows of deleted instances that are to be taken away.',
      [[{}, system.pendingReclaims]],
    ),
    metric('perdure_queue_depth', 'gauge', 'Entries of the queues.', byState),
    metric(
      'perdure_queue_oldest_ready_seconds',
      'gauge',
      'How long the entry that may be claimed has waited longest.',
      depths.map(([queue, depth]) => [{ queue }, ageOf(depth, nowMs)]),
    ),
    metric('perdure_queue_messages', 'gauge', 'Messages to instances, timers included.', [
      [{}, queues.messages],
    ]),
    metric(
      'perdure_server_under_way',
      'gauge',
      'What the server is doing right now.',
      server.gauges.map(([what, value]) => [{ what }, value]),
    ),
    metric(
      'perdure_server_answers_total',
      'counter',
      'Answers of the server by route and status.',
      server.responses.map(({ route, status, count }) => [{ route, status }, count]),
    ),
    metric(
      'perdure_server_refused_total',
      'counter',
      'Requests refused with 401 or 403, by status and reason.',
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

// Names and labels here are ours: none of them needs escaping. The four parts of a metric are its line format.
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
