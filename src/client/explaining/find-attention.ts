import { decodeFailure } from '../../model/failures/failure.ts';
import { decodeSchedule } from '../../schedules/schedule-definition.ts';
import type { ScheduleRecord } from '../../providers/contract/schedules.ts';
import type {
  Attention,
  BlockedFinding,
  FailedFinding,
  FailureGroup,
  FindingCount,
  LateSchedulesFinding,
  LeakedFinding,
  OldQueuesFinding,
  PausedDefinitionsFinding,
  StaleWorkersFinding,
  UnclaimedFinding,
} from './attention.ts';
import { toBlockedInfo, toPauseInfo } from '../reading/instance-info.ts';
import { runnerOf } from '../reading/queues.ts';
import { isHeldUp, recentMs, type AttentionReads } from './read-attention.ts';
import { summarizeWaits } from './why-summary.ts';

const maxExamples = 5;
const maxMessageLength = 300;
const lateMs = 60_000;
const oldMs = 60_000;

/** Who reads findings. Default: all definitions, and the workers. */
export interface AttentionViewer {
  readonly maySee: (name: string) => boolean;
  readonly seesWorkers: boolean;
}

const everything: AttentionViewer = { maySee: () => true, seesWorkers: true };

/** Derives the findings that a caller may see. */
export function findAttention(
  reads: AttentionReads,
  viewer: AttentionViewer = everything,
): Attention {
  const findings = [
    findBlocked(reads, viewer),
    findFailed(reads, viewer),
    findUnclaimed(reads, viewer),
    findLeaked(reads, viewer),
    findStaleWorkers(reads, viewer),
    findLateSchedules(reads, viewer),
    findOldQueues(reads, viewer),
    findPaused(reads, viewer),
  ].filter((finding) => finding.count > 0);
  return { at: reads.nowMs, findings };
}

function counted(times: readonly (number | null | undefined)[], hasMore = false): FindingCount {
  const known = times.filter((time) => time !== null && time !== undefined);
  return {
    count: times.length,
    ...(hasMore && { capped: true }),
    ...(known.length > 0 && { oldestAt: Math.min(...known) }),
  };
}

function findBlocked(
  { blocked, nowMs }: AttentionReads,
  { maySee }: AttentionViewer,
): BlockedFinding {
  const found = blocked.records.flatMap(({ instanceId, name, blocked: stored }) => {
    if (stored === null || !maySee(name)) return [];
    const info = toBlockedInfo(stored);
    const text = summarizeWaits([{ kind: 'blocked', ...info }], { nowMs });
    return [{ id: instanceId, name, at: info.at, text }];
  });
  return {
    kind: 'blocked',
    ...counted(
      found.map(({ at }) => at),
      blocked.hasMore,
    ),
    instances: found.toSorted((a, b) => a.at - b.at).slice(0, maxExamples),
  };
}

function findFailed({ failed }: AttentionReads, { maySee }: AttentionViewer): FailedFinding {
  const found = failed.records
    .filter(({ name }) => maySee(name))
    .map(({ instanceId: id, name, failure, endedAt, createdAt }) => {
      const { name: error, message, code } = decodeFailure(failure);
      return { id, name, error, message, code, at: endedAt ?? createdAt };
    });
  const groups = Map.groupBy(found, ({ name, error, code }) =>
    JSON.stringify([name, code ?? error]),
  );
  return {
    kind: 'failed',
    ...counted(
      found.map(({ at }) => at),
      failed.hasMore,
    ),
    groups: [...groups.values()]
      .flatMap((own): FailureGroup[] => {
        const [last] = own.toSorted((a, b) => b.at - a.at);
        if (last === undefined) return [];
        const { code, message, ...rest } = last;
        return [
          {
            ...rest,
            message: clip(message),
            ...(code !== undefined && { code }),
            count: own.length,
          },
        ];
      })
      .toSorted((a, b) => b.count - a.count || b.at - a.at)
      .slice(0, maxExamples),
  };
}

function findUnclaimed(
  { unclaimed, queues, nowMs }: AttentionReads,
  { maySee, seesWorkers }: AttentionViewer,
): UnclaimedFinding {
  const found = unclaimed.filter(
    ({ kind, name }) => maySee(name) && (seesWorkers || kind !== 'activity'),
  );
  const visible = queues
    .filter(({ kind }) => seesWorkers || kind !== 'activity')
    .map((queue) => ({ ...runnerOf(queue), ready: queue.ready }));
  return {
    kind: 'unclaimed',
    ...counted(found.map(({ dueForMs }) => nowMs - dueForMs)),
    work: found.slice(0, maxExamples).map((work) => {
      // Runs and calls of a task have separate queues.
      const waiting = visible
        .filter(({ kind, name }) => kind === work.kind && name === work.name)
        .reduce((sum, { ready }) => sum + ready, 0);
      return { ...work, waiting: Math.max(waiting, 1) };
    }),
  };
}

function findLeaked({ workers }: AttentionReads, { seesWorkers }: AttentionViewer): LeakedFinding {
  const found = seesWorkers
    ? workers.filter(({ status, leaked }) => status === 'live' && leaked > 0)
    : [];
  return {
    kind: 'leaked',
    count: found.reduce((sum, { leaked }) => sum + leaked, 0),
    workers: found
      .toSorted((a, b) => b.leaked - a.leaked)
      .slice(0, maxExamples)
      .map(({ id, name, leaked }) => ({ id, name, leaked })),
  };
}

function findStaleWorkers(
  { workers, nowMs }: AttentionReads,
  { seesWorkers }: AttentionViewer,
): StaleWorkersFinding {
  const found = seesWorkers
    ? workers.filter(
        ({ status, lastSeenAt }) => status === 'stale' && nowMs - lastSeenAt < recentMs,
      )
    : [];
  return {
    kind: 'staleWorkers',
    ...counted(found.map(({ lastSeenAt }) => lastSeenAt)),
    workers: found
      .toSorted((a, b) => b.lastSeenAt - a.lastSeenAt)
      .slice(0, maxExamples)
      .map(({ id, name, host, lastSeenAt, diedAt }) => ({
        id,
        name,
        host,
        lastSeenAt,
        ...(diedAt !== undefined && { diedAt }),
      })),
  };
}

function findLateSchedules(
  { schedules, liveRuns, nowMs }: AttentionReads,
  { maySee }: AttentionViewer,
): LateSchedulesFinding {
  const found = schedules
    .filter((schedule) => maySee(startedBy(schedule)))
    .flatMap((schedule): LateSchedulesFinding['schedules'] => {
      const { name, paused, nextAt, lastInstanceId, lastTickAt, bufferedTicks, skippedTicks } =
        schedule;
      if (paused) return [];
      const details = {
        name,
        ...(lastInstanceId !== null && { lastInstanceId }),
        ...(skippedTicks > 0 && { skippedTicks }),
      };
      if (nextAt !== null && nowMs - nextAt > lateMs) {
        return [{ ...details, reason: 'late', since: nextAt }];
      }
      if (!isHeldUp(schedule) || !liveRuns.has(lastInstanceId ?? '')) return [];
      const since = bufferedTicks[0] ?? lastTickAt ?? nowMs;
      return [{ ...details, reason: 'overlap', since }];
    });
  return {
    kind: 'lateSchedules',
    ...counted(found.map(({ since }) => since)),
    schedules: found.toSorted((a, b) => a.since - b.since).slice(0, maxExamples),
  };
}

/** The name of the definition that a schedule starts; empty if it is damaged. */
function startedBy({ name, definition }: ScheduleRecord): string {
  try {
    return decodeSchedule(name, definition).target.name;
  } catch {
    return '';
  }
}

function findOldQueues(
  { queues, nowMs }: AttentionReads,
  { maySee, seesWorkers }: AttentionViewer,
): OldQueuesFinding {
  const found = queues.filter(
    ({ kind, name, oldestReadyAt, workers }) =>
      workers > 0 &&
      oldestReadyAt !== null &&
      nowMs - oldestReadyAt > oldMs &&
      maySee(name) &&
      (seesWorkers || kind !== 'activity'),
  );
  return {
    kind: 'oldQueues',
    ...counted(found.map(({ oldestReadyAt }) => oldestReadyAt)),
    queues: found.slice(0, maxExamples),
  };
}

function findPaused(
  { paused }: AttentionReads,
  { maySee }: AttentionViewer,
): PausedDefinitionsFinding {
  const found = paused.filter(({ name }) => maySee(name));
  return {
    kind: 'pausedDefinitions',
    ...counted(found.map(({ at }) => at)),
    definitions: found
      .slice(0, maxExamples)
      .map(({ kind, name, ...pause }) => ({ kind, name, ...toPauseInfo(pause) })),
  };
}

function clip(text: string): string {
  if (text.length <= maxMessageLength) return text;
  return `${text.slice(0, maxMessageLength).toWellFormed()}…`;
}
