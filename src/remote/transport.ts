import { clientClosed } from '../client/waiting/instance-errors.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { writePath, type PathParams } from '../server/routes/path.ts';
import type { CheckedConnect } from './connect-options.ts';
import { operations, type ResponseBody, type Operation, type Request } from './operations.ts';
import { readResponse, readText } from './read-response.ts';
import { foreignPageOrigin, UnreachableError, wasNeverSent } from './remote-error.ts';

/** How one call is made. */
export interface CallOptions {
  /** Whether making it twice does no more than making it once. Default: for reads. */
  readonly repeatable?: boolean | undefined;
  /** For how long it is made again while the server cannot be reached. Default: that of the connection. */
  readonly retryForMs?: number | undefined;
  /** How long one attempt may take. Default: that of the connection. */
  readonly timeoutMs?: number | undefined;
  /** For how long the server may let it wait, besides. */
  readonly waitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface Parts {
  readonly params?: PathParams;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
}

/**
 * Makes requests, one HTTP request per attempt.
 *
 * T1. A call whose answer was lost is made again only where that is said to be harmless; otherwise it rejects with a
 *     `ProviderError` that says that its outcome is unknown.
 * T2. No attempt is without an end: each has a time-out, and closing ends all.
 * T3. The token goes to this server alone: redirects are refused.
 */
export class Transport {
  readonly #options: CheckedConnect;
  readonly #underWay = new Set<(error: Error) => void>();
  #wasReached = false;
  #closed = false;

  constructor(options: CheckedConnect) {
    this.#options = options;
  }

  /** Ends everything that is under way with `CLOSED`. */
  close(): void {
    this.#closed = true;
    for (const end of this.#underWay) end(clientClosed());
  }

  /** Asks the server something, again and again where that is harmless. */
  async call<Name extends Operation>(
    name: Name,
    request: Request<Name>,
    options: CallOptions = {},
  ): Promise<ResponseBody<Name>> {
    const { repeatable = operations[name].startsWith('GET ') } = options;
    const deadline = performance.now() + (options.retryForMs ?? this.#options.retryForMs);
    for (let attempt = 0; ; attempt++) {
      try {
        return (await this.#attempt(name, request as Parts, options)) as ResponseBody<Name>;
      } catch (error) {
        if (!(error instanceof UnreachableError)) throw error;
        if (error.outcomeUnknown && !repeatable) throw error;
        // An origin that is not allowed will not be allowed in a moment.
        if (error.maybeOrigin && !this.#wasReached) throw error;
        const pauseMs = Math.max(backoffMs(attempt), error.waitMs);
        if (performance.now() + pauseMs > deadline) throw error;
        await this.#pause(pauseMs, options.signal);
      }
    }
  }

  async #attempt(name: Operation, parts: Parts, options: CallOptions): Promise<unknown> {
    const [method = '', pattern = ''] = operations[name].split(' ');
    const { baseUrl, fetch, answerLimitBytes } = this.#options;
    const url = baseUrl + writePath(pattern, parts.params) + toSearch(parts.query);
    const { timeoutMs = this.#options.requestTimeoutMs, waitMs = 0 } = options;
    const isRead = method === 'GET';
    const exchange = async (signal: AbortSignal): Promise<unknown> => {
      const init = { ...this.#init(method, parts.body), signal };
      const response = await fetch(url, init);
      this.#wasReached = true;
      return readResponse(response, await readText(response, name, answerLimitBytes), name);
    };
    try {
      return await this.#bounded(exchange, timeoutMs + waitMs, options.signal);
    } catch (error) {
      if (error instanceof PerdureError || options.signal?.aborted === true) throw error;
      const origin = error instanceof TypeError ? foreignPageOrigin(baseUrl) : undefined;
      throw new UnreachableError({
        operation: name,
        message: `The server at ${baseUrl} did not answer: ${reasonOf(error)}. Is it running, and is the address right?${adviceFor(origin)}`,
        outcomeUnknown: !isRead && !wasNeverSent(error),
        maybeOrigin: origin !== undefined,
        cause: error,
      });
    }
  }

  #init(method: string, body: unknown): RequestInit {
    const { token } = this.#options;
    return {
      method,
      headers: {
        accept: 'application/json',
        ...(method === 'POST' && { 'content-type': 'application/json' }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      ...(method === 'POST' && { body: JSON.stringify(body ?? {}) }),
      redirect: 'error',
      credentials: 'omit',
    };
  }

  #pause(pauseMs: number, signal: AbortSignal | undefined): Promise<void> {
    const wait = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, pauseMs));
    return this.#bounded(wait, pauseMs * 2, signal);
  }

  /** Does something until it is done, its time is up, its caller has lost interest, or the client is closed. */
  #bounded<Value>(
    work: (signal: AbortSignal) => Promise<Value>,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Value> {
    if (this.#closed) return Promise.reject(clientClosed());
    const controller = new AbortController();
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    const end = (error: unknown): void => {
      reject(error);
      controller.abort();
    };
    const lose = (): void => end(signal?.reason);
    if (signal?.aborted === true) lose();
    const timer = setTimeout(() => end(new Error(`${timeoutMs} ms have passed`)), timeoutMs);
    signal?.addEventListener('abort', lose);
    this.#underWay.add(end);
    work(controller.signal).then(resolve, reject);
    return promise.finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', lose);
      this.#underWay.delete(end);
    });
  }
}

function toSearch(query: Readonly<Record<string, unknown>> = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? (value as readonly unknown[]) : [value]) {
      if (one !== undefined) search.append(key, toText(one));
    }
  }
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}

// What is no text, number or flag is refused by the server, which sees what it was.
function toText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

// A page cannot read why it was refused: the log of the server has it.
function adviceFor(origin: string | undefined): string {
  if (origin === undefined) return '';
  return ` If it is, it may refuse this page: the \`allowedOrigins\` of serve() must include ${JSON.stringify(origin)}.`;
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as { readonly message?: unknown; readonly cause?: unknown };
  // Node says no more than "fetch failed", and why in the cause.
  const inner =
    (cause as { readonly code?: unknown; readonly message?: unknown } | undefined) ?? {};
  return String(inner.code ?? inner.message ?? message);
}

const firstMs = 100;
const longestMs = 3_000;

/** How long to wait before the next attempt: longer each time, and never together with all the others. */
function backoffMs(attempt: number): number {
  const fullMs = Math.min(longestMs, firstMs * 2 ** Math.min(attempt, 10));
  return fullMs * (0.5 + Math.random() / 2);
}
