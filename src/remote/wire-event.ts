import type { EventCall } from '../client/starting/start-request.ts';
import { systemClock } from '../model/clock.ts';
import { generateEventKey } from '../model/event-key.ts';
import { decodePayload } from '../model/values/payload.ts';

/** Converts an event for a server, with a key, so that the request can be repeated. */
export function toWireEvent({ name, payload, key }: EventCall): {
  name: string;
  payload?: unknown;
  key: string;
} {
  return {
    name,
    ...(payload !== null && { payload: decodePayload(payload) }),
    key: key ?? generateEventKey(systemClock.now()),
  };
}
