import {
  type ActivityScheduled,
  type AwakeableCreated,
  type HistoryEvent,
  type ParentRef,
} from '../../model/event.ts';
import { defaultMaxPendingEvents } from '../../model/admission-options.ts';
import { platformFailure } from '../../model/failures/failure.ts';
import { encodeMessage } from '../../model/message.ts';
import { encodeTrace, encodeTraceJson, type TraceContext } from '../../model/trace-context.ts';
import { carriedSettings, startTimes, type CarriedSettings } from '../../model/start-settings.ts';
import { mergeHeaders, type Headers } from '../../model/values/headers.ts';
import { inputHash } from '../../model/values/input-hash.ts';
import { randomToken } from '../../model/values/random-id.ts';
import { hashAwakeableToken } from '../../model/values/awakeable-token.ts';
import { decodePayload } from '../../model/values/payload.ts';
import type { EncodedEvent } from '../../model/admission-options.ts';
import type { NewChild, NewWorkItem } from './turn.ts';
import type { NewAwakeable } from './updates.ts';

/** Converts a scheduled activity to its work item, claimed if `claimMs` is given. */
export function toWorkItem(
  event: ActivityScheduled,
  {
    claimMs,
    worker,
    carried = {},
  }: {
    readonly claimMs?: number | undefined;
    readonly worker?: string;
    /** The settings of the run. */
    readonly carried?: CarriedSettings | undefined;
  } = {},
): NewWorkItem {
  const priority = event.options?.priority ?? carried.priority;
  const lane = event.options?.lane;
  return {
    operation: event.operation,
    name: event.name,
    payload: event.payload,
    options: encodeWorkOptions(event, carried.headers),
    cancellation: event.cancellation ?? 'request',
    shielded: event.shielded ?? false,
    ...(priority !== undefined && { priority }),
    ...(lane !== undefined && { lane }),
    ...(claimMs !== undefined && { claimMs }),
    ...(claimMs !== undefined && worker !== undefined && { claimedBy: worker }),
  };
}

/** Adds the trace context to encoded options. */
export function withTrace(options: string | null, trace: TraceContext): string {
  const own = `"trace":${encodeTraceJson(trace)}}`;
  return options === null || options === '{}' ? `{${own}` : `${options.slice(0, -1)},${own}`;
}

/** Encodes the call options that a work item carries to its worker. Opaque to the store. */
function encodeWorkOptions(
  { options, cancellation }: ActivityScheduled,
  headers: Headers | undefined,
): string | null {
  if (options === undefined && cancellation === undefined && headers === undefined) return null;
  return JSON.stringify({
    ...options,
    ...(cancellation !== undefined && { cancellation }),
    ...(headers !== undefined && { headers }),
  });
}

/** Converts a started child or detached instance to its row and messages. */
export function toChild(
  subject: { readonly instanceId: string; readonly executionId: number },
  event: Extract<HistoryEvent, { kind: 'childScheduled' | 'detachedStarted' }>,
  {
    trace,
    carried,
  }: {
    readonly trace?: TraceContext | undefined;
    readonly carried?: CarriedSettings | undefined;
  } = {},
): NewChild {
  const { name, version, childId, payload, operation, tags } = event;
  const headers = mergeHeaders(carried?.headers, event.headers);
  const priority = event.priority ?? carried?.priority;
  const tagged = tags !== undefined && { tags };
  const waits = event.kind === 'childScheduled';
  const { executionId } = subject;
  const reply = { executionId, operation };
  const parent: ParentRef = { instanceId: subject.instanceId, ...reply };
  return {
    instanceId: childId,
    incarnation: event.replaceKey ?? randomToken(),
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
      ...carriedSettings({
        ...(headers && { headers }),
        ...(priority !== undefined && { priority }),
      }),
    }),
    ...tagged,
    ...startTimes(event),
    ...(event.lane !== undefined && { lane: event.lane }),
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
    ...(event.onConflict !== undefined && { onConflict: event.onConflict }),
    ...(event.event !== undefined && toStartEvent(event.event, childId, reply)),
  };
}

/** Converts the event of a start to its message, and to the replies if the event is rejected. */
function toStartEvent(
  { name, payload, key }: EncodedEvent,
  childId: string,
  reply: { readonly executionId: number; readonly operation: number },
): Pick<NewChild, 'event' | 'ifRejected'> {
  const message = encodeMessage({ kind: 'eventRaised', name, payload });
  const [event, instance] = [JSON.stringify(name), JSON.stringify(childId)];
  const failed = (code: 'INSTANCE_OVER' | 'EVENT_BUFFER_FULL', text: string) =>
    encodeMessage({ kind: 'detachedFailed', ...reply, failure: platformFailure(code, text) });
  return {
    event: { message, maxPending: defaultMaxPendingEvents, ...(key !== undefined && { key }) },
    ifRejected: {
      over: failed(
        'INSTANCE_OVER',
        `Instance ${instance} has ended, so event ${event} was not stored.`,
      ),
      full: failed(
        'EVENT_BUFFER_FULL',
        `Event ${event} was not stored: the event buffer of instance ${instance} is full.`,
      ),
    },
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

/** Converts a created awakeable to its row, which has only the hash of the token. */
export function toAwakeable({ operation, payload }: AwakeableCreated): NewAwakeable {
  return { operation, tokenHash: hashAwakeableToken(String(decodePayload(payload))) };
}
