import { notFound } from '../../model/failures/errors.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import { isTerminal } from '../../model/status.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { EventView } from '../../providers/contract/views.ts';
import { headOf, toEntries } from '../reading/history-view.ts';
import type { HistoryEntry } from '../reading/history.ts';
import { readPayloadOptions, type PayloadOptions } from '../reading/payload-options.ts';
import type { InstanceWatch } from './instance-watch.ts';

/** Options of `watchHistory`. */
export interface WatchHistoryOptions extends PayloadOptions {
  /** The `position` of the last known event. Default: the start of the current execution. */
  readonly after?: string | undefined;
  /** Ends the watch: it throws the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** An event of any execution of an instance. */
export interface WatchedEvent extends HistoryEntry {
  readonly executionId: number;
  /** Identifies the event among all executions: `<executionId>.<id>`. */
  readonly position: string;
}

/** Options of `watchHistory`, checked. */
export interface WatchHistoryCall extends Required<PayloadOptions> {
  readonly payloads: 'none' | 'head' | 'full';
  readonly headBytes: number;
  readonly after?: Position;
}

/** A position in the history of an instance. */
interface Position {
  readonly executionId: number;
  readonly id: number;
}

export function readWatchHistoryOptions(options: unknown): WatchHistoryCall & {
  readonly signal: AbortSignal | undefined;
} {
  const keys = ['after', 'signal', 'payloads', 'headBytes'] as const;
  const { after, signal, ...payloads } = readFields(options, 'watchHistory()', keys);
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw invalid('signal', signal, 'an AbortSignal');
  }
  const position = after === undefined ? {} : { after: readPosition(after) };
  return { ...readPayloadOptions(payloads), ...position, signal };
}

/** Parses a position. */
function readPosition(value: unknown): Position {
  const [, execution, id] =
    (typeof value === 'string' && /^([1-9]\d{0,8})\.(\d{1,9})$/.exec(value)) || [];
  if (execution === undefined || id === undefined) {
    throw invalid('after', value, 'the `position` of an event, such as "1.42"');
  }
  return { executionId: Number(execution), id: Number(id) };
}

const pageEvents = 500;
const maxPageBytes = 1024 * 1024;

/**
 * Yields the events of an instance as they are committed, across continue-as-new, until the instance has ended. Reads a
 * page when the reader has taken the last one, so a slow reader holds one page.
 */
export async function* watchHistory(
  { provider, watch }: { readonly provider: Provider; readonly watch: InstanceWatch },
  instanceId: string,
  { after, ...payloads }: WatchHistoryCall,
  signal?: AbortSignal,
): AsyncGenerator<WatchedEvent, void, undefined> {
  let position = after;
  let incarnation: string | undefined;
  const read = async (): Promise<EventView> => {
    const view = await provider.readEvents({
      instanceId,
      ...(position !== undefined && { executionId: position.executionId, from: position.id }),
      order: 'asc',
      limit: pageEvents,
      maxScanned: pageEvents,
      ...headOf(payloads),
      maxBytes: maxPageBytes,
    });
    incarnation ??= view?.incarnation;
    if (view === undefined || view.incarnation !== incarnation) throw notFound(instanceId);
    return view;
  };
  // Checked before the watch starts, so that an unknown id rejects immediately.
  let view = await read();
  if (view.executionId > view.currentExecutionId) {
    const shown = `${view.executionId}.${after?.id ?? 0}`;
    throw invalid('after', shown, `a position up to execution ${view.currentExecutionId}`);
  }
  const changes = watch.changes([instanceId], signal);
  try {
    for (;;) {
      signal?.throwIfAborted();
      const { executionId, currentExecutionId } = view;
      position ??= { executionId, id: 0 };
      for (const entry of toEntries(view, instanceId, payloads.payloads)) {
        yield { executionId, position: `${executionId}.${entry.id}`, ...entry };
        position = { executionId, id: entry.id };
      }
      if (view.next === null) {
        // The state was read before the events, so the history of an ended instance is complete.
        if (executionId < currentExecutionId) {
          position = { executionId: executionId + 1, id: 0 };
        } else if (isTerminal(view.status)) return;
        else await changes.next();
      }
      view = await read();
    }
  } finally {
    await changes.return();
  }
}
