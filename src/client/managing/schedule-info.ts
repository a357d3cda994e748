import type { ScheduleRecord } from '../../providers/contract/schedules.ts';
import type { CatchUp } from '../../schedules/ticks.ts';
import { decodeSchedule } from '../../schedules/schedule-definition.ts';

/** What is known of a schedule. All times are milliseconds since the epoch. */
export interface ScheduleInfo {
  readonly name: string;
  readonly paused: boolean;
  /** The next tick; absent when there is none left. */
  readonly nextAt?: number;
  readonly lastTickAt?: number;
  /** What the last tick started. */
  readonly lastInstanceId?: string;
  /** Why the last tick could start nothing. */
  readonly lastError?: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Absent when it cannot be decoded, because the store was damaged. */
  readonly definition?: {
    readonly cron?: string;
    readonly timeZone?: string;
    readonly everyMs?: number;
    readonly startAt?: number;
    readonly endAt?: number;
    readonly catchUp: CatchUp;
    readonly starts: { readonly kind: 'task' | 'orchestration'; readonly name: string };
  };
}

/** Decodes a record. One damaged schedule does not hide a page of good ones. */
export function toScheduleInfo(record: ScheduleRecord): ScheduleInfo {
  const definition = readDefinition(record);
  return {
    name: record.name,
    paused: record.paused,
    ...(record.nextAt !== null && { nextAt: record.nextAt }),
    ...(record.lastTickAt !== null && { lastTickAt: record.lastTickAt }),
    ...(record.lastInstanceId !== null && { lastInstanceId: record.lastInstanceId }),
    ...(record.lastError !== null && { lastError: record.lastError }),
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
    ...(definition !== undefined && { definition }),
  };
}

function readDefinition(record: ScheduleRecord): ScheduleInfo['definition'] | undefined {
  try {
    const { timing, startAt, endAt, catchUp, target } = decodeSchedule(
      record.name,
      record.definition,
    );
    return {
      ...(timing.kind === 'cron'
        ? { cron: timing.expression, timeZone: timing.timeZone }
        : { everyMs: timing.everyMs }),
      ...(startAt !== undefined && { startAt }),
      ...(endAt !== undefined && { endAt }),
      catchUp,
      starts: { kind: target.kind, name: target.name },
    };
  } catch {
    return undefined;
  }
}
