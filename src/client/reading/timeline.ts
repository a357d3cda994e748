import type { HistoryEvent } from '../../model/event.ts';
import { readFields, invalid } from '../../model/option-fields.ts';
import { readExecutionId } from './history.ts';

/** Options of `timeline`. */
export interface TimelineOptions {
  /** Default: the current execution. */
  readonly executionId?: number | undefined;
  /** Only events with a greater id. Default 0. */
  readonly after?: number | undefined;
  /** Maximum events to read, 1 to 100,000. Default 50,000. */
  readonly limit?: number | undefined;
}

/** An operation of an execution, without payloads. All times are milliseconds since the epoch. */
export interface TimelineItem {
  readonly operation: number;
  readonly kind:
    | 'activity'
    | 'step'
    | 'timer'
    | 'event'
    | 'child'
    | 'detached'
    | 'awakeable'
    | 'status'
    | 'state';
  readonly name?: string;
  readonly childId?: string;
  /** When the code issued it. Absent if that event is before the page. */
  readonly startedAt?: number;
  /** When a worker claimed the last attempt of an activity. */
  readonly claimedAt?: number;
  /** When a timer is due. */
  readonly fireAt?: number;
  /** When its outcome was recorded. Of a wait for an event: when it got the event. */
  readonly endedAt?: number;
  readonly outcome?: 'completed' | 'failed' | 'canceled';
  /** The number of attempts of a failed activity. */
  readonly attempts?: number;
  readonly worker?: string;
  /** The name and message of a failure, or the reason of a cancel. */
  readonly reason?: string;
  /** When the code stopped waiting for it. */
  readonly withdrawnAt?: number;
}

/** A moment of an execution: its start and end, an external event, an update, a cancel request. */
export interface TimelineMark {
  /** The id of the event. */
  readonly id: number;
  readonly kind: HistoryEvent['kind'];
  readonly at: number;
  readonly name?: string;
}

/** The operations of an execution. An operation whose events are on several pages is on each of them. */
export interface Timeline {
  readonly executionId: number;
  /** In the order of their operation numbers. */
  readonly items: readonly TimelineItem[];
  readonly marks: readonly TimelineMark[];
  /** The `after` of the next page; absent if there are no more events yet. */
  readonly nextAfter?: number;
}

/** Options of `timeline`, checked. */
export interface TimelineCall {
  readonly executionId?: number | undefined;
  readonly after: number;
  readonly limit: number;
}

/** Maximum events behind one response of a server. */
export const maxTimelinePage = 10_000;

export function readTimelineOptions(options: unknown): TimelineCall {
  const keys = ['executionId', 'after', 'limit'] as const;
  const { executionId, after = 0, limit = 50_000 } = readFields(options, 'timeline()', keys);
  const isCount = (value: unknown, min: number, max: number): value is number =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
  if (!isCount(after, 0, Number.MAX_SAFE_INTEGER)) {
    throw invalid('after', after, 'a whole number of 0 or more');
  }
  if (!isCount(limit, 1, 100_000)) {
    throw invalid('limit', limit, 'a whole number from 1 to 100,000');
  }
  return { executionId: readExecutionId(executionId), after, limit };
}

/** Reads pages until `limit` events were read or there are no more. */
export async function readWholeTimeline(
  backend: { readonly timeline: (id: string, call: TimelineCall) => Promise<Timeline> },
  id: string,
  { limit, ...call }: TimelineCall,
): Promise<Timeline> {
  const pages: Timeline[] = [];
  const end = call.after + limit;
  let { executionId, after } = call;
  for (;;) {
    const page = await backend.timeline(id, { executionId, after, limit: end - after });
    pages.push(page);
    // Later pages are of the same execution, even if it ends meanwhile.
    executionId = page.executionId;
    if (page.nextAfter === undefined || page.nextAfter >= end) break;
    after = page.nextAfter;
  }
  return joinTimelines(pages) ?? { executionId: executionId ?? 1, items: [], marks: [] };
}

/** Joins the pages of one execution. Operations that are on several pages become one. */
function joinTimelines(pages: readonly Timeline[]): Timeline | undefined {
  const [first] = pages;
  const last = pages.at(-1);
  if (first === undefined || last === undefined) return undefined;
  const items = new Map<number, TimelineItem>();
  for (const { items: parts } of pages) {
    for (const item of parts) {
      const known = items.get(item.operation);
      items.set(item.operation, known === undefined ? item : { ...known, ...item });
    }
  }
  const { nextAfter } = last;
  return {
    executionId: first.executionId,
    items: [...items.values()].toSorted((one, other) => one.operation - other.operation),
    marks: pages.flatMap((page) => page.marks),
    ...(nextAfter !== undefined && { nextAfter }),
  };
}
