import { platform } from '../../model/platform.ts';
import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import { PerdureError } from '../../model/failures/errors.ts';

const maxReasonLength = 200;
const timeoutMs = 10_000;

/** Stores bytes within 10 s. Rejects with `CODEC_FAILED`. `what` names the bytes in the error. */
export async function putExternal(
  store: ExternalPayloadStore,
  { key, bytes, what }: { readonly key: string; readonly bytes: Uint8Array; readonly what: string },
): Promise<void> {
  try {
    await within(store.put(key, bytes), 'put');
  } catch (cause) {
    throw new PerdureError(
      'CODEC_FAILED',
      `The external store could not store ${what}, so nothing was stored: ${describeError(cause)}`,
      { cause },
    );
  }
}

/** Reads bytes within 10 s. Returns `undefined` for an unknown key. */
export async function getExternal(
  store: ExternalPayloadStore,
  key: string,
): Promise<Uint8Array | undefined> {
  const bytes: unknown = await within(store.get(key), 'get');
  if (bytes === undefined || bytes instanceof Uint8Array) return bytes;
  throw new TypeError('get() must return a Uint8Array.');
}

/** Returns the message of an error, cut to 200 characters. */
export function describeError(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.slice(0, maxReasonLength).toWellFormed();
}

async function within<T>(result: Promise<T>, method: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = platform.setTimeout(
      () => reject(new Error(`${method}() took longer than ${timeoutMs} ms.`)),
      timeoutMs,
    );
  });
  try {
    return await Promise.race([result, late]);
  } finally {
    platform.clearTimeout(timer);
  }
}
