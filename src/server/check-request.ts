import type { z } from 'zod';
import { invalidRequest } from './http/refusal.ts';
import type { Match } from './router.ts';

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
export function checkAddress(
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
      query: check(shape.query, toFields(url, maxParameters), 'query'),
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
    path: cut([part, ...path].map(String).join('.')),
    message: cut(message),
  }));
  const [first] = issues;
  throw invalidRequest(
    `The ${part} is not as it should be: ${first?.path}: ${first?.message}`,
    issues,
  );
}

function cut(text: string): string {
  return text.length <= maxIssueLength ? text : `${text.slice(0, maxIssueLength).toWellFormed()}…`;
}

/** Repeated names become lists. */
function toFields(
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
