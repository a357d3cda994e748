import type { AttemptLimit, WorkerDefinitions, WorkerRecord } from '../contract/workers.ts';

/** A row of `workers`, with its columns in camel case. */
export interface WorkerRow {
  readonly workerId: string;
  readonly processId: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly buildId: string;
  readonly activitySlots: number;
  readonly orchestrationSlots: number;
  readonly inUse: number;
  readonly leaked: number;
  readonly heartbeatMs: number;
  readonly startedAt: number;
  readonly lastSeenAt: number;
  readonly diedAt: number | null;
  /** `StoredDefinitions` as JSON text. */
  readonly definitions: string;
}

interface StoredDefinitions extends WorkerDefinitions {
  readonly attemptLimits: readonly AttemptLimit[];
}

/** The columns of a `WorkerRow`, for SELECT. */
export const workerColumns = `worker_id AS "workerId", process_id AS "processId", name, host, pid, build_id AS "buildId",
  activity_slots AS "activitySlots", orchestration_slots AS "orchestrationSlots", in_use AS "inUse", leaked,
  heartbeat_ms AS "heartbeatMs", started_at AS "startedAt", last_seen_at AS "lastSeenAt", died_at AS "diedAt",
  definitions`;

export function toWorkerRecord(row: WorkerRow): WorkerRecord {
  const { activitySlots, orchestrationSlots, inUse, definitions, ...rest } = row;
  return {
    ...rest,
    ...(JSON.parse(definitions) as StoredDefinitions),
    slots: { activities: activitySlots, orchestrations: orchestrationSlots, inUse },
  };
}

/** Encodes the definitions of a worker for its row. */
export function encodeDefinitions({
  orchestrations,
  activities,
  tasks,
  attemptLimits,
}: StoredDefinitions): string {
  return JSON.stringify({
    orchestrations: orchestrations.map(({ name, version }) => ({ name, version })),
    activities,
    tasks,
    attemptLimits: attemptLimits.map(({ kind, name, maxAttempts }) => ({
      kind,
      name,
      maxAttempts,
    })),
  });
}
