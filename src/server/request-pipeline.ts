import { LocalClient } from '../client/local-client.ts';
import { readTraceHeaders } from '../model/trace-context.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { Admission } from './limits/admission.ts';
import {
  emptyResponse,
  eventResponse,
  jsonResponse,
  textResponse,
  toByteStream,
  toTextStream,
} from './http/responses.ts';
import type { ByteReservation } from './limits/byte-budget.ts';
import {
  AccessRechecks,
  assertRole,
  isSameCaller,
  type AuthorizeRequest,
} from './access/authentication.ts';
import type { ServerContext } from './server-context.ts';
import { networkOf } from './http/connections.ts';
import {
  checkPathAndQuery,
  checkBody,
  readJson,
  type CheckedRequest,
} from './http/read-request.ts';
import { toEventStream } from './http/event-stream.ts';
import type { CheckedOptions } from './handler.ts';
import { handlers } from './handlers/table.ts';
import {
  RejectionLog,
  type CountedRoute,
  type DashboardRoute,
  type ServerMetrics,
} from './monitoring/server-metrics.ts';
import {
  bodyTimeout,
  HttpError,
  requestTimeout,
  serverClosing,
  sessionEnded,
  statusOf,
  toWireError,
  unauthenticated,
  unavailable,
  withTimeout,
} from './http/errors.ts';
import { restrictedHandlers } from './access/restricted-handlers.ts';
import type { RouteShape } from './routes/route.ts';
import { Router, type Match } from './router.ts';
import type { Caller } from './access/tokens.ts';

/** The connection of a request, as far as the pipeline needs it. */
export interface Connection {
  /** Address of the peer. Wrong tokens are counted by it, and limits if the server has no tokens. */
  readonly remoteAddress?: string | undefined;
  /** Called when a request was authenticated. */
  readonly onAuthenticated?: (() => void) | undefined;
  /** Whether other requests on the connection have no response yet. */
  readonly isPipelined?: (() => boolean) | undefined;
  /** Registers a callback for the end of the response. Absent: the response ends when its body was read. */
  readonly whenSent?: ((release: () => void) => void) | undefined;
}

export interface PipelineParams extends CheckedOptions {
  readonly admission: Admission;
  readonly metrics: ServerMetrics;
  readonly serverContext: ServerContext;
  /** Whether every write is rejected. */
  readonly isReadOnly: boolean;
}

/** One request, from its arrival to the end of its response. */
interface RequestContext {
  readonly requestId: string;
  readonly request: Request;
  readonly connection: Connection;
  readonly corsHeaders: Readonly<Record<string, string>>;
  /** Aborts when the caller disconnects, loses its access, or the server closes. */
  readonly signal: AbortSignal;
  /** Aborts `signal` because the response is no longer needed. */
  readonly giveUp: () => void;
  /** Aborts `signal` because the caller lost its access. */
  readonly revoke: (error: HttpError) => void;
  /** Unregisters the request. Called once, after its response has ended. */
  readonly end: () => void;
  route: CountedRoute;
  /** Whether the response is a stream, which calls `end` itself. */
  isStreaming: boolean;
  caller: Caller | undefined;
}

/** A request that passed every check and holds its capacity. */
interface AdmittedRequest {
  readonly match: Match;
  readonly context: RequestContext;
  readonly caller: Caller;
  /** The key that limits are counted by. */
  readonly limitKey: string;
  readonly input: CheckedRequest;
  /** Releases the capacity and the bytes of the body. */
  readonly release: () => void;
}

type AnyHandler = (
  call: object,
  context: ServerContext,
) => Promise<unknown> | AsyncIterable<unknown>;

// Smaller responses are not counted: one per connection fits into memory.
const smallResponseLength = 64 * 1024;

const anonymous: Caller = { name: null, role: 'admin' };

/** Runs every request through the same steps; `#runSteps` lists them in order. */
export class RequestPipeline {
  readonly #params: PipelineParams;
  readonly #router = new Router();
  readonly #active = new Set<AbortController>();
  readonly #rechecks: AccessRechecks;
  readonly #rejections: RejectionLog;
  #closed = false;

  constructor(params: PipelineParams) {
    this.#params = params;
    this.#rechecks = new AccessRechecks(params.authMaxAgeMs);
    this.#rejections = new RejectionLog(params.logger, params.metrics);
  }

  /** Returns the response to a request. Never rejects. */
  handle(request: Request, connection: Connection): Promise<Response> {
    const context = this.#begin(request, connection);
    return this.#finish(context, () => this.#runSteps(context));
  }

  /** Runs `respond` for a request that is not in the table of routes, with the same errors, metrics and logs. */
  handleOther(
    route: DashboardRoute,
    request: Request,
    connection: Connection,
    respond: (requestId: string) => Promise<Response>,
  ): Promise<Response> {
    const context = this.#begin(request, connection);
    context.route = route;
    return this.#finish(context, () => {
      if (this.#closed) throw serverClosing();
      return respond(context.requestId);
    });
  }

  /** Authorizes open streams and waits again, of the requests that match. */
  recheckAccess(matches: (headers: Headers) => boolean): void {
    this.#rechecks.checkNow(matches);
  }

  async #finish(context: RequestContext, run: () => Promise<Response>): Promise<Response> {
    let response: Response;
    let isStreaming = false;
    try {
      response = await run();
      isStreaming = context.isStreaming;
    } catch (error) {
      response = this.#toErrorResponse(error, context);
    } finally {
      if (!isStreaming) context.end();
    }
    const { requestId, route } = context;
    const { status } = response;
    this.#params.metrics.countResponse(route, status);
    this.#params.logger.debug({ requestId, route, status }, 'request handled');
    return response;
  }

  /** Aborts the active requests and rejects later ones with 503. */
  close(): void {
    this.#closed = true;
    for (const controller of this.#active) controller.abort(serverClosing());
  }

  /** The steps of a request. A step that throws ends it with an error response. */
  async #runSteps(context: RequestContext): Promise<Response> {
    const { headers } = context.request;
    if (this.#closed) throw serverClosing();
    this.#params.origins.check(headers);
    const preflight = this.#respondToPreflight(context);
    if (preflight !== undefined) return preflight;
    const url = new URL(context.request.url);
    const match = this.#matchRoute(context, url);
    const caller = await this.#authenticate(match, context);
    assertRole(match.shape, caller);
    if (this.#params.isReadOnly) assertReads(match.shape);
    const pathAndQuery = checkPathAndQuery(match, url, this.#params.limits.queryParameters);
    const admitted = await this.#admit(match, { context, caller, pathAndQuery });
    return this.#respond(admitted);
  }

  #begin(request: Request, connection: Connection): RequestContext {
    const controller = new AbortController();
    const giveUp = (): void => controller.abort(unavailable('The caller disconnected.'));
    if (request.signal.aborted) giveUp();
    request.signal.addEventListener('abort', giveUp, { once: true });
    this.#active.add(controller);
    const end = (): void => {
      this.#active.delete(controller);
      request.signal.removeEventListener('abort', giveUp);
    };
    return {
      requestId: randomToken(),
      request,
      connection,
      corsHeaders: this.#params.origins.corsHeaders(request.headers),
      signal: controller.signal,
      giveUp,
      revoke: (error) => controller.abort(error),
      end,
      route: 'none',
      isStreaming: false,
      caller: undefined,
    };
  }

  #respondToPreflight({ request, requestId }: RequestContext): Response | undefined {
    if (request.method !== 'OPTIONS') return undefined;
    const headers = this.#params.origins.preflightHeaders(request.headers);
    return headers && emptyResponse({ requestId, headers });
  }

  #matchRoute(context: RequestContext, url: URL): Match {
    const match = this.#router.match(context.request.method, url.pathname);
    context.route = match.name;
    return match;
  }

  async #authenticate({ shape }: Match, context: RequestContext): Promise<Caller> {
    const { request, connection } = context;
    const { authentication, admission, limits } = this.#params;
    if (shape.role === 'public') return anonymous;
    if (authentication === undefined) {
      connection.onAuthenticated?.();
      return anonymous;
    }
    const found = authentication.identify(request.headers, () => toAuthorizeRequest(context));
    const timeout = (): HttpError => unavailable('Authentication timed out.');
    const isAsync = found instanceof Promise;
    const caller = isAsync ? await withTimeout(found, limits.requestMs, timeout) : found;
    if (caller === undefined) {
      // Not counted: open pages send many requests when their session ends.
      if (authentication.usesSession(request.headers)) throw sessionEnded();
      admission.countWrongToken(networkOf(connection.remoteAddress ?? ''));
      throw unauthenticated();
    }
    connection.onAuthenticated?.();
    context.caller = caller;
    return caller;
  }

  /**
   * Checks the write rate, reads the body, then waits for capacity. The body comes first, so that a slow upload takes no
   * capacity from other requests.
   */
  async #admit(
    match: Match,
    checked: {
      readonly context: RequestContext;
      readonly caller: Caller;
      readonly pathAndQuery: CheckedRequest;
    },
  ): Promise<AdmittedRequest> {
    const { shape } = match;
    const { admission } = this.#params;
    const { context, caller, pathAndQuery } = checked;
    // The leading space keeps addresses apart from names of tokens.
    const limitKey = caller.name ?? ` ${context.connection.remoteAddress ?? ''}`;
    admission.checkRate(shape, limitKey);
    const bytes = admission.openBody(shape, limitKey);
    try {
      const body = await this.#readBody(shape, context.request, bytes);
      const releaseCapacity = await admission.admit(shape, limitKey, context.signal);
      const release = (): void => {
        releaseCapacity();
        bytes.release();
      };
      return { match, context, caller, limitKey, input: { ...pathAndQuery, ...body }, release };
    } catch (error) {
      bytes.release();
      throw error;
    }
  }

  async #readBody(
    { body, bulk, urgent }: RouteShape,
    request: Request,
    bytes: ByteReservation,
  ): Promise<CheckedRequest> {
    if (body === undefined) return {};
    const { bulkBodyBytes, bodyBytes, urgentBodyBytes, requestMs } = this.#params.limits;
    const limit = urgent === true ? urgentBodyBytes : bulk === true ? bulkBodyBytes : bodyBytes;
    const json = readJson(request, limit, bytes);
    return checkBody(body, await withTimeout(json, requestMs, bodyTimeout));
  }

  async #respond(admitted: AdmittedRequest): Promise<Response> {
    const { shape } = admitted.match;
    if (shape.as === 'events') return this.#streamEvents(admitted);
    if (shape.exports === true) return this.#streamJson(admitted);
    const { requestId, corsHeaders: headers } = admitted.context;
    const value = await this.#runHandler(admitted);
    const isText = shape.as === 'text';
    const body = this.#toBody(admitted, isText ? String(value) : JSON.stringify(value));
    return isText
      ? textResponse(body, { requestId, headers })
      : jsonResponse(body, { requestId, headers });
  }

  /** Runs the handler of a route. Its capacity is held until the handler settles, even after a timeout. */
  async #runHandler(admitted: AdmittedRequest): Promise<unknown> {
    const { match, context, release } = admitted;
    const settled = this.#callHandler(admitted).finally(release);
    if (match.shape.waits !== true) {
      return withTimeout(settled, this.#params.limits.requestMs, requestTimeout);
    }
    const stopWatching = this.#watchAccess(admitted);
    try {
      const value = await settled;
      // A caller whose access was revoked must not get the result.
      if (isRevoked(context.signal)) throw context.signal.reason;
      return value;
    } finally {
      stopWatching();
    }
  }

  /** Returns the body of a response. A large body counts against the response budget until it was sent. */
  #toBody(
    { match, context, limitKey }: AdmittedRequest,
    text: string,
  ): string | ReadableStream<Uint8Array> {
    const { shape } = match;
    // Responses to writes are small and always sent, so that the caller knows what was committed.
    const isCounted = shape.method === 'GET' || shape.waits === true || shape.large === true;
    const isLimited = isCounted && shape.role !== 'public';
    // A caller can pipeline hundreds of requests on one connection and read none of the responses.
    const isPipelined = context.connection.isPipelined?.() === true;
    if (!isLimited || (!isPipelined && text.length <= smallResponseLength)) return text;
    const bytes = Buffer.from(text);
    const reservation = this.#params.admission.openResponse(limitKey);
    reservation.add(bytes.byteLength);
    const { whenSent } = context.connection;
    // Pipelined responses stay in memory after they were read, until those before them are sent.
    whenSent?.(reservation.release);
    const onRead = whenSent === undefined ? reservation.release : (): void => undefined;
    return toByteStream(bytes, context.request.signal, onRead);
  }

  /** Responds with JSON that is serialized while it is sent. Holds the capacity of a stream. */
  async #streamJson(admitted: AdmittedRequest): Promise<Response> {
    const { context } = admitted;
    const { requestId, request, signal, corsHeaders: headers } = context;
    const parts = (await this.#openStream(admitted)) as AsyncIterable<string>;
    const stopWatching = this.#watchAccess(admitted);
    context.isStreaming = true;
    const stream = toTextStream(parts, {
      signal,
      // When the server closes, a caller that keeps reading still gets the rest.
      failsOnAbort: () => isRevoked(signal) || request.signal.aborted,
      onError: (error) => this.#logError(error, context),
      onEnd: () => this.#endStream(admitted, stopWatching),
    });
    return jsonResponse(stream, { requestId, headers });
  }

  async #streamEvents(admitted: AdmittedRequest): Promise<Response> {
    const { context } = admitted;
    const { requestId, signal, corsHeaders: headers } = context;
    const messages = await this.#openStream(admitted);
    const stopWatching = this.#watchAccess(admitted);
    const stream = toEventStream(messages as AsyncIterable<unknown>, {
      heartbeatMs: this.#params.limits.heartbeatMs,
      toErrorData: (error) => {
        this.#logError(error, context);
        return { error: toWireError(error, this.#params.showStacks), requestId };
      },
      onEnd: () => this.#endStream(admitted, stopWatching),
      signal,
      isRevoked: () => isRevoked(signal),
    });
    context.isStreaming = true;
    return eventResponse(stream, { requestId, headers });
  }

  /** Starts the handler of a stream. An error has its own status, because no header was sent yet. */
  async #openStream(admitted: AdmittedRequest): Promise<unknown> {
    const opened = this.#callHandler(admitted);
    try {
      return await withTimeout(opened, this.#params.limits.requestMs, requestTimeout);
    } catch (error) {
      // After a timeout the handler still runs, so it keeps its capacity until it settles.
      opened.catch(() => undefined).finally(admitted.release);
      throw error;
    }
  }

  #endStream({ context, release }: AdmittedRequest, stopWatching: () => void): void {
    stopWatching();
    release();
    // Not every server aborts the request when the reader of its response disconnects.
    context.giveUp();
    context.end();
  }

  async #callHandler({ match, context, caller, input }: AdmittedRequest): Promise<unknown> {
    const { signal } = context;
    const table = caller.definitions === undefined ? handlers : restrictedHandlers;
    const handler = table[match.name] as unknown as AnyHandler;
    const lastEventId = context.request.headers.get('last-event-id') ?? undefined;
    return handler({ ...input, caller, signal, lastEventId }, this.#contextOf(match, context));
  }

  /** Passes on the trace context of a write. */
  #contextOf({ shape }: Match, { request: { headers } }: RequestContext): ServerContext {
    const { serverContext } = this.#params;
    if (shape.method !== 'POST' || !headers.has('traceparent')) return serverContext;
    const trace = readTraceHeaders(headers, serverContext.clock.now());
    if (trace === undefined) return serverContext;
    return { ...serverContext, client: LocalClient.onBehalfOf(serverContext.client, trace) };
  }

  /** Re-authenticates an open stream or wait periodically, and aborts it when access is lost. */
  #watchAccess({ match, context, caller }: AdmittedRequest): () => void {
    const { authentication } = this.#params;
    if (authentication === undefined || caller === anonymous) return () => undefined;
    const { headers } = context.request;
    return this.#rechecks.add({
      headers,
      check: async () => {
        const current = await authentication.identify(headers, () => toAuthorizeRequest(context));
        if (current !== undefined) assertRole(match.shape, current);
        if (current === undefined || !isSameCaller(current, caller))
          throw unauthenticated('revoked');
      },
      onRejected: (error) => {
        // Tokens that cannot be loaded now are loaded again for the next check.
        if (!(error instanceof HttpError) || error.reason === undefined) return;
        this.#logRejection(error, context);
        context.revoke(error);
      },
    });
  }

  #toErrorResponse(error: unknown, context: RequestContext): Response {
    const { requestId, corsHeaders, signal } = context;
    this.#logError(error, context);
    if (error instanceof HttpError && !isRevoked(signal)) this.#logRejection(error, context);
    return jsonResponse(
      JSON.stringify({ error: toWireError(error, this.#params.showStacks), requestId }),
      {
        status: statusOf(error),
        requestId,
        headers: { ...corsHeaders, ...(error instanceof HttpError && error.headers) },
      },
    );
  }

  #logRejection({ status, reason }: HttpError, context: RequestContext): void {
    const { requestId, route, caller, connection, request } = context;
    if (reason === undefined) return;
    this.#rejections.add({
      requestId,
      route,
      status,
      reason,
      caller: caller?.name,
      remoteAddress: connection.remoteAddress,
      origin: request.headers.get('origin'),
    });
  }

  #logError(error: unknown, { requestId, route, signal }: RequestContext): void {
    if (statusOf(error) < 500 || error instanceof HttpError || signal.aborted) return;
    this.#params.logger.error({ requestId, route, error }, 'request failed');
  }
}

/** Throws 403 for a write. Reads with many ids are POST requests too. */
function assertReads({ method, role }: RouteShape): void {
  if (method === 'GET' || role === 'read') return;
  throw new HttpError('READ_ONLY', 'This dashboard is read-only: it accepts no writes.', {
    status: 403,
    reason: 'readOnly',
  });
}

/** Whether a signal was aborted because the caller lost its access. */
function isRevoked(signal: AbortSignal): boolean {
  return signal.aborted && signal.reason instanceof HttpError && signal.reason.reason !== undefined;
}

function toAuthorizeRequest({ request, connection }: RequestContext): AuthorizeRequest {
  const { method, headers } = request;
  const { pathname, search } = new URL(request.url);
  return { method, path: pathname + search, headers, remoteAddress: connection.remoteAddress };
}
