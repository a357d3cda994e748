import { encodeMessage } from '../../model/message.ts';
import { carriedSettings, startTimes, type StartSettings } from '../../model/start-settings.ts';
import { encodeTrace, type TraceContext } from '../../model/trace-context.ts';
import { inputHash } from '../../model/values/input-hash.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { NewInstance, NewMessage } from '../../providers/contract/instances.ts';
import type { StartCall } from '../client-backend.ts';
import type { EventCall } from './start-request.ts';

/** A start of an orchestration, with its settings. */
interface CheckedStart extends StartSettings {
  readonly name: string;
  readonly version: string | null;
  readonly payload: Payload | null;
  readonly trace?: TraceContext | undefined;
}

/** Converts a checked start to the instance that the store creates. */
export function toNewInstance(
  call: CheckedStart,
  { instanceId, incarnation }: Pick<NewInstance, 'instanceId' | 'incarnation'>,
): NewInstance {
  const { name, version, payload, tags, trace } = call;
  const tagged = tags !== undefined && { tags };
  const start = { kind: 'start', name, version, payload, ...tagged } as const;
  return {
    instanceId,
    incarnation,
    name,
    version,
    inputHash: inputHash(payload),
    start: encodeMessage({ ...start, ...carriedSettings(call) }),
    ...tagged,
    ...startTimes(call),
    ...(trace !== undefined && { headers: encodeTrace(trace) }),
  };
}

/** The part of a start that decides what happens if its instance exists. */
export function toIdentity(
  { dedupeKey, dedupeMs, debounce, event, onConflict, trace }: StartCall,
  maxPending: number,
): Pick<NewInstance, 'dedupeKey' | 'dedupeMs' | 'debounce' | 'event' | 'onConflict'> {
  return {
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
