import type { HistoryEvent } from '../../model/event.ts';
import type { RecordedChild } from '../../model/kept-history.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { findChildIds } from './child-ids.ts';
import { maxScannedEvents, operationOf, readView, toEntries } from './history-view.ts';
import { maxPageBytes } from './instance-list.ts';
import type { Timeline, TimelineCall, TimelineItem, TimelineMark } from './timeline.ts';

/** Reads the timeline of an execution, in slices that do not block the event loop. */
export async function readTimeline(
  provider: Provider,
  instanceId: string,
  { executionId, after, limit }: TimelineCall,
): Promise<Timeline> {
  const builder = new TimelineBuilder();
  let left = limit;
  let from: number | null = after;
  let found: number | undefined = executionId;
  while (from !== null && left > 0) {
    const view = await readView(provider, instanceId, {
      ...(found !== undefined && { executionId: found }),
      order: 'asc',
      from,
      limit: Math.min(left, maxScannedEvents),
      maxScanned: maxScannedEvents,
      headBytes: 0,
      maxBytes: maxPageBytes,
    });
    // Later slices are of the same execution, even if it ends meanwhile.
    found = view.executionId;
    for (const { id, event } of toEntries(view, instanceId, 'none')) builder.add(id, event);
    left -= view.events.length;
    from = view.next;
  }
  const page = await builder.toTimeline(provider, { instanceId, executionId: found ?? 1 });
  return from === null ? page : { ...page, nextAfter: from };
}

const kinds: Readonly<Partial<Record<HistoryEvent['kind'], TimelineItem['kind']>>> = {
  activityScheduled: 'activity',
  activityCompleted: 'activity',
  activityFailed: 'activity',
  activityCanceled: 'activity',
  timerCreated: 'timer',
  timerFired: 'timer',
  eventAwaited: 'event',
  childScheduled: 'child',
  childCompleted: 'child',
  childFailed: 'child',
  childCanceled: 'child',
  detachedStarted: 'detached',
  detachedConfirmed: 'detached',
  detachedFailed: 'detached',
  customStatusSet: 'status',
};

/** Folds events into operations. */
class TimelineBuilder {
  readonly #items = new Map<number, TimelineItem>();
  readonly #marks: TimelineMark[] = [];
  readonly #children: RecordedChild[] = [];

  add(id: number, event: HistoryEvent): void {
    const operation = operationOf(event);
    if (operation === undefined) {
      const name = 'name' in event ? { name: event.name } : {};
      this.#marks.push({ id, kind: event.kind, at: event.at, ...name });
      return;
    }
    const kind = event.kind === 'operationWithdrawn' ? event.targetKind : kinds[event.kind];
    if (kind === undefined) return;
    const known = this.#items.get(operation);
    if (known === undefined) this.#items.set(operation, { operation, kind, ...partOf(event) });
    else Object.assign(known, partOf(event));
    if (event.kind === 'childScheduled') {
      this.#children.push({ operation, childId: event.childId, issuedAt: id });
    }
  }

  async toTimeline(
    provider: Provider,
    execution: { readonly instanceId: string; readonly executionId: number },
  ): Promise<Timeline> {
    const ids = await findChildIds(provider, execution, this.#children);
    for (const [operation, childId] of ids) {
      const item = this.#items.get(operation);
      if (item !== undefined) this.#items.set(operation, { ...item, childId });
    }
    const { executionId } = execution;
    return { executionId, items: [...this.#items.values()], marks: this.#marks };
  }
}

function partOf(event: HistoryEvent): Partial<TimelineItem> {
  const { at } = event;
  switch (event.kind) {
    case 'activityScheduled':
    case 'eventAwaited':
      return { name: event.name, startedAt: at };
    case 'childScheduled':
    case 'detachedStarted':
      return { name: event.name, childId: event.childId, startedAt: at };
    case 'timerCreated':
      return { startedAt: at, fireAt: event.fireAt };
    case 'customStatusSet':
      return { startedAt: at, endedAt: at, outcome: 'completed' };
    case 'operationWithdrawn':
      return { withdrawnAt: at, reason: event.reason };
    case 'activityCompleted':
      return { ...ranBy(event), endedAt: at, outcome: 'completed' };
    case 'timerFired':
    case 'childCompleted':
    case 'detachedConfirmed':
      return { endedAt: at, outcome: 'completed' };
    case 'activityFailed':
    case 'childFailed':
    case 'detachedFailed': {
      const { name, message, attempts } = event.failure;
      return {
        ...(event.kind === 'activityFailed' && ranBy(event)),
        endedAt: at,
        outcome: 'failed',
        reason: `${name}: ${message}`,
        ...(attempts !== undefined && { attempts }),
      };
    }
    case 'activityCanceled':
      return { ...ranBy(event), endedAt: at, outcome: 'canceled', reason: event.reason };
    case 'childCanceled':
      return { endedAt: at, outcome: 'canceled', reason: event.reason };
    default:
      return {};
  }
}

function ranBy({
  worker,
  startedAt,
}: {
  readonly worker?: string;
  readonly startedAt?: number;
}): Partial<TimelineItem> {
  return {
    ...(worker !== undefined && { worker }),
    ...(startedAt !== undefined && { claimedAt: startedAt }),
  };
}
