import { decodeEvent, type HistoryEvent } from '../../model/event.ts';
import type { Failure } from '../../model/failures/failure.ts';
import { PerdureError, notFound } from '../../model/failures/errors.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { EventView, ReadEventsParams, ViewedEvent } from '../../providers/contract/views.ts';
import type { HistoryCall, HistoryEntry, HistoryPage } from './history.ts';
import { maxPageBytes } from './instance-list.ts';

/** Options of a history page for viewers, checked. */
export interface HistoryViewCall extends HistoryCall {
  /** Exclusive. `undefined`: from the end of the order. */
  readonly before?: number | undefined;
  readonly order: 'asc' | 'desc';
  readonly kinds?: readonly string[] | undefined;
  readonly operation?: number | undefined;
  readonly payloads: 'none' | 'head' | 'full';
  readonly headBytes: number;
}

/** Whether a call needs the read for viewers. */
export function isView(call: HistoryCall): call is HistoryViewCall {
  return 'order' in call;
}

// A page examines at most this many events: about 10 ms on SQLite, which blocks the event loop.
export const maxScannedEvents = 5_000;

/** Reads one page of a history in either order, filtered, with whole payloads, heads or none. */
export async function readHistoryView(
  provider: Provider,
  instanceId: string,
  call: HistoryViewCall,
): Promise<HistoryPage> {
  const { order, limit, after, before } = call;
  const start = order === 'asc' ? after : before;
  const view = await readView(provider, instanceId, {
    ...(call.executionId !== undefined && { executionId: call.executionId }),
    order,
    ...(start !== undefined && { from: start }),
    limit,
    maxScanned: maxScannedEvents,
    ...(call.kinds !== undefined && { kinds: call.kinds }),
    ...(call.operation !== undefined && { dataIncludes: textsOf(call.operation) }),
    ...headOf(call),
    maxBytes: maxPageBytes,
  });
  const entries = toEntries(view, instanceId, call.payloads);
  const items = entries.filter(({ id, event }) => {
    if (order === 'asc' ? before !== undefined && id >= before : id <= after) return false;
    return call.operation === undefined || operationOf(event) === call.operation;
  });
  const page = { executionId: view.executionId, items };
  const { next } = view;
  if (next === null) return page;
  if (order === 'desc') return next <= after + 1 ? page : { ...page, nextBefore: next };
  return before !== undefined && next >= before - 1 ? page : { ...page, nextAfter: next };
}

/** Reads a page of events. Throws if the instance or the execution does not exist. */
export async function readView(
  provider: Provider,
  instanceId: string,
  params: Omit<ReadEventsParams, 'instanceId'>,
): Promise<EventView> {
  const view = await provider.readEvents({ instanceId, ...params });
  if (view === undefined) throw notFound(instanceId);
  if (view.exists) return view;
  throw new PerdureError(
    'INVALID_INPUT',
    `Instance ${JSON.stringify(instanceId)} has no execution ${view.executionId}: the current one is ${view.currentExecutionId}, and others may have been pruned. List them with listExecutions().`,
  );
}

/** The `headBytes` of a read for a payload mode. */
export function headOf({
  payloads,
  headBytes,
}: Pick<HistoryViewCall, 'payloads' | 'headBytes'>): Pick<ReadEventsParams, 'headBytes'> {
  if (payloads === 'full') return {};
  return { headBytes: payloads === 'none' ? 0 : headBytes };
}

/** Decodes the events of a page. */
export function toEntries(
  { events, executionId }: EventView,
  instanceId: string,
  payloads: HistoryViewCall['payloads'],
): readonly HistoryEntry[] {
  return events.map((stored) => {
    const { eventId: id, payloadBytes } = stored;
    const event = decode(stored, { instanceId, executionId });
    if (payloads === 'full') return { id, event };
    return { id, event: withoutDetails(event), ...(payloadBytes !== null && { payloadBytes }) };
  });
}

function decode(
  stored: ViewedEvent,
  of: { readonly instanceId: string; readonly executionId: number },
): HistoryEvent {
  try {
    return decodeEvent(stored);
  } catch (cause) {
    throw new PerdureError(
      'UNDECODABLE',
      `Event ${stored.eventId} of execution ${of.executionId} of instance ${JSON.stringify(of.instanceId)} cannot be decoded. Continue beyond it: pass its id as \`after\` or \`before\`.`,
      { cause },
    );
  }
}

const maxMessageLength = 1_000;

/** Shortens the fields of an event that may be large: failures and carried events. */
function withoutDetails(event: HistoryEvent): HistoryEvent {
  if ('failure' in event) return { ...event, failure: summarize(event.failure) };
  if ('carried' in event && event.carried !== undefined) {
    return { ...event, carried: event.carried.map(({ name }) => ({ name, payload: null })) };
  }
  return event;
}

function summarize({ name, message, code, attempts, nonRetryable }: Failure): Failure {
  return {
    name,
    message: message.slice(0, maxMessageLength).toWellFormed(),
    ...(code !== undefined && { code }),
    ...(attempts !== undefined && { attempts }),
    ...(nonRetryable !== undefined && { nonRetryable }),
  };
}

/** The number of the operation that an event belongs to. */
export function operationOf(event: HistoryEvent): number | undefined {
  if ('operation' in event) return event.operation;
  return event.kind === 'operationWithdrawn' ? event.target : undefined;
}

// The texts that the stored JSON of an operation's events contains. Others may contain them too, in nested values.
function textsOf(operation: number): readonly string[] {
  return ['operation', 'target'].flatMap((key) => [
    `"${key}":${operation},`,
    `"${key}":${operation}}`,
  ]);
}
