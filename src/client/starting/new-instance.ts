import { encodeMessage } from '../../model/message.ts';
import { carriedSettings, type StartSettings } from '../../model/start-settings.ts';
import type { StartAttempt } from '../../model/values/start-attempt.ts';
import { encodeTrace, type TraceContext } from '../../model/trace-context.ts';
import { generatedInputHash, inputHash } from '../../model/values/input-hash.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { NewInstance, NewMessage } from '../../providers/contract/instances.ts';
import type { StartCall } from '../client-backend.ts';
import type { EventCall } from './start-request.ts';

/** A start of an orchestration, with its settings. */
interface CheckedStart extends StartSettings {
  readonly name: string;
  readonly version: string | null;
  readonly payload: Payload | null;
  readonly hasGeneratedId?: boolean | undefined;
  readonly trace?: TraceContext | undefined;
}

/** Converts a checked start to the instance that the store creates. */
export function toNewInstance(
  call: CheckedStart,
  {
    instanceId,
    incarnation,
    isRepeat,
  }: Pick<NewInstance, 'instanceId' | 'incarnation'> & Pick<StartAttempt, 'isRepeat'>,
): NewInstance {
  const { name, version, payload, tags, trace, headers, priority } = call;
  const plain = { kind: 'start', name, version, payload } as const;
  const isPlain = tags === undefined && headers === undefined && priority === undefined;
  const start = isPlain
    ? plain
    : { ...plain, ...(tags !== undefined && { tags }), ...carriedSettings(call) };
  // Assigned one by one: spreads of optional fields take longer.
  const instance: { -readonly [Field in keyof NewInstance]: NewInstance[Field] } = {
    instanceId,
    incarnation,
    name,
    version,
    inputHash: call.hasGeneratedId === true ? generatedInputHash(payload) : inputHash(payload),
    start: encodeMessage(start),
  };
  if (isRepeat === true) instance.isRepeat = true;
  if (tags !== undefined) instance.tags = tags;
  const { delayMs, runAt, timeoutMs, lane } = call;
  if (delayMs !== undefined && delayMs > 0) instance.delayMs = delayMs;
  if (runAt !== undefined) instance.runAt = runAt;
  if (timeoutMs !== undefined) instance.timeoutMs = timeoutMs;
  if (lane !== undefined) instance.lane = lane;
  if (trace !== undefined) instance.headers = encodeTrace(trace);
  return instance;
}

/** Adds the part of a start that decides what happens if its instance exists. */
export function withIdentity(
  instance: NewInstance,
  {
    dedupeKey,
    dedupeMs,
    debounce,
    event,
    onConflict,
    trace,
  }: Omit<StartCall, 'id' | 'name' | 'version' | 'payload'>,
  maxPending: number,
): NewInstance {
  const isPlain = dedupeKey === undefined && event === undefined && onConflict === undefined;
  if (isPlain && debounce === undefined) return instance;
  return {
    ...instance,
    ...(dedupeKey !== undefined && { dedupeKey }),
    ...(dedupeMs !== undefined && { dedupeMs }),
    ...(debounce !== undefined && { debounce }),
    ...(event !== undefined && { event: toEventMessage(event, trace, maxPending) }),
    ...(onConflict !== undefined && { onConflict }),
  };
}

/** Converts a checked event to its message. */
export function toEventMessage(
  { name, payload, key }: EventCall,
  trace: TraceContext | undefined,
  maxPending: number,
): Omit<NewMessage, 'instanceId'> {
  const traced = trace !== undefined && { trace };
  const message = encodeMessage({ kind: 'eventRaised', name, payload, ...traced });
  return { message, maxPending, ...(key !== undefined && { key }) };
}
