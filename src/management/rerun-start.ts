import { encodeEvent, type ExecutionStarted, type HistoryEvent } from '../model/event.ts';
import { PerdureError } from '../model/failures/errors.ts';
import {
  keepHistory,
  redeliver,
  toInheritedStart,
  type HistorySource,
  type KeptHistory,
} from '../model/kept-history.ts';
import { encodeMessage, type Message } from '../model/message.ts';
import { carriedSettings } from '../model/start-settings.ts';
import { defaultChildId } from '../model/values/child-id.ts';
import type { Payload } from '../model/values/payload.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { StateValue } from '../model/values/state.ts';
import type { RecordedTagChanges, Tags } from '../model/values/tags.ts';
import type { RerunStart } from '../providers/contract/reruns.ts';
import { toAwakeable, toChild, toWorkItem } from '../providers/contract/scheduled-work.ts';
import type { NewChild, NewTimer, NewWorkItem, Turn } from '../providers/contract/turn.ts';
import type { NewAwakeable } from '../providers/contract/updates.ts';
import { quote } from './rerun-errors.ts';

// As the default of a cancel.
const cleanupMs = 300_000;

/** Returns the first event of a history that has one. */
export function startOf([first]: readonly HistoryEvent[]): ExecutionStarted | undefined {
  return first?.kind === 'executionStarted' ? first : undefined;
}

/** Returns the input of a rerun: the given one, or the recorded one. Throws if neither exists. */
export function inputOf(
  { id, payload }: { readonly id: string; readonly payload?: Payload | null },
  started: ExecutionStarted | undefined,
): Payload | null {
  if (payload !== undefined) return payload;
  if (started !== undefined) return started.payload;
  throw new PerdureError(
    'INVALID_INPUT',
    `Instance ${quote(id)} ended before its first turn, and its input is no longer stored. Pass \`input\` with \`from: 'start'\` (\`--from start --input <json>\`).`,
  );
}

/** Computes what an execution without kept events begins with: a start message. */
export function freshStart(options: {
  readonly name: string;
  readonly version: string | null;
  readonly payload: Payload | null;
  readonly started: ExecutionStarted | undefined;
  readonly tags: Tags;
  /** The state of an execution without a first event: nothing has changed it. */
  readonly state?: readonly StateValue[] | undefined;
  /** The fixed ids of children that exist. */
  readonly takenChildIds: readonly string[];
}): RerunStart {
  const { name, version, payload, started, tags, takenChildIds } = options;
  const carried = started?.carried;
  const state = started === undefined ? options.state : started.state;
  const message: Message = {
    kind: 'start',
    name,
    version,
    payload,
    ...(carried !== undefined && { carried }),
    ...(Object.keys(tags).length > 0 && { tags }),
    ...(started !== undefined && carriedSettings(started)),
    ...(state !== undefined && { state }),
    ...(takenChildIds.length > 0 && { takenChildIds }),
  };
  return { messages: [encodeMessage(message)], ...(state !== undefined && { state }) };
}

/** Returns the change from one set of tags to another, or `undefined` if they are equal. */
function tagChanges(from: Tags, to: Tags): RecordedTagChanges | undefined {
  const removed = Object.keys(from).filter((name) => to[name] === undefined);
  const set = Object.entries(to).filter(([name, value]) => from[name] !== value);
  if (removed.length + set.length === 0) return undefined;
  return Object.fromEntries([...removed.map((name) => [name, null] as const), ...set]);
}

/** Computes what an execution with kept events begins with: the work that they wait for, scheduled again. */
export function keptStart(options: {
  readonly events: readonly HistoryEvent[];
  readonly keep: number;
  readonly takenBack: readonly HistoryEvent[];
  readonly source: HistorySource;
  readonly target: { readonly instanceId: string; readonly executionId: number };
  /** Outputs of children that completed meanwhile. */
  readonly children: ReadonlyMap<number, Payload | null>;
  /** The tags of the row that is run again. Absent for a new row. */
  readonly tags?: Tags;
}): RerunStart {
  const { events, keep, takenBack, source, target } = options;
  const { executionId } = target;
  const kept = keepHistory(events, keep);
  // The code has the tags of the kept events; those that it set later would not count to the limit.
  const tags = options.tags && tagChanges(options.tags, kept.tags);
  const carried = carriedSettings(kept.started);
  const again = redeliver(takenBack, kept, executionId);
  const messages: Message[] = [{ kind: 'wake' }, ...again.messages];
  const workItems: NewWorkItem[] = [];
  const timers: NewTimer[] = [];
  const children: NewChild[] = [];
  const awakeables: NewAwakeable[] = [];
  for (const event of kept.open) {
    const { operation } = event;
    const output = options.children.get(operation);
    const canceled = cancelOf(kept, event);
    if (again.answered.has(operation)) continue;
    if (event.kind === 'timerCreated') timers.push({ operation, fireAt: event.fireAt });
    else if (event.kind === 'detachedStarted') children.push(toChild(target, event, { carried }));
    else if (event.kind === 'awakeableCreated') awakeables.push(toAwakeable(event));
    else if (canceled !== undefined) {
      const { reason, trigger } = canceled;
      messages.push(
        event.kind === 'childScheduled'
          ? { kind: 'childCanceled', executionId, operation, reason }
          : { kind: 'activityCanceled', executionId, operation, reason, trigger },
      );
    } else if (event.kind === 'activityScheduled') workItems.push(toWorkItem(event, { carried }));
    else if (output !== undefined) {
      messages.push({ kind: 'childCompleted', executionId, operation, payload: output });
    } else {
      children.push(
        toChild(
          target,
          { ...event, childId: defaultChildId({ ...target, operation }) },
          { carried },
        ),
      );
    }
  }
  const turn: Turn = {
    turnId: randomToken(),
    version: kept.started.version,
    firstEventId: keep + 1,
    events: [],
    workItems,
    timers,
    children,
    messages: [],
    activityCancels: [],
    childCancels: [],
    timerWithdrawals: [],
    cleanupMs,
    bufferedEvents: kept.bufferedEvents,
    ...(kept.customStatus !== null && { customStatus: kept.customStatus }),
    ...(tags !== undefined && { tags }),
    ...(awakeables.length > 0 && {
      awakeables: { created: awakeables, withdrawn: [], closes: false },
    }),
    outcome: { status: 'running' },
  };
  return {
    kept: { first: encodeEvent(toInheritedStart(kept, source)), length: keep },
    messages: messages.map(encodeMessage),
    turn,
    ...(kept.state.length > 0 && { state: kept.state }),
    ...(kept.cancel !== undefined && { cancel: { ...kept.cancel, cleanupMs } }),
  };
}

/** Returns why an open operation must not start: it was withdrawn, or its instance is canceling. */
function cancelOf({ withdrawn, cancel }: KeptHistory, event: KeptHistory['open'][number]) {
  const withdrawal = withdrawn.get(event.operation);
  if (withdrawal !== undefined) return withdrawal;
  const isReached =
    'cancellation' in event || 'shielded' in event
      ? event.cancellation !== 'abandon' && event.shielded !== true
      : true;
  if (cancel === undefined || !isReached) return undefined;
  return { reason: cancel.reason, trigger: cancel.trigger ?? ('cancel' as const) };
}
