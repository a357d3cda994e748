import { decodePayload, type Payload } from '../values/payload.ts';
import {
  encodedError,
  encodedPrefix,
  isUndecoded,
  reasonOf,
  type EncodedValue,
} from './envelope.ts';
import type { PayloadSealer } from './payload-sealer.ts';
import { isSealedFailure } from './sealed-failure.ts';

/**
 * Decodes a payload for a reader. A payload that is encoded with a codec that this process does not have becomes an
 * `EncodedValue`, which a remote client with the codec decodes. Throws as `decodePayload` does otherwise.
 */
export function readPayload(payload: Payload | null): unknown {
  return payload?.startsWith(encodedPrefix) === true
    ? ({ $encoded: payload } satisfies EncodedValue)
    : decodePayload(payload);
}

/** Whether a value stands for a payload that is still encoded. */
function isEncodedValue(value: unknown): value is EncodedValue {
  if (typeof value !== 'object' || value === null) return false;
  const text: unknown = Reflect.get(value, '$encoded');
  // A value of the application may have a property of this name.
  const isText = typeof text === 'string' && text.startsWith(encodedPrefix);
  return isText && Object.keys(value).length === 1;
}

/** Returns a value of a response. Throws `CODEC_FAILED` if it is still encoded. */
export function takeDecoded<Value>(value: Value): Value {
  if (isEncodedValue(value)) throw encodedError(value.$encoded);
  return value;
}

/** Decodes all payloads and failures in the body of a response. What cannot be decoded stays as it is. */
export async function decodeBody(body: unknown, sealer: PayloadSealer): Promise<unknown> {
  if (typeof body === 'string') {
    const text = await sealer.open(body);
    return isUndecoded(text) ? body : text;
  }
  if (typeof body !== 'object' || body === null) return body;
  if (Array.isArray(body)) return Promise.all(body.map((one) => decodeBody(one, sealer)));
  if (isEncodedValue(body)) {
    const text = await sealer.open(body.$encoded);
    return isUndecoded(text) ? body : decodePayload(text);
  }
  const entries = await Promise.all(
    Object.entries(body)
      .filter(([key]) => key !== 'sealed')
      .map(async ([key, value]) => [key, await decodeBody(value, sealer)] as const),
  );
  const decoded = Object.fromEntries(entries);
  if (!isSealedFailure(body)) return decoded;
  const text = await sealer.open(body.sealed);
  return isUndecoded(text)
    ? { ...body, message: reasonOf(text) }
    : { ...decoded, ...(decodePayload(text) as object) };
}
