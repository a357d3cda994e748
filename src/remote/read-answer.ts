import { ProviderError } from '../model/errors.ts';
import { parseJson } from '../model/payload.ts';
import { readWireError, toTypedError } from './remote-error.ts';
import { Unreachable } from './unreachable.ts';

const bodyTooSlow = 408;
const tooMany = 429;
const unavailable = 503;

/** What an answer of the server says; throws the typed error that it carries. */
export function readAnswer(
  response: { readonly ok: boolean; readonly status: number; readonly headers: Headers },
  text: string,
  operation: string,
): unknown {
  const body = tryParse(text);
  if (response.ok && body !== undefined) return body;
  const error = readWireError(body);
  const { status } = response;
  const isRefused = status === bodyTooSlow || status === tooMany || status === unavailable;
  if (isRefused || (status > 500 && error === undefined)) {
    throw new Unreachable({
      operation,
      message:
        error?.message ??
        `The server answered ${status}. Is it overloaded, or is a proxy in front of it?`,
      // A server that took too long says so; a proxy may have passed the call on before it gave up.
      outcomeUnknown: error?.outcomeUnknown ?? (error === undefined && status >= 500),
      waitMs: retryAfterMs(response.headers),
    });
  }
  if (error !== undefined) throw toTypedError(error, operation);
  throw new ProviderError({
    operation,
    message: `Something answered ${status} that is no server of Perdure. Check the address.`,
    retryable: false,
  });
}

function tryParse(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function retryAfterMs(headers: Headers): number {
  const seconds = Number(headers.get('retry-after') ?? 0);
  return Number.isFinite(seconds) ? Math.max(0, seconds * 1_000) : 0;
}
