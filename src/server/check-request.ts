import type { z } from 'zod';
import { invalidRequest } from './refusal.ts';
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

/** Checks the path and the query of a request. */
export function checkAddress({ shape, params }: Match, search: URLSearchParams): CheckedRequest {
  const query = toFields(search);
  if (shape.query === undefined && Object.keys(query).length > 0) {
    throw invalidRequest('This takes no query.');
  }
  return {
    ...(shape.params !== undefined && { params: check(shape.params, params, 'path') }),
    ...(shape.query !== undefined && { query: check(shape.query, query, 'query') }),
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
function toFields(search: URLSearchParams): Readonly<Record<string, string | readonly string[]>> {
  const fields = new Map<string, string | string[]>();
  for (const [name, value] of search) {
    const before = fields.get(name);
    if (before === undefined) fields.set(name, value);
    else fields.set(name, [...(typeof before === 'string' ? [before] : before), value]);
  }
  // Not by assignment: a name may be one that every object has.
  return Object.fromEntries(fields);
}
