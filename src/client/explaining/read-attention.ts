import { withoutCalls } from '../managing/task-pauses.ts';
import { isTerminal } from '../../model/status.ts';
import type { InstanceConditions, InstanceRecord } from '../../providers/contract/instances.ts';
import type { PausedDefinition } from '../../providers/contract/pausing.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { ScheduleRecord } from '../../providers/contract/schedules.ts';
import { maxPageBytes } from '../reading/instance-list.ts';
import { listQueues, type DefinitionQueueInfo } from '../reading/queues.ts';
import {
  findUnclaimedWork,
  listWorkers,
  type UnclaimedWorkInfo,
  type WorkerInfo,
} from '../reading/workers.ts';

const maxInstances = 1_000;
const maxPages = 5;
const maxSchedules = 1_000;
/** Failures and lost workers of this time need attention, in milliseconds. */
export const recentMs = 3_600_000;

/** Instances that match a condition, up to 1,000. */
interface InstancesRead {
  readonly records: readonly InstanceRecord[];
  readonly hasMore: boolean;
}

/** The reads that findings are derived from. They do not depend on the caller. */
export interface AttentionReads {
  readonly nowMs: number;
  readonly blocked: InstancesRead;
  readonly failed: InstancesRead;
  readonly workers: readonly WorkerInfo[];
  readonly unclaimed: readonly UnclaimedWorkInfo[];
  readonly queues: readonly DefinitionQueueInfo[];
  readonly paused: readonly PausedDefinition[];
  readonly schedules: readonly ScheduleRecord[];
  /** The last runs of schedules with skipped or waiting ticks that have not ended. */
  readonly liveRuns: ReadonlySet<string>;
}

/** Reads what may need attention. The number of statements does not depend on the number of problems. */
export async function readAttention(
  provider: Provider,
  queues: () => Promise<readonly DefinitionQueueInfo[]> = () => listQueues(provider),
): Promise<AttentionReads> {
  const { nowMs } = await provider.listWorkers();
  const [blocked, failed, workers, unclaimed, queued, paused, schedules] = await Promise.all([
    readInstances(provider, { blocked: true }),
    readInstances(provider, { status: ['failed'], endedFrom: nowMs - recentMs }),
    listWorkers(provider),
    findUnclaimedWork(provider),
    queues(),
    provider.listPausedDefinitions().then(withoutCalls),
    provider.listSchedules({ limit: maxSchedules, maxBytes: maxPageBytes }),
  ]);
  const waiting = schedules.filter(isHeldUp).flatMap(({ lastInstanceId }) => lastInstanceId ?? []);
  const runs = await provider.readVersions(waiting.slice(0, maxInstances));
  const live = runs.filter((run) => run !== undefined && !isTerminal(run.status));
  return {
    nowMs,
    blocked,
    failed,
    workers,
    unclaimed,
    queues: queued,
    paused,
    schedules: schedules.filter(({ withheld }) => withheld !== true),
    liveRuns: new Set(live.flatMap((run) => run?.instanceId ?? [])),
  };
}

async function readInstances(
  provider: Provider,
  filter: InstanceConditions,
): Promise<InstancesRead> {
  const records: InstanceRecord[] = [];
  let beforeKey: number | null = null;
  // A page may be short before the last one: it examines a bounded number of rows.
  for (let page = 0; page < maxPages; page += 1) {
    const { instances, nextKey } = await provider.listInstances({
      filter,
      limit: maxInstances - records.length,
      payloads: false,
      maxBytes: maxPageBytes,
      ...(beforeKey !== null && { beforeKey }),
    });
    records.push(...instances);
    beforeKey = nextKey;
    if (beforeKey === null || records.length >= maxInstances) break;
  }
  return { records, hasMore: beforeKey !== null };
}

/** Whether ticks were skipped or wait because of a run. */
export function isHeldUp({ paused, bufferedTicks, skippedTicks }: ScheduleRecord): boolean {
  return !paused && (bufferedTicks.length > 0 || skippedTicks > 0);
}
