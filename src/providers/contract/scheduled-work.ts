import { type ActivityScheduled, type HistoryEvent, type ParentRef } from '../../model/event.ts';
import { platformFailure } from '../../model/failures/failure.ts';
import { encodeMessage } from '../../model/message.ts';
import { encodeTrace, type TraceContext } from '../../model/trace-context.ts';
import { inputHash } from '../../model/values/input-hash.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type { NewChild, NewWorkItem } from './turn.ts';

/** Converts a scheduled activity to its work item, claimed if `claimMs` is given. */
export function toWorkItem(
  event: ActivityScheduled,
  {
    claimMs,
    worker,
    trace,
  }: {
    readonly claimMs?: number | undefined;
    readonly worker?: string;
    readonly trace?: TraceContext | undefined;
  } = {},
): NewWorkItem {
  const options = encodeWorkOptions(event);
  return {
    operation: event.operation,
    name: event.name,
    payload: event.payload,
    options: trace === undefined ? options : withTrace(options, trace),
    cancellation: event.cancellation ?? 'request',
    shielded: event.shielded ?? false,
    ...(event.options?.priority !== undefined && { priority: event.options.priority }),
    ...(claimMs !== undefined && { claimMs }),
    ...(claimMs !== undefined && worker !== undefined && { claimedBy: worker }),
    ...(trace !== undefined && { untraced: { options, trace } }),
  };
}

/** Adds the trace context to encoded options. */
export function withTrace(options: string | null, trace: TraceContext): string {
  const own = `"trace":${encodeTrace(trace)}}`;
  return options === null || options === '{}' ? `{${own}` : `${options.slice(0, -1)},${own}`;
}

/** Encodes the call options that a work item carries to its worker. Opaque to the store. */
function encodeWorkOptions({ options, cancellation }: ActivityScheduled): string | null {
  if (options === undefined && cancellation === undefined) return null;
  return JSON.stringify({ ...options, ...(cancellation !== undefined && { cancellation }) });
}

/** Converts a started child or detached instance to its row and messages. */
export function toChild(
  subject: { readonly instanceId: string; readonly executionId: number },
  event: Extract<HistoryEvent, { kind: 'childScheduled' | 'detachedStarted' }>,
  trace?: TraceContext,
): NewChild {
  const { name, version, childId, payload, operation, tags } = event;
  const tagged = tags !== undefined && { tags };
  const waits = event.kind === 'childScheduled';
  const { executionId } = subject;
  const reply = { executionId, operation };
  const parent: ParentRef = { instanceId: subject.instanceId, ...reply };
  return {
    instanceId: childId,
    incarnation: randomToken(),
    name,
    version,
    inputHash: inputHash(payload),
    start: encodeMessage({
      kind: 'start',
      name,
      version,
      payload,
      ...(waits && { parent }),
      ...tagged,
    }),
    ...tagged,
    ...(trace !== undefined && { headers: encodeTrace(trace) }),
    parentOperation: waits ? operation : null,
    cancellation: event.kind === 'childScheduled' ? (event.cancellation ?? 'request') : 'abandon',
    shielded: event.kind === 'childScheduled' && event.shielded === true,
    ...(waits
      ? { ifTaken: encodeMessage({ kind: 'childFailed', ...reply, failure: taken(childId) }) }
      : {
          ifStarted: encodeMessage({ kind: 'detachedConfirmed', ...reply }),
          ifTaken: encodeMessage({
            kind: 'detachedFailed',
            ...reply,
            failure: takenByOther(childId),
          }),
        }),
  };
}

function takenByOther(childId: string) {
  return platformFailure(
    'INSTANCE_ALREADY_EXISTS',
    `Instance ${JSON.stringify(childId)} already exists with another orchestration or input. Choose another id for startDetached().`,
  );
}

function taken(childId: string) {
  return platformFailure(
    'INSTANCE_ALREADY_EXISTS',
    `Instance ${JSON.stringify(childId)} already exists. Choose another id for the child, or omit it to generate one.`,
  );
}
