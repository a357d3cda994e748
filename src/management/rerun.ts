import { PerdureError } from '../model/failures/errors.ts';
import { keepHistory, type HistorySource } from '../model/kept-history.ts';
import type { StartAttempt } from '../model/values/start-attempt.ts';
import { isRetryable } from '../model/status.ts';
import { inputHash } from '../model/values/input-hash.ts';
import type { Payload } from '../model/values/payload.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { InstanceRecord } from '../providers/contract/instances.ts';
import type { AuditEntry } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type {
  InstanceRetry,
  RerunRefusal,
  RerunSource,
  RetryResult,
} from '../providers/contract/reruns.ts';
import { quote, refused } from './rerun-errors.ts';
import {
  readChildren,
  readCut,
  readExecution,
  readFixedChildIds,
  readRecord,
  readStateOf,
} from './rerun-source.ts';
import { freshStart, inputOf, keptStart, startOf } from './rerun-start.ts';

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
export interface ForkCall extends Omit<RetryCall, 'from'>, StartAttempt {
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

/** Starts the next execution of an ended root. */
export async function retryInstance(provider: Provider, call: RetryCall): Promise<RetryInfo> {
  for (let tries = 1; ; tries++) {
    const record = await readRecord(provider, call.id);
    const { status } = record;
    if (!isRetryable(status)) throw refused(call.id, 'retried', { kind: 'status', status });
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
  const isPlanned = !(plan instanceof PerdureError) && isRetryable(record.status);
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
      incarnation: call.startKey ?? randomToken(),
      ...(call.isRepeat === true && { isRepeat: true }),
      name: record.name,
      version,
      inputHash: inputHash(payload),
      forkedFrom: JSON.stringify(forkedFrom),
      tags: keep === 0 ? record.tags : keepHistory(events, keep).tags,
      start:
        keep === 0
          ? freshStart({
              ...record,
              version,
              payload,
              started,
              state: await readStateOf(provider, record, started),
              takenChildIds: await readFixedChildIds(provider, source, { started, what: 'forked' }),
            })
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
      ? freshStart({
          ...record,
          payload: inputOf(call, started),
          started,
          state: await readStateOf(provider, record, started),
          takenChildIds: await readFixedChildIds(provider, source, { started, what: 'retried' }),
        })
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

function auditOf(
  action: 'retry' | 'fork',
  { id, actor, reason }: Pick<RetryCall, 'id' | 'actor' | 'reason'>,
  from: string,
): AuditEntry {
  const filter = JSON.stringify({ from });
  return { auditId: randomToken(), action, actor, reason, instanceId: id, filter };
}
