import {
  decodeEvent,
  isIncoming,
  type ExecutionStarted,
  type HistoryEvent,
} from '../model/event.ts';
import { notFound, PerdureError } from '../model/failures/errors.ts';
import {
  findFailurePoint,
  inheritedCount,
  moveCut,
  possibleChildIds,
  type HistorySource,
  type KeptHistory,
} from '../model/kept-history.ts';
import { isRetryable, isTerminal } from '../model/status.ts';
import type { Payload } from '../model/values/payload.ts';
import type { StateValue } from '../model/values/state.ts';
import { isDefaultChildId } from '../model/values/child-id.ts';
import type {
  ExecutionRecord,
  InstanceRecord,
  ListInstancesResult,
} from '../providers/contract/instances.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { quote, refused } from './rerun-errors.ts';
import { startOf } from './rerun-start.ts';

const pageSize = 1_000;
const turnPageSize = 100;
const maxFixedChildIds = 1_000;
// A child may have been created before the start of its parent, by a clock that was set back meanwhile.
const maxClockStepMs = 60_000;

/** Reads the record of a root. Throws if there is none, or if it is a child. */
export async function readRecord(provider: Provider, id: string): Promise<InstanceRecord> {
  const [record] = await provider.getInstances([id]);
  if (record === undefined) throw notFound(id);
  if (record.parentInstanceId !== null) {
    throw refused(id, 'run again', { kind: 'child', parentInstanceId: record.parentInstanceId });
  }
  return record;
}

/** An execution to run again or to copy. */
export interface Execution extends ExecutionRecord {
  readonly instanceId: string;
  readonly incarnation: string;
}

/** Reads an execution of an instance, by default the current one. */
export async function readExecution(
  provider: Provider,
  record: InstanceRecord,
  wanted: number | undefined,
): Promise<Execution> {
  const { instanceId, incarnation } = record;
  const executionId = wanted ?? record.executionId;
  const [found] = await provider.listExecutions({ instanceId, after: executionId - 1, limit: 1 });
  if (found?.executionId === executionId) return { ...found, instanceId, incarnation };
  await assertNotDeleted(provider, record);
  throw new PerdureError(
    'INVALID_INPUT',
    `Instance ${quote(instanceId)} has no execution ${executionId}. List its executions with listExecutions().`,
  );
}

/** Throws `INSTANCE_NOT_FOUND` if an instance was deleted after its record was read. */
async function assertNotDeleted(
  provider: Provider,
  { instanceId, incarnation }: Pick<InstanceRecord, 'instanceId' | 'incarnation'>,
): Promise<void> {
  const [record] = await provider.getInstances([instanceId]);
  if (record?.incarnation !== incarnation) throw notFound(instanceId);
}

/** Reads the state of an execution that ended before its first turn, which would have recorded it. */
export async function readStateOf(
  provider: Provider,
  { instanceId }: InstanceRecord,
  started: ExecutionStarted | undefined,
): Promise<readonly StateValue[] | undefined> {
  if (started !== undefined) return undefined;
  const [found] = await provider.readStates([{ instanceId, what: 'state', after: 0 }]);
  const entries = found?.entries ?? [];
  return entries.length === 0 ? undefined : entries.map(({ key, payload }) => ({ key, payload }));
}

/**
 * Returns the ids of children that the code of an execution chose, with those of the executions that it copies. A rerun
 * from the start gives such a child a generated id, because its own id is taken. Throws if there are more than 1,000.
 */
export async function readFixedChildIds(
  provider: Provider,
  execution: Pick<HistorySource, 'instanceId' | 'executionId'>,
  { started, what }: { readonly started: ExecutionStarted | undefined; readonly what: string },
): Promise<readonly string[]> {
  const fixed = new Set(started?.takenChildIds);
  const firstExecutions = new Map<string, number>();
  for (const { instanceId, executionId } of [execution, ...(started?.inherited ?? [])]) {
    const known = firstExecutions.get(instanceId) ?? executionId;
    firstExecutions.set(instanceId, Math.min(known, executionId));
  }
  for (const [instanceId, executionId] of firstExecutions) {
    for await (const id of childIdsSince(provider, instanceId, executionId)) {
      if (!isDefaultChildId(instanceId, id)) fixed.add(id);
      if (fixed.size > maxFixedChildIds) {
        throw new PerdureError(
          'INSTANCE_NOT_RETRYABLE',
          `Instance ${quote(execution.instanceId)} cannot be ${what} from the start: more than ${maxFixedChildIds} of its children have an id that its code chose, and the code would start them again. Use \`from: 'failure'\`, or start a new instance.`,
        );
      }
    }
  }
  return [...fixed];
}

/** The ids of the children that an instance started in this execution or later. */
async function* childIdsSince(
  provider: Provider,
  instanceId: string,
  executionId: number,
): AsyncGenerator<string, void, undefined> {
  const [first] = await provider.listExecutions({ instanceId, after: executionId - 1, limit: 1 });
  const startedAt = first?.startedAt ?? null;
  if (startedAt === null) return;
  let beforeKey: number | null = Number.MAX_SAFE_INTEGER;
  while (beforeKey !== null) {
    const page: ListInstancesResult = await provider.listInstances({
      filter: { parentInstanceId: instanceId, createdFrom: startedAt - maxClockStepMs },
      limit: pageSize,
      beforeKey,
    });
    yield* page.instances.map((one) => one.instanceId);
    beforeKey = page.nextKey;
  }
}

/** Where a rerun begins. */
interface Cut {
  /** The events up to the cut, and those that decide where it is. */
  readonly events: readonly HistoryEvent[];
  readonly keep: number;
  readonly takenBack: readonly HistoryEvent[];
}

/** Reads the events that decide where a rerun begins, and the point itself. */
export async function readCut(
  provider: Provider,
  execution: Execution,
  { from }: { readonly from: 'failure' | 'start' | number },
): Promise<Cut> {
  if (from === 'start') {
    const count = Math.min(1, execution.historyLength);
    return { events: await readEvents(provider, execution, count), keep: 0, takenBack: [] };
  }
  const { instanceId, historyLength, status } = execution;
  if (from === 'failure') {
    if (!isRetryable(status)) {
      throw refused(instanceId, 'run again from its failure', { kind: 'status', status });
    }
    const events = await readEvents(provider, execution, historyLength);
    const { keep, takenBack } = findFailurePoint(events);
    const undelivered = await readUndelivered(provider, execution, events);
    return { events, keep, takenBack: [...takenBack, ...undelivered] };
  }
  if (from > historyLength) {
    throw new PerdureError(
      'INVALID_INPUT',
      `Execution ${execution.executionId} of instance ${quote(instanceId)} has no event ${from}: it has ${historyLength}. Read them with history().`,
    );
  }
  const events = await readTurn(provider, execution, from);
  // The end is not copied: the code ends again.
  const isEnd = events[from - 1]?.kind.startsWith('execution') === true && from > 1;
  const count = isEnd ? from - 1 : from;
  return {
    events,
    keep: startOf(events) === undefined ? 0 : moveCut(events, count),
    takenBack: [],
  };
}

/**
 * Reads the events that the retry of an execution took back, if it ended before a turn applied them again. They are only
 * in the history of the execution before.
 */
async function readUndelivered(
  provider: Provider,
  { instanceId, incarnation, executionId }: Execution,
  events: readonly HistoryEvent[],
): Promise<readonly HistoryEvent[]> {
  const started = startOf(events);
  const inherited = started === undefined ? 0 : inheritedCount(started);
  const hasOwnEvents = events.length - 1 > inherited;
  if (executionId === 1 || inherited === 0 || hasOwnEvents) return [];
  const [before] = await provider.listExecutions({ instanceId, after: executionId - 2, limit: 1 });
  // It may have been pruned.
  if (before?.executionId !== executionId - 1) return [];
  const source = { ...before, instanceId, incarnation };
  return (await readCut(provider, source, { from: 'failure' })).takenBack;
}

/** Reads the first `count` events, and the next incoming one if it can belong to the same turn. */
async function readTurn(
  provider: Provider,
  execution: Execution,
  count: number,
): Promise<readonly HistoryEvent[]> {
  const events = await readEvents(provider, execution, count);
  const at = events.at(-1)?.at;
  const isDecided = (event: HistoryEvent) => event.at !== at || isIncoming(event);
  for (let from = count; events.length < execution.historyLength; from = events.length) {
    const to = Math.min(from + turnPageSize, execution.historyLength);
    events.push(...(await readEvents(provider, execution, to, from)));
    if (events.slice(from).some(isDecided)) break;
  }
  return events;
}

/** Reads the events `after + 1` to `count`. */
async function readEvents(
  provider: Provider,
  execution: Execution,
  count: number,
  after = 0,
): Promise<HistoryEvent[]> {
  const { instanceId, executionId } = execution;
  const events: HistoryEvent[] = [];
  while (after + events.length < count) {
    const read = after + events.length;
    const page = await provider.readInstanceHistory({
      instanceId,
      executionId,
      after: read,
      limit: Math.min(pageSize, count - read),
    });
    for (const event of page) events.push(decodeEvent(event));
    if (page.length > 0) continue;
    await assertNotDeleted(provider, execution);
    throw refused(instanceId, 'read', { kind: 'changed' });
  }
  return events;
}

/** Returns the outputs of children that completed after their parent had ended. Rejects while one is live. */
export async function readChildren(
  provider: Provider,
  { instanceId, executionId }: HistorySource,
  { open, issuedAt, started }: KeptHistory,
): Promise<ReadonlyMap<number, Payload | null>> {
  const execution = { instanceId, executionId, started };
  const wanted = open.flatMap((event) => {
    if (event.kind !== 'childScheduled') return [];
    const { operation, childId } = event;
    const child = { operation, childId, issuedAt: issuedAt.get(operation) ?? 0 };
    return possibleChildIds(child, execution).map((id) => ({ operation, id }));
  });
  const found = new Set<number>();
  const outputs = new Map<number, Payload | null>();
  for (let from = 0; from < wanted.length; from += pageSize) {
    const page = wanted.slice(from, from + pageSize);
    const records = await provider.getInstances(page.map(({ id }) => id));
    for (const [index, record] of records.entries()) {
      const operation = page[index]?.operation;
      if (operation === undefined || found.has(operation)) continue;
      if (record?.parentInstanceId !== instanceId) continue;
      found.add(operation);
      if (!isTerminal(record.status)) {
        throw new PerdureError(
          'INSTANCE_STILL_RUNNING',
          `Instance ${quote(instanceId)} cannot be retried from its failure: its child ${quote(record.instanceId)} is ${record.status}. Wait until it has ended, or terminate it.`,
        );
      }
      if (record.status === 'completed') outputs.set(operation, record.output);
    }
  }
  return outputs;
}
