/** The parts of responses that describe operations on the store, its queues and its workers. */
import type { SeriesDurationInfo, SeriesMinute } from '../../client/reading/series.ts';
import type { SeriesDepth, SeriesDepths } from '../../providers/contract/series.ts';
import type { UnclaimedWorkInfo, WorkerInfo } from '../../client/reading/workers.ts';
import type { BulkPreview, BulkRefusal, BulkResult } from '../../management/bulk-call.ts';
import type { RetentionReport } from '../../management/retention-records.ts';
import type { DeleteInstanceResult, PruneResult } from '../../providers/contract/management.ts';
import {
  fields,
  flag,
  list,
  nullable,
  number,
  optional,
  record,
  text,
  type Check,
} from '../response-checks.ts';

export const deleted = {
  instancesDeleted: number,
  executionsDeleted: number,
  eventsDeleted: number,
  queueMessagesDeleted: number,
};
export const bulk: Check = fields<BulkResult>({
  matched: number,
  changed: number,
  refused: list(fields<BulkRefusal>({ id: text, code: text, reason: text })),
  refusedMore: number,
  done: flag,
  cursor: optional(text),
  preview: optional(
    fields<BulkPreview>({ byStatus: record(number), sample: list(text), capped: flag }),
  ),
});
export const pruned = {
  instancesProcessed: number,
  executionsDeleted: number,
  eventsDeleted: number,
};

export const report: Check = fields<RetentionReport>({
  startedAt: number,
  endedAt: number,
  sweeper: text,
  dryRun: flag,
  outcome: text,
  deleted: fields<DeleteInstanceResult>(deleted),
  pruned: fields<PruneResult>(pruned),
  left: number,
  errors: list(text),
});

const seriesDurations: Check = fields<SeriesDurationInfo>({
  count: number,
  sumMs: number,
  maxMs: number,
  p50Ms: optional(number),
  p95Ms: optional(number),
  buckets: list(
    fields<SeriesDurationInfo['buckets'][number]>({ upToMs: optional(number), count: number }),
  ),
});

const seriesDepth: Check = fields<SeriesDepth>({
  ready: number,
  delayed: number,
  claimed: number,
  oldestMs: nullable(number),
});

export const seriesMinute: Check = fields<SeriesMinute>({
  at: number,
  starts: number,
  ends: record(number),
  instances: seriesDurations,
  attempts: seriesDurations,
  waits: seriesDurations,
  depths: optional(
    fields<SeriesDepths>({
      orchestrations: seriesDepth,
      activities: seriesDepth,
      tasks: seriesDepth,
    }),
  ),
});

export const worker: Check = fields<WorkerInfo>({
  id: text,
  processId: optional(text),
  name: text,
  status: text,
  host: text,
  pid: number,
  buildId: text,
  orchestrations: list(fields<{ name: string; version: string }>({ name: text, version: text })),
  activities: list(text),
  tasks: list(text),
  slots: fields<WorkerInfo['slots']>({ activities: number, orchestrations: number, inUse: number }),
  leaked: number,
  startedAt: number,
  lastSeenAt: number,
  ageMs: number,
  heartbeatMs: number,
  diedAt: optional(number),
  definitionsOmitted: optional(flag),
});

export const unclaimed: Check = fields<UnclaimedWorkInfo>({
  kind: text,
  name: text,
  version: optional(text),
  dueForMs: number,
});
