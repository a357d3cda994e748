import {
  decodeEvent,
  encodeEvent,
  type ExecutionStarted,
  type HistoryEvent,
  isIncoming,
} from '../model/event.ts';
import { PerdureError, notFound } from '../model/failures/errors.ts';
import {
  findFailurePoint,
  keepHistory,
  moveCut,
  possibleChildIds,
  redeliver,
  toInheritedStart,
  type HistorySource,
  type KeptHistory,
} from '../model/kept-history.ts';
import { encodeMessage, type Message } from '../model/message.ts';
import { isTerminal } from '../model/status.ts';
import { defaultChildId } from '../model/values/child-id.ts';
import { inputHash } from '../model/values/input-hash.ts';
import type { Payload } from '../model/values/payload.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { RecordedTagChanges, Tags } from '../model/values/tags.ts';
import type { ExecutionRecord, InstanceRecord } from '../providers/contract/instances.ts';
import type { AuditEntry } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type {
  InstanceRetry,
  RerunRefusal,
  RerunSource,
  RerunStart,
  RetryResult,
} from '../providers/contract/reruns.ts';
import { toChild, toWorkItem } from '../providers/contract/scheduled-work.ts';
import type { NewChild, NewTimer, NewWorkItem, Turn } from '../providers/contract/turn.ts';

/** A retry, checked and encoded. */
export interface RetryCall {
  readonly id: string;
  readonly from: 'failure' | 'start';
  /** The new input. Absent: the recorded one. */
  readonly payload?: Payload | null;
  readonly actor: string | null;
  readonly reason: string | null;
}

/** A fork, checked and encoded. */
export interface ForkCall extends Omit<RetryCall, 'from'> {
  readonly newId: string;
  readonly from: 'failure' | 'start' | number;
  /** Absent: the current execution. */
  readonly executionId?: number;
}

/** The execution that a retry has started. */
export interface RetryInfo {
  readonly id: string;
  readonly executionId: number;
  /** The number of events that it kept of the execution before. */
  readonly keptEvents: number;
}

/**
 * Where a fork was copied from. `eventId` is the last copied event; 0: only the input. It is less than the chosen event if
 * that one is the end, or if the cut would split a turn.
 */
export interface ForkOrigin {
  readonly id: string;
  readonly executionId: number;
  readonly eventId: number;
}

const maxTries = 5;
const pageSize = 1_000;
const turnPageSize = 100;
// As the default of a cancel.
const cleanupMs = 300_000;

/** Starts the next execution of an ended root. */
export async function retryInstance(provider: Provider, call: RetryCall): Promise<RetryInfo> {
  for (let tries = 1; ; tries++) {
    const record = await readRecord(provider, call.id);
    assertRetryable(record);
    const plan = await planRetry(provider, record, call);
    const audit = auditOf('retry', call, call.from);
    const [result] = await provider.retryInstances([{ ...plan.retry, audit }]);
    if (result?.kind === 'retried') {
      return { id: call.id, executionId: result.executionId, keptEvents: plan.keptEvents };
    }
    // Another retry or a new start came first: the next round reads it and rejects for the right reason.
    if (result?.kind === 'changed' && tries < maxTries) continue;
    throw refused(call.id, 'retried', toRefusal(result));
  }
}

/**
 * Retries a root for a bulk operation. Returns `repeated` if the operation has already retried it. Throws a
 * `PerdureError` if it cannot be retried.
 */
export async function retryForBulk(
  provider: Provider,
  record: InstanceRecord,
  { from, audit }: { readonly from: RetryCall['from']; readonly audit: AuditEntry },
): Promise<'retried' | 'repeated'> {
  const { instanceId: id, instanceKey: bulkKey } = record;
  // The plan of an instance that this operation has retried may fail: the store decides first.
  const plan = await planRetry(provider, record, { id, from }).catch((error: unknown) => {
    if (error instanceof PerdureError) return error;
    throw error;
  });
  const isPlanned = !(plan instanceof PerdureError) && isRetryable(record);
  const retry = isPlanned ? plan.retry : { source: impossible(record), version: null };
  const [result] = await provider.retryInstances([{ ...retry, audit, bulkKey }]);
  if (result?.kind === 'retried' || result?.kind === 'repeated') return result.kind;
  if (plan instanceof PerdureError && result?.kind === 'changed') throw plan;
  throw refused(id, 'retried', toRefusal(result));
}

/** A source that no instance has, so that the store retries nothing. */
function impossible(record: InstanceRecord): RerunSource {
  return { ...sourceOf(record), historyLength: -1 };
}

function toRefusal(result: RetryResult | undefined): RerunRefusal | undefined {
  return result?.kind === 'retried' || result?.kind === 'repeated' ? undefined : result;
}

/** Creates an instance with a copy of the first events of an execution. */
export async function forkInstance(provider: Provider, call: ForkCall): Promise<void> {
  const record = await readRecord(provider, call.id);
  if (record.kind === 'task') {
    throw new PerdureError(
      'INVALID_INPUT',
      `${quote(call.id)} is a task run and has no history to copy. Run the task again with runTask(), or call retry().`,
    );
  }
  const execution = await readExecution(provider, record, call.executionId);
  const { keep, takenBack, events } = await readCut(provider, execution, call);
  const { executionId } = execution;
  const source = { instanceId: call.id, incarnation: record.incarnation, executionId };
  const target = { instanceId: call.newId, executionId: 1 };
  const started = startOf(events);
  const payload = inputOf(call, started);
  const version = started?.version ?? record.version;
  const forkedFrom: ForkOrigin = { id: call.id, executionId, eventId: keep };
  const [result] = await provider.forkInstances([
    {
      source: { ...source, historyLength: keep },
      instanceId: call.newId,
      incarnation: randomToken(),
      name: record.name,
      version,
      inputHash: inputHash(payload),
      forkedFrom: JSON.stringify(forkedFrom),
      tags: keep === 0 ? record.tags : keepHistory(events, keep).tags,
      start:
        keep === 0
          ? freshStart({ ...record, version, payload, started })
          : keptStart({ events, keep, takenBack, source, target, children: new Map() }),
      audit: auditOf('fork', call, typeof call.from === 'number' ? 'event' : call.from),
    },
  ]);
  if (result?.kind === 'forked' || result?.kind === 'exists') return;
  if (result?.kind === 'conflict') {
    throw new PerdureError(
      'INSTANCE_ALREADY_EXISTS',
      `Instance ${quote(call.newId)} of ${quote(result.name)} already exists and is not this fork. Pass another \`id\`, or omit it to generate one.`,
    );
  }
  throw refused(call.id, 'forked', result);
}

async function readRecord(provider: Provider, id: string): Promise<InstanceRecord> {
  const [record] = await provider.getInstances([id]);
  if (record === undefined) throw notFound(id);
  if (record.parentInstanceId !== null) {
    throw refused(id, 'run again', { kind: 'child', parentInstanceId: record.parentInstanceId });
  }
  return record;
}

function assertRetryable(record: InstanceRecord): void {
  const { instanceId, status } = record;
  if (!isRetryable(record)) throw refused(instanceId, 'retried', { kind: 'status', status });
}

function isRetryable({ status }: InstanceRecord): boolean {
  return (
    status === 'failed' || status === 'canceled' || status === 'terminated' || status === 'expired'
  );
}

type PlannedCall = Pick<RetryCall, 'id' | 'from' | 'payload'>;

async function planRetry(
  provider: Provider,
  record: InstanceRecord,
  call: PlannedCall,
): Promise<{ readonly keptEvents: number; readonly retry: InstanceRetry }> {
  return record.kind === 'task'
    ? { keptEvents: 0, retry: planTaskRetry(record, call) }
    : planOrchestrationRetry(provider, record, call);
}

function planTaskRetry(record: InstanceRecord, { payload }: PlannedCall) {
  return {
    source: { ...sourceOf(record), historyLength: 0 },
    version: null,
    ...(payload !== undefined && { taskInput: payload }),
  };
}

function sourceOf({ instanceId, incarnation, executionId }: InstanceRecord): HistorySource {
  return { instanceId, incarnation, executionId };
}

async function planOrchestrationRetry(
  provider: Provider,
  record: InstanceRecord,
  call: PlannedCall,
) {
  const execution = await readExecution(provider, record, undefined);
  const { keep, takenBack, events } = await readCut(provider, execution, call);
  const source = sourceOf(record);
  const target = { instanceId: call.id, executionId: source.executionId + 1 };
  const started = startOf(events);
  const { version } = record;
  const start =
    keep === 0
      ? freshStart({ ...record, payload: inputOf(call, started), started })
      : keptStart({
          events,
          keep,
          takenBack,
          source,
          target,
          tags: record.tags,
          children: await readChildren(provider, source, keepHistory(events, keep)),
        });
  const { historyLength } = execution;
  return { keptEvents: keep, retry: { source: { ...source, historyLength }, version, start } };
}

interface Execution extends ExecutionRecord {
  readonly instanceId: string;
  readonly incarnation: string;
}

async function readExecution(
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

interface Cut {
  readonly events: readonly HistoryEvent[];
  readonly keep: number;
  readonly takenBack: readonly HistoryEvent[];
}

/** Reads the events that decide where a rerun begins, and the point itself. */
async function readCut(
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
    const failed = status === 'failed' || status === 'canceled' || status === 'terminated';
    if (!failed)
      throw refused(instanceId, 'run again from its failure', { kind: 'status', status });
    const events = await readEvents(provider, execution, historyLength);
    return { events, ...findFailurePoint(events) };
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

function startOf([first]: readonly HistoryEvent[]): ExecutionStarted | undefined {
  return first?.kind === 'executionStarted' ? first : undefined;
}

function inputOf(
  { id, payload }: { readonly id: string; readonly payload?: Payload | null },
  started: ExecutionStarted | undefined,
): Payload | null {
  if (payload !== undefined) return payload;
  if (started !== undefined) return started.payload;
  throw new PerdureError(
    'INVALID_INPUT',
    `Instance ${quote(id)} ended before its first turn, and its input is no longer stored. Pass \`input\`.`,
  );
}

function freshStart(options: {
  readonly name: string;
  readonly version: string | null;
  readonly payload: Payload | null;
  readonly started: ExecutionStarted | undefined;
  readonly tags: Tags;
}): RerunStart {
  const { name, version, payload, started, tags } = options;
  const carried = started?.carried;
  const message: Message = {
    kind: 'start',
    name,
    version,
    payload,
    ...(carried !== undefined && { carried }),
    ...(Object.keys(tags).length > 0 && { tags }),
  };
  return { messages: [encodeMessage(message)] };
}

/** Returns the change from one set of tags to another, or `undefined` if they are equal. */
function tagChanges(from: Tags, to: Tags): RecordedTagChanges | undefined {
  const removed = Object.keys(from).filter((name) => to[name] === undefined);
  const set = Object.entries(to).filter(([name, value]) => from[name] !== value);
  if (removed.length + set.length === 0) return undefined;
  return Object.fromEntries([...removed.map((name) => [name, null] as const), ...set]);
}

/** Returns the outputs of children that completed after their parent had ended. Rejects while one is live. */
async function readChildren(
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

/** Computes what an execution with kept events begins with: the work that they wait for, scheduled again. */
function keptStart(options: {
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
  const again = redeliver(takenBack, kept, executionId);
  const messages: Message[] = [{ kind: 'wake' }, ...again.messages];
  const workItems: NewWorkItem[] = [];
  const timers: NewTimer[] = [];
  const children: NewChild[] = [];
  for (const event of kept.open) {
    const { operation } = event;
    const output = options.children.get(operation);
    const canceled = cancelOf(kept, event);
    if (again.answered.has(operation)) continue;
    if (event.kind === 'timerCreated') timers.push({ operation, fireAt: event.fireAt });
    else if (event.kind === 'detachedStarted') children.push(toChild(target, event));
    else if (canceled !== undefined) {
      const { reason, trigger } = canceled;
      messages.push(
        event.kind === 'childScheduled'
          ? { kind: 'childCanceled', executionId, operation, reason }
          : { kind: 'activityCanceled', executionId, operation, reason, trigger },
      );
    } else if (event.kind === 'activityScheduled') workItems.push(toWorkItem(event));
    else if (output !== undefined) {
      messages.push({ kind: 'childCompleted', executionId, operation, payload: output });
    } else {
      children.push(
        toChild(target, { ...event, childId: defaultChildId({ ...target, operation }) }),
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
    outcome: { status: 'running' },
  };
  return {
    kept: { first: encodeEvent(toInheritedStart(kept, source)), length: keep },
    messages: messages.map(encodeMessage),
    turn,
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
  return { reason: cancel.reason, trigger: 'cancel' as const };
}

function auditOf(
  action: 'retry' | 'fork',
  { id, actor, reason }: Pick<RetryCall, 'id' | 'actor' | 'reason'>,
  from: string,
): AuditEntry {
  const filter = JSON.stringify({ from });
  return { auditId: randomToken(), action, actor, reason, instanceId: id, filter };
}

function refused(
  id: string,
  what: string,
  refusal:
    | Exclude<RerunRefusal, { kind: 'status' }>
    | { readonly kind: 'status'; readonly status: string }
    | undefined,
): Error {
  const subject = `Instance ${quote(id)} cannot be ${what}`;
  const reject = (because: string) =>
    new PerdureError('INSTANCE_NOT_RETRYABLE', `${subject}: ${because}`);
  switch (refusal?.kind) {
    case 'missing':
      return notFound(id);
    case 'child':
      return reject(
        `it is a child. Use its root; its parent is ${quote(refusal.parentInstanceId)}.`,
      );
    case 'status': {
      const { status } = refusal;
      const isLive = status === 'pending' || status === 'running' || status === 'canceling';
      if (!isLive) {
        return reject(
          `it is ${status}. Only failed, canceled, terminated and expired ones can be.`,
        );
      }
      return new PerdureError(
        'INSTANCE_STILL_RUNNING',
        `${subject}: it is ${status}. Wait until it has ended, or terminate it.`,
      );
    }
    case 'job':
      return reject('it is a job whose reply was not taken yet. Take the reply or close the job.');
    case 'busy':
      return new PerdureError(
        'INSTANCE_STILL_RUNNING',
        `${subject}: one of its handlers has not stopped yet. Retry it later.`,
      );
    case 'keyTaken':
      return reject(
        `run ${quote(refusal.instanceId)} holds its dedupe key. Wait until that run has ended.`,
      );
    case 'refused':
      return refusal.error;
    default:
      return reject('it changed at the same time. Read it and try again.');
  }
}

function quote(text: string): string {
  return JSON.stringify(text);
}
