import type { HistoryEvent } from '../../model/event.ts';
import type { RecordedChild } from '../../model/kept-history.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { EventView } from '../../providers/contract/views.ts';
import { findChildIds } from './child-ids.ts';
import { EventWaits } from './event-waits.ts';
import { maxScannedEvents, operationOf, readView, toEntries } from './history-view.ts';
import { maxPageBytes } from './instance-list.ts';
import type { Timeline, TimelineCall, TimelineItem, TimelineMark } from './timeline.ts';

/** Reads the timeline of an execution, in slices that do not block the event loop. */
export async function readTimeline(
  provider: Provider,
  instanceId: string,
  { executionId, after, limit }: TimelineCall,
): Promise<Timeline> {
  const entries: Entry[] = [];
  let left = limit;
  let from: number | null = after;
  let found: number | undefined = executionId;
  while (from !== null && left > 0) {
    const view = await readView(provider, instanceId, {
      ...(found !== undefined && { executionId: found }),
      ...slice,
      from,
      limit: Math.min(left, maxScannedEvents),
    });
    // Later slices are of the same execution, even if it ends meanwhile.
    found = view.executionId;
    for (const { id, event } of toEntries(view, instanceId, 'none')) entries.push({ id, event });
    left -= view.events.length;
    from = view.next;
  }
  const execution = { instanceId, executionId: found ?? 1 };
  const hasWaits = entries.some(({ event }) => waitKinds.has(event.kind));
  const waits =
    hasWaits && after > 0 ? await readWaits(provider, execution, after) : new EventWaits();
  const builder = new TimelineBuilder(waits);
  for (const { id, event } of entries) builder.add(id, event);
  const page = await builder.toTimeline(provider, execution);
  return from === null ? page : { ...page, nextAfter: from };
}

interface Entry {
  readonly id: number;
  readonly event: HistoryEvent;
}

interface Execution {
  readonly instanceId: string;
  readonly executionId: number;
}

const slice = {
  order: 'asc',
  maxScanned: maxScannedEvents,
  headBytes: 0,
  maxBytes: maxPageBytes,
} as const;

const waitKinds: ReadonlySet<HistoryEvent['kind']> = new Set(['eventAwaited', 'eventReceived']);

/** Matches external events with waits up to an event, so that a later page can end the waits of earlier ones. */
async function readWaits(
  provider: Provider,
  { instanceId, executionId }: Execution,
  to: number,
): Promise<EventWaits> {
  const waits = new EventWaits();
  let from: number | null = 0;
  while (from !== null && from < to) {
    const view: EventView = await readView(provider, instanceId, {
      ...slice,
      executionId,
      kinds: ['executionStarted', 'eventAwaited', 'eventReceived', 'operationWithdrawn'],
      from,
      limit: maxScannedEvents,
    });
    for (const { id, event } of toEntries(view, instanceId, 'none')) {
      if (id <= to) matchEvent(waits, event);
    }
    from = view.next;
  }
  return waits;
}

/** Returns the operation of a wait that the event ends. */
function matchEvent(waits: EventWaits, event: HistoryEvent): number | undefined {
  switch (event.kind) {
    case 'executionStarted':
      for (const { name } of event.carried ?? []) waits.arrive(name);
      return undefined;
    case 'eventAwaited':
      return waits.wait(event.name, event.operation) ? undefined : event.operation;
    case 'eventReceived':
      return waits.arrive(event.name);
    case 'operationWithdrawn':
      waits.withdraw(event.target);
      return undefined;
    default:
      return undefined;
  }
}

const kinds: Readonly<Partial<Record<HistoryEvent['kind'], TimelineItem['kind']>>> = {
  activityScheduled: 'activity',
  activityCompleted: 'activity',
  activityFailed: 'activity',
  activityCanceled: 'activity',
  stepCompleted: 'step',
  stepFailed: 'step',
  stepRetried: 'step',
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
  awakeableCreated: 'awakeable',
  awakeableResolved: 'awakeable',
  awakeableRejected: 'awakeable',
  customStatusSet: 'status',
  stateSet: 'state',
};

/** Folds events into operations. */
class TimelineBuilder {
  readonly #items = new Map<number, TimelineItem>();
  readonly #marks: TimelineMark[] = [];
  readonly #children: RecordedChild[] = [];
  readonly #waits: EventWaits;

  /** `waits`: the state before the first event. */
  constructor(waits: EventWaits) {
    this.#waits = waits;
  }

  add(id: number, event: HistoryEvent): void {
    this.#addOperation(id, event);
    const ended = matchEvent(this.#waits, event);
    if (ended === undefined) return;
    const known: TimelineItem = this.#items.get(ended) ?? { operation: ended, kind: 'event' };
    const name = 'name' in event ? { name: event.name } : {};
    this.#items.set(ended, { ...known, ...name, endedAt: event.at, outcome: 'completed' });
  }

  #addOperation(id: number, event: HistoryEvent): void {
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
    else Object.assign(known, partOf(event), startOf(known));
    if (event.kind === 'childScheduled') {
      this.#children.push({ operation, childId: event.childId, issuedAt: id });
    }
  }

  async toTimeline(provider: Provider, execution: Execution): Promise<Timeline> {
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
    case 'awakeableCreated':
      return { startedAt: at };
    case 'timerCreated':
      return { startedAt: at, fireAt: event.fireAt };
    case 'stateSet':
      return { name: event.key, startedAt: at, endedAt: at, outcome: 'completed' };
    case 'customStatusSet':
      return { startedAt: at, endedAt: at, outcome: 'completed' };
    case 'operationWithdrawn': {
      const { reason, name } = event;
      return { withdrawnAt: at, reason, ...(name !== undefined && { name }) };
    }
    case 'stepCompleted':
      return { ...stepOf(event), endedAt: at, outcome: 'completed' };
    case 'stepRetried': {
      const { name, message } = event.failure;
      return { ...stepOf(event), reason: `${name}: ${message}`, attempts: event.attempts };
    }
    case 'activityCompleted':
      return { ...ranBy(event), endedAt: at, outcome: 'completed' };
    case 'timerFired':
    case 'childCompleted':
    case 'detachedConfirmed':
    case 'awakeableResolved':
      return { endedAt: at, outcome: 'completed' };
    case 'activityFailed':
    case 'stepFailed':
    case 'childFailed':
    case 'detachedFailed':
    case 'awakeableRejected': {
      const { name, message, attempts } = event.failure;
      return {
        ...(event.kind === 'activityFailed' && ranBy(event)),
        ...(event.kind === 'stepFailed' && stepOf(event)),
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

/** The first start that is known. No event records when a step was issued. */
function startOf({ startedAt }: TimelineItem): Partial<TimelineItem> {
  return startedAt === undefined ? {} : { startedAt };
}

function stepOf(event: {
  readonly name: string;
  readonly at: number;
  readonly worker?: string;
  readonly startedAt?: number;
}): Partial<TimelineItem> {
  return { name: event.name, startedAt: event.startedAt ?? event.at, ...ranBy(event) };
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
