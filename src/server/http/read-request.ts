import type { z } from 'zod';
import { ChunkedUtf8Decoder } from '../../model/values/chunked-utf8-decoder.ts';
import type { Match } from '../router.ts';
import type { ByteReservation } from '../limits/byte-budget.ts';
import { invalidRequest, HttpError } from './errors.ts';

/** Reads the body of a request as JSON. Its bytes stay reserved until the caller releases them. */
export async function readJson(
  request: Request,
  limitBytes: number,
  held: ByteReservation,
): Promise<unknown> {
  checkContentType(request.headers);
  const announced = Number(request.headers.get('content-length') ?? 0);
  if (announced > limitBytes) throw tooLarge(limitBytes);
  return parse(await readText(request, limitBytes, held));
}

function checkContentType(headers: Headers): void {
  const type = headers.get('content-type') ?? '';
  const isJson = /^application\/json\s*(;\s*charset=utf-8\s*)?$/i.test(type);
  if (isJson && !headers.has('content-encoding')) return;
  throw new HttpError(
    'NOT_JSON',
    'The body must be uncompressed JSON with `Content-Type: application/json`.',
    {
      status: 415,
    },
  );
}

async function readText(
  request: Request,
  limitBytes: number,
  held: ByteReservation,
): Promise<string> {
  // Without `fatal`, invalid UTF-8 would be replaced silently.
  const text = new ChunkedUtf8Decoder({ fatal: true });
  let bytes = 0;
  try {
    for await (const chunk of request.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > limitBytes) throw tooLarge(limitBytes);
      // Reserved as bytes arrive: a `Content-Length` alone must not take budget from other requests.
      held.add(chunk.byteLength);
      text.add(chunk);
    }
    return text.end();
  } catch (error) {
    if (error instanceof TypeError) throw invalidRequest('The body is not valid UTF-8.');
    throw error;
  }
}

function parse(text: string): unknown {
  try {
    // The key may contain escapes. A reviver is several times slower, so it runs only if needed.
    const isSuspicious = text.includes('__proto__') || text.includes('\\u');
    return isSuspicious ? JSON.parse(text, rejectProto) : JSON.parse(text);
  } catch (error) {
    if (error instanceof HttpError) throw error;
    throw invalidRequest('The body is not valid JSON.');
  }
}

function rejectProto(key: string, value: unknown): unknown {
  if (key === '__proto__')
    throw invalidRequest('The body has the key `__proto__`, which is not allowed. Remove it.');
  return value;
}

function tooLarge(limitBytes: number): HttpError {
  return new HttpError(
    'BODY_TOO_LARGE',
    `The body exceeds ${limitBytes} bytes. Store large data elsewhere and pass a reference.`,
    { status: 413 },
  );
}

/** The input of a request, validated by the schemas of its route. */
export interface CheckedRequest {
  readonly params?: unknown;
  readonly query?: unknown;
  readonly body?: unknown;
}

// Bounds the size of the error response.
const maxIssues = 10;
const maxIssueLength = 300;

export function checkPathAndQuery(
  { shape, params }: Match,
  url: URL,
  maxParameters: number,
): CheckedRequest {
  if (shape.query === undefined && url.search !== '') {
    throw invalidRequest('This route has no query parameters. Remove the query string.');
  }
  return {
    ...(shape.params !== undefined && { params: check(shape.params, params, 'path') }),
    ...(shape.query !== undefined && {
      query: check(shape.query, parseQuery(url, maxParameters), 'query'),
    }),
  };
}

export function checkBody(schema: z.ZodType, body: unknown): CheckedRequest {
  return { body: check(schema, body, 'body') };
}

function check(schema: z.ZodType, value: unknown, part: string): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.slice(0, maxIssues).map(({ path, message }) => ({
    path: truncate([part, ...path].map(String).join('.')),
    message: truncate(message),
  }));
  const [first] = issues;
  throw invalidRequest(`Invalid ${part}: \`${first?.path}\`: ${first?.message}`, issues);
}

function truncate(text: string): string {
  return text.length <= maxIssueLength ? text : `${text.slice(0, maxIssueLength).toWellFormed()}…`;
}

/** Parses the query string. Repeated names become arrays. */
function parseQuery(
  { search, searchParams }: URL,
  maxParameters: number,
): Readonly<Record<string, string | readonly string[]>> {
  // Counted before the query is parsed.
  const count = search === '' ? 0 : search.split('&').length;
  if (count > maxParameters) {
    throw invalidRequest(
      `The query has ${count} parameters; the limit is ${maxParameters}. Split it into several requests.`,
    );
  }
  const fields = new Map<string, string | string[]>();
  for (const [name, value] of searchParams) {
    const before = fields.get(name);
    if (before === undefined) fields.set(name, value);
    else if (typeof before === 'string') fields.set(name, [before, value]);
    else before.push(value);
  }
  // Not by assignment: a name may be `__proto__`.
  return Object.fromEntries(fields);
}
