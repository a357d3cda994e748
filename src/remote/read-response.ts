import { ProviderError } from '../model/failures/errors.ts';
import { parseJson } from '../model/values/payload.ts';
import { TextGatherer } from '../model/values/text-gatherer.ts';
import { responseShapes } from './response-shapes.ts';
import type { Operation } from './operations.ts';
import { readWireError, toTypedError, UnreachableError } from './remote-error.ts';

const bodyTooSlow = 408;
const tooMany = 429;
const unavailable = 503;

/** What an answer of the server says; throws the typed error that it carries. */
export function readResponse(
  response: { readonly ok: boolean; readonly status: number; readonly headers: Headers },
  text: string,
  operation: Operation,
): unknown {
  const body = tryParse(text);
  if (response.ok && body !== undefined) {
    const wrong = responseShapes[operation](body, 'answer');
    if (wrong === undefined) return body;
    throw badResponse(operation, `${wrong} is missing or of another type`);
  }
  const error = readWireError(body);
  const { status } = response;
  const isRefused = status === bodyTooSlow || status === tooMany || status === unavailable;
  if (isRefused || (status > 500 && error === undefined)) {
    throw new UnreachableError({
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

/** An answer that no server of Perdure gives: final, because the next one would be no better. */
function badResponse(operation: string, problem: string): ProviderError {
  return new ProviderError({
    operation,
    message: `The answer to ${operation} is not one of a server of Perdure: ${problem}. Check the address and the version of the server. The call may have had its effect.`,
    retryable: false,
  });
}

/** Checks that a server answered each of several requests. */
export function assertEach(
  operation: string,
  answers: readonly unknown[],
  requests: readonly unknown[],
): void {
  if (answers.length === requests.length) return;
  throw badResponse(operation, `it has ${answers.length} results for ${requests.length} requests`);
}

/** Reads the text of an answer, up to a limit. */
export async function readText(
  response: Response,
  operation: string,
  limitBytes: number,
): Promise<string> {
  const announced = Number(response.headers.get('content-length') ?? 0);
  const reader = response.body?.getReader();
  const text = new TextGatherer({ fatal: false });
  let bytes = 0;
  for (;;) {
    if (Math.max(bytes, announced) > limitBytes) {
      // Closes the connection; what it ends with is of no interest.
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
