import { operations, type Operation, type Request, type ResponseBody } from './operations.ts';
import { writePath, type PathParams } from '../../../server/routes/route.ts';
import { ApiError, readError } from './api-error.ts';
import { markReached, markUnreachable } from './connection.ts';
import { apiBase, forgetSession, session } from './session.ts';

interface Parts {
  readonly params?: PathParams;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
}

/** Calls a route of the server. Throws `ApiError`. */
export async function call<Name extends Operation>(
  name: Name,
  request: Request<Name>,
  signal?: AbortSignal,
): Promise<ResponseBody<Name>> {
  const response = await send(name, request as Parts, 'application/json', signal);
  return (await response.json()) as ResponseBody<Name>;
}

/** Sends the request of a route. Throws `ApiError` unless the server accepted it. */
export async function send(
  name: Operation,
  { params, query, body }: Parts,
  accept: string,
  signal?: AbortSignal,
): Promise<Response> {
  const [method = '', pattern = ''] = operations[name].split(' ');
  const url = new URL(`.${writePath(pattern, params)}${toSearch(query)}`, apiBase);
  const csrfToken = session.value?.csrfToken;
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      credentials: 'same-origin',
      redirect: 'error',
      headers: {
        accept,
        ...(method === 'POST' && { 'content-type': 'application/json' }),
        ...(csrfToken != null && { 'x-perdure-csrf': csrfToken }),
      },
      ...(method === 'POST' && { body: JSON.stringify(body ?? {}) }),
      ...(signal !== undefined && { signal }),
    });
  } catch (error) {
    if (signal?.aborted === true) throw error;
    markUnreachable();
    throw new ApiError(0, 'UNREACHABLE', 'The server cannot be reached.');
  }
  markReached();
  if (response.ok) return response;
  if (response.status === 401) forgetSession();
  throw await readError(response);
}

function toSearch(query: Readonly<Record<string, unknown>> = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) search.append(key, String(one));
    }
  }
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}
