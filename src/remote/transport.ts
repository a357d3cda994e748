import { clientClosed } from '../client/waiting/instance-errors.ts';
import { decodeBody } from '../model/encoding/encoded-value.ts';
import { encodedPrefix } from '../model/encoding/envelope.ts';
import { PayloadSealer } from '../model/encoding/payload-sealer.ts';
import type { TraceContext } from '../model/trace-context.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { writePath, type PathParams } from '../server/routes/route.ts';
import type { CheckedConnect } from './connect-options.ts';
import { operations, type ResponseBody, type Operation, type Request } from './operations.ts';
import { readMessages } from './event-source.ts';
import { readMessage, readResponse, readText } from './read-response.ts';
import { foreignPageOrigin, UnreachableError, wasNeverSent } from './remote-error.ts';

/** The options of a call that starts instances: repeatable, but a repeat must not run a deleted instance again. */
export const startOptions = { repeatable: true, marksRepeats: true } as const;

/** Options of one call. */
export interface CallOptions {
  /** Whether the call is idempotent. Default: true for GET. */
  readonly repeatable?: boolean | undefined;
  /** How long to retry while the server is unreachable. Default: that of the connection. */
  readonly retryForMs?: number | undefined;
  /** Timeout of one attempt. Default: that of the connection. */
  readonly timeoutMs?: number | undefined;
  /** Added to the timeout: how long the server may hold the request. */
  readonly waitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether a request after an attempt with an unknown outcome says so, as `repeat` in its body. Default: false. */
  readonly marksRepeats?: boolean | undefined;
  /** Sent as the W3C headers of the request. */
  readonly trace?: TraceContext | undefined;
}

interface Parts {
  readonly params?: PathParams;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
}

/**
 * Sends requests and retries them, one HTTP request per attempt.
 *
 * T1. A call whose response was lost is retried only if it is `repeatable`. Otherwise it rejects with a `ProviderError`
 *     whose `outcomeUnknown` is set.
 *     A repeat of a start is marked as one, so that it does not run a deleted instance again.
 * T2. Each attempt has a timeout, and `close` aborts all of them.
 * T3. The token is sent to this server only: redirects are errors.
 */
export class Transport {
  readonly #options: CheckedConnect;
  readonly #running = new Set<(error: Error) => void>();
  #wasReached = false;
  readonly #streams = new Set<(error: Error) => void>();
  #streamsClosed = false;
  #closed = false;
  readonly #sealer: PayloadSealer | undefined;

  constructor(options: CheckedConnect) {
    this.#options = options;
    const { codec } = options;
    this.#sealer = codec && PayloadSealer.forReads(codec);
  }

  /** Rejects all running calls with `CLOSED`. */
  close(): void {
    this.#closed = true;
    for (const end of this.#running) end(clientClosed());
  }

  /** Calls a route, with retries if the call is repeatable. */
  async call<Name extends Operation>(
    name: Name,
    request: Request<Name>,
    options: CallOptions = {},
  ): Promise<ResponseBody<Name>> {
    const { repeatable = operations[name].startsWith('GET ') } = options;
    const first: Parts = request as Parts;
    let sent = first;
    const deadline = performance.now() + (options.retryForMs ?? this.#options.retryForMs);
    for (let attempt = 0; ; attempt++) {
      try {
        return (await this.#attempt(name, sent, options)) as ResponseBody<Name>;
      } catch (error) {
        if (!(error instanceof UnreachableError)) throw error;
        if (error.outcomeUnknown && !repeatable) throw error;
        if (error.outcomeUnknown && options.marksRepeats === true) sent = toRepeat(first);
        // A retry does not help if the server rejects the origin of this page.
        if (error.maybeForeignOrigin && !this.#wasReached) throw error;
        const pauseMs = Math.max(backoffMs(attempt), error.waitMs);
        if (performance.now() + pauseMs > deadline) throw error;
        await this.#pause(pauseMs, options.signal);
      }
    }
  }

  /**
   * Yields the messages of a stream. Opens it again, with a new request, when the connection is lost or the server
   * closes. Ends only with an error, or by the caller.
   */
  async *follow<Name extends Operation>(
    name: Name,
    request: () => Request<Name>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ResponseBody<Name>, void, undefined> {
    for (let attempt = 0; ; attempt += 1) {
      const controller = new AbortController();
      const end = (error: Error): void => controller.abort(error);
      const onAbort = (): void => controller.abort(signal?.reason);
      if (this.#streamsClosed) throw clientClosed();
      signal?.throwIfAborted();
      signal?.addEventListener('abort', onAbort);
      this.#streams.add(end);
      let pauseMs = backoffMs(attempt);
      try {
        for await (const message of this.#open(name, request() as Parts, controller.signal)) {
          attempt = 0;
          pauseMs = backoffMs(0);
          yield message as ResponseBody<Name>;
        }
      } catch (error) {
        if (controller.signal.aborted) throw controller.signal.reason;
        if (!(error instanceof UnreachableError)) throw error;
        if (error.maybeForeignOrigin && !this.#wasReached) throw error;
        pauseMs = Math.max(pauseMs, error.waitMs);
      } finally {
        this.#streams.delete(end);
        signal?.removeEventListener('abort', onAbort);
        controller.abort();
      }
      await this.#pause(pauseMs, signal);
    }
  }

  /** Rejects all open streams with `CLOSED`. */
  closeStreams(): void {
    this.#streamsClosed = true;
    for (const end of this.#streams) end(clientClosed());
  }

  /** Opens a stream once, and yields its messages until it ends. */
  async *#open(
    name: Operation,
    parts: Parts,
    signal: AbortSignal,
  ): AsyncGenerator<unknown, void, undefined> {
    const [method = '', pattern = ''] = operations[name].split(' ');
    const { baseUrl, fetch, answerLimitBytes, requestTimeoutMs } = this.#options;
    const url = baseUrl + writePath(pattern, parts.params) + toSearch(parts.query);
    try {
      const init = this.#init(method, parts.body, 'text/event-stream');
      const response = await this.#bounded(
        () => fetch(url, { ...init, signal }),
        requestTimeoutMs,
        signal,
      );
      this.#wasReached = true;
      if (!response.ok || response.body === null) {
        const text = await readText(response, name, answerLimitBytes);
        readResponse({ ok: false, status: response.status, headers: response.headers }, text, name);
        return;
      }
      const limits = { limitBytes: answerLimitBytes, idleMs: streamIdleMs };
      for await (const { event, data } of readMessages(response.body, limits)) {
        yield await this.#decode(readMessage(data, event === 'error', name), data);
      }
    } catch (error) {
      if (error instanceof PerdureError || signal.aborted) throw error;
      const origin = error instanceof TypeError ? foreignPageOrigin(baseUrl) : undefined;
      throw new UnreachableError({
        operation: name,
        message: `The stream of the server at ${baseUrl} was lost: ${reasonOf(error)}.`,
        outcomeUnknown: false,
        maybeForeignOrigin: origin !== undefined,
        cause: error,
      });
    }
  }

  async #attempt(name: Operation, parts: Parts, options: CallOptions): Promise<unknown> {
    const [method = '', pattern = ''] = operations[name].split(' ');
    const { baseUrl, fetch, answerLimitBytes } = this.#options;
    const url = baseUrl + writePath(pattern, parts.params) + toSearch(parts.query);
    const { timeoutMs = this.#options.requestTimeoutMs, waitMs = 0 } = options;
    const isRead = method === 'GET';
    const exchange = async (signal: AbortSignal): Promise<unknown> => {
      const init = { ...this.#init(method, parts.body, undefined, options.trace), signal };
      const response = await fetch(url, init);
      this.#wasReached = true;
      const text = await readText(response, name, answerLimitBytes);
      return this.#decode(readResponse(response, text, name), text);
    };
    try {
      return await this.#bounded(exchange, timeoutMs + waitMs, options.signal);
    } catch (error) {
      if (error instanceof PerdureError || options.signal?.aborted === true) throw error;
      const origin = error instanceof TypeError ? foreignPageOrigin(baseUrl) : undefined;
      throw new UnreachableError({
        operation: name,
        message: `The server at ${baseUrl} did not respond: ${reasonOf(error)}. Check that it is running and that the URL is correct.${adviceFor(origin)}`,
        outcomeUnknown: !isRead && !wasNeverSent(error),
        maybeForeignOrigin: origin !== undefined,
        cause: error,
      });
    }
  }

  #init(
    ...[method, body, accept = 'application/json', trace]: readonly [
      method: string,
      body: unknown,
      accept?: string,
      trace?: TraceContext,
    ]
  ): RequestInit {
    const { token } = this.#options;
    return {
      method,
      headers: {
        accept,
        ...(method === 'POST' && { 'content-type': 'application/json' }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(trace !== undefined && { traceparent: trace.traceparent }),
        ...(trace?.tracestate !== undefined && { tracestate: trace.tracestate }),
      },
      ...(method === 'POST' && { body: JSON.stringify(body ?? {}) }),
      redirect: 'error',
      credentials: 'omit',
    };
  }

  /** Decodes the payloads of a body whose text contains encoded ones. */
  #decode(body: unknown, text: string): unknown {
    const sealer = this.#sealer;
    return sealer === undefined || !text.includes(encodedPrefix) ? body : decodeBody(body, sealer);
  }

  #pause(pauseMs: number, signal: AbortSignal | undefined): Promise<void> {
    const wait = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, pauseMs));
    return this.#bounded(wait, pauseMs * 2, signal);
  }

  /** Runs `work` until it settles, its timeout ends, its signal aborts or the client is closed. */
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
    const onAbort = (): void => end(signal?.reason);
    if (signal?.aborted === true) onAbort();
    const timer = setTimeout(() => end(new Error(`timed out after ${timeoutMs} ms`)), timeoutMs);
    signal?.addEventListener('abort', onAbort);
    this.#running.add(end);
    work(controller.signal).then(resolve, reject);
    return promise.finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      this.#running.delete(end);
    });
  }
}

function toRepeat(request: Parts): Parts {
  return { ...request, body: { ...(request.body as object), repeat: true } };
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

// The server rejects values of other types.
function toText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

// A page cannot read why the server rejected it; the log of the server has the reason.
function adviceFor(origin: string | undefined): string {
  if (origin === undefined) return '';
  return ` The server may reject this page: add ${JSON.stringify(origin)} to \`allowedOrigins\` of serve().`;
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as { readonly message?: unknown; readonly cause?: unknown };
  // Node reports "fetch failed" and has the reason in the cause.
  const inner =
    (cause as { readonly code?: unknown; readonly message?: unknown } | undefined) ?? {};
  return String(inner.code ?? inner.message ?? message);
}

// The server sends a heartbeat every 15 s by default.
const streamIdleMs = 60_000;
const firstMs = 100;
const longestMs = 3_000;

/** Returns the pause before the next attempt: exponential backoff with jitter. */
function backoffMs(attempt: number): number {
  const fullMs = Math.min(longestMs, firstMs * 2 ** Math.min(attempt, 10));
  return fullMs * (0.5 + Math.random() / 2);
}
