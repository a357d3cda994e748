import { ProviderError } from '../model/failures/errors.ts';
import { parseJson } from '../model/values/payload.ts';
import { ChunkedUtf8Decoder } from '../model/values/chunked-utf8-decoder.ts';
import { responseShapes } from './response-shapes.ts';
import type { Operation } from './operations.ts';
import { readWireError, toTypedError, UnreachableError } from './remote-error.ts';

const bodyTooSlow = 408;
const tooMany = 429;
const unavailable = 503;

/** Returns the body of a response; throws the typed error that it carries. */
export function readResponse(
  response: { readonly ok: boolean; readonly status: number; readonly headers: Headers },
  text: string,
  operation: Operation,
): unknown {
  const body = tryParse(text);
  if (response.ok && body !== undefined) {
    const wrong = responseShapes[operation](body, 'response');
    if (wrong === undefined) return body;
    throw badResponse(operation, `${wrong} is missing or has the wrong type`);
  }
  const error = readWireError(body);
  const { status } = response;
  const isUnavailable = status === bodyTooSlow || status === tooMany || status === unavailable;
  if (isUnavailable || (status > 500 && error === undefined)) {
    throw new UnreachableError({
      operation,
      message:
        error?.message ??
        `The server responded with status ${status}. It may be overloaded, or a proxy in front of it failed.`,
      // A server reports whether the outcome is unknown; a proxy may have forwarded the call before it failed.
      outcomeUnknown: error?.outcomeUnknown ?? (error === undefined && status >= 500),
      waitMs: retryAfterMs(response.headers),
    });
  }
  if (error !== undefined) throw toTypedError(error, operation);
  throw new ProviderError({
    operation,
    message: `The response with status ${status} is not from a Perdure server. Check the URL.`,
    retryable: false,
  });
}

/** Returns a message of a stream; throws the typed error that it carries. */
export function readMessage(text: string, isError: boolean, operation: Operation): unknown {
  const body = tryParse(text);
  if (isError) {
    const error = readWireError(body);
    if (error !== undefined) throw toTypedError(error, operation);
  }
  const wrong = responseShapes[operation](body, 'message');
  if (!isError && wrong === undefined) return body;
  throw badResponse(operation, `${wrong ?? 'message'} is missing or has the wrong type`);
}

/** A response that no Perdure server sends. Not retryable. */
function badResponse(operation: string, problem: string): ProviderError {
  return new ProviderError({
    operation,
    message: `Invalid response to ${operation}: ${problem}. Check the URL and the version of the server. The call may have had its effect.`,
    retryable: false,
  });
}

/** Throws unless the server returned one result per request. */
export function assertEach(
  operation: string,
  results: readonly unknown[],
  requests: readonly unknown[],
): void {
  if (results.length === requests.length) return;
  throw badResponse(operation, `it has ${results.length} results for ${requests.length} requests`);
}

/** Reads the text of a response, up to a limit. */
export async function readText(
  response: Response,
  operation: string,
  limitBytes: number,
): Promise<string> {
  const announced = Number(response.headers.get('content-length') ?? 0);
  const reader = response.body?.getReader();
  const text = new ChunkedUtf8Decoder({ fatal: false });
  let bytes = 0;
  for (;;) {
    if (Math.max(bytes, announced) > limitBytes) {
      // Closes the connection; its error does not matter.
      reader?.cancel().catch(() => undefined);
      throw badResponse(operation, `it is larger than ${limitBytes} bytes (\`answerLimitBytes\`)`);
    }
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
    if (done || value === undefined) return text.end();
    bytes += value.byteLength;
    if (bytes <= limitBytes) text.add(value);
  }
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
