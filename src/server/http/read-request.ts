import type { z } from 'zod';
import { TextGatherer } from '../../model/values/text-gatherer.ts';
import type { Match } from '../router.ts';
import type { ByteReservation } from '../limits/byte-budget.ts';
import { invalidRequest, HttpError } from './errors.ts';

/** Reads the body of a request as JSON, within a limit; its bytes are held until the caller releases them. */
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
  throw new HttpError('NOT_JSON', 'Send JSON, as Content-Type: application/json, not compressed.', {
    status: 415,
  });
}

async function readText(
  request: Request,
  limitBytes: number,
  held: ByteReservation,
): Promise<string> {
  // Bytes that are no UTF-8 would else be replaced silently.
  const text = new TextGatherer({ fatal: true });
  let bytes = 0;
  try {
    for await (const chunk of request.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > limitBytes) throw tooLarge(limitBytes);
      // Counted as they arrive: a length that is only announced takes nothing from other requests.
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
    // The key may be spelled with escapes. A reviver costs several times the parsing, so it is only used when needed.
    const isSuspicious = text.includes('__proto__') || text.includes('\\u');
    return isSuspicious ? JSON.parse(text, rejectProto) : JSON.parse(text);
  } catch (error) {
    if (error instanceof HttpError) throw error;
    throw invalidRequest('The body is not valid JSON.');
  }
}

function rejectProto(key: string, value: unknown): unknown {
  if (key === '__proto__') throw invalidRequest('The body has a key __proto__, which is refused.');
  return value;
}

function tooLarge(limitBytes: number): HttpError {
  return new HttpError(
    'BODY_TOO_LARGE',
    `The body is larger than ${limitBytes} bytes. Store large data elsewhere and pass a reference.`,
    { status: 413 },
  );
}

/** What was asked, decoded and checked by the schemas of its route. */
export interface CheckedRequest {
  readonly params?: unknown;
  readonly query?: unknown;
  readonly body?: unknown;
}

// Enough to see what is wrong; an answer must not grow with how wrong a request is.
const maxIssues = 10;
const maxIssueLength = 300;

/** Checks the path and the query of a request. The query is only parsed where the route has one. */
export function checkPathAndQuery(
  { shape, params }: Match,
  url: URL,
  maxParameters: number,
): CheckedRequest {
  if (shape.query === undefined && url.search !== '') {
    throw invalidRequest('This route takes no query. Remove everything from the "?" on.');
  }
  return {
    ...(shape.params !== undefined && { params: check(shape.params, params, 'path') }),
    ...(shape.query !== undefined && {
      query: check(shape.query, parseQuery(url, maxParameters), 'query'),
    }),
  };
}

/** Checks the body of a request. */
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
  throw invalidRequest(
    `The ${part} is not as it should be: ${first?.path}: ${first?.message}`,
    issues,
  );
}

function truncate(text: string): string {
  return text.length <= maxIssueLength ? text : `${text.slice(0, maxIssueLength).toWellFormed()}…`;
}

/** Repeated names become lists. */
function parseQuery(
  { search, searchParams }: URL,
  maxParameters: number,
): Readonly<Record<string, string | readonly string[]>> {
  // Counted before anything is parsed.
  const count = search === '' ? 0 : search.split('&').length;
  if (count > maxParameters) {
    throw invalidRequest(
      `The query has ${count} parameters. Send at most ${maxParameters}, or several requests.`,
    );
  }
  const fields = new Map<string, string | string[]>();
  for (const [name, value] of searchParams) {
    const before = fields.get(name);
    if (before === undefined) fields.set(name, value);
    else if (typeof before === 'string') fields.set(name, [before, value]);
    else before.push(value);
  }
  // Not by assignment: a name may be one that every object has.
  return Object.fromEntries(fields);
}
