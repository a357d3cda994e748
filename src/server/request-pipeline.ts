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
import { AccessRechecks, type AuthorizeRequest } from './access/authentication.ts';
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
import { RejectionLog, type ServerMetrics } from './monitoring/server-metrics.ts';
import { HttpError, unauthenticated, unavailable, statusOf, toWireError } from './http/errors.ts';
import { restrictedHandlers } from './access/restricted-handlers.ts';
import { roles, type Role, type RouteShape } from './routes/route.ts';
import type { RouteName } from './routes/table.ts';
import { Router, type Match } from './router.ts';
import type { Caller } from './access/tokens.ts';

/** What is known of the connection that a request came by. */
export interface Connection {
  /** Where it comes from: wrong tokens are counted by it, and limits where there are no tokens. */
  readonly remoteAddress?: string | undefined;
  /** Called when a request was authenticated. */
  readonly onAuthenticated?: (() => void) | undefined;
  /** Whether it has other requests that are not answered yet. */
  readonly isPipelined?: (() => boolean) | undefined;
  /** Calls something back when the answer was sent or given up. Absent: an answer counts as sent when it was read. */
  readonly whenSent?: ((release: () => void) => void) | undefined;
}

export interface PipelineParams extends CheckedOptions {
  readonly admission: Admission;
  readonly metrics: ServerMetrics;
  readonly serverContext: ServerContext;
}

/** One request on its way. */
interface RequestContext {
  readonly requestId: string;
  readonly request: Request;
  readonly connection: Connection;
  /** Aborts when the caller has gone or the server goes. */
  readonly signal: AbortSignal;
  /** Nobody wants the answer any more. */
  readonly giveUp: () => void;
  /** The caller may no longer have the answer. */
  readonly revoke: (refusal: HttpError) => void;
  /** Says that the passage is over, also where its answer goes on as a stream. */
  readonly end: () => void;
  route: RouteName | 'none';
  /** Its response is streamed: the end of the stream ends the passage. */
  goesOn: boolean;
  caller: Caller | undefined;
}

/** A request that was let in. */
interface Admitted {
  readonly passage: RequestContext;
  readonly caller: Caller;
  /** Who its limits are counted for. */
  readonly key: string;
  readonly asked: CheckedRequest;
  /** Gives its place and the bytes of its body back. */
  readonly leave: () => void;
}

type AnyHandler = (
  call: object,
  context: ServerContext,
) => Promise<unknown> | AsyncIterable<unknown>;

// Smaller answers are not counted: one for each connection fits into memory.
const smallAnswerLength = 64 * 1024;

const anonymous: Caller = { name: null, role: 'admin' };

/**
 * The way of every request: the name that it asks for and the origin that it comes from, its route, who asks, whether
 * they may, what they ask, whether there is room, and only then the work. What fails on the way is refused there. A body
 * is read before a place is taken, so that a body that comes slowly keeps no other request out.
 */
export class RequestPipeline {
  readonly #params: PipelineParams;
  readonly #router = new Router();
  readonly #underWay = new Set<AbortController>();
  readonly #rechecks: AccessRechecks;
  readonly #refusals: RejectionLog;
  #closed = false;

  constructor(params: PipelineParams) {
    this.#params = params;
    this.#rechecks = new AccessRechecks(params.authMaxAgeMs);
    this.#refusals = new RejectionLog(params.logger, params.metrics);
  }

  /** Answers a request, whatever it is; never rejects. */
  async handle(request: Request, connection: Connection): Promise<Response> {
    const passage = this.#begin(request, connection);
    const { requestId } = passage;
    const headers = this.#params.origins.corsHeaders(request.headers);
    let response: Response;
    let goesOn = false;
    try {
      response = await this.#pass(passage, headers);
      goesOn = passage.goesOn;
    } catch (error) {
      response = this.#refuse(error, passage, headers);
    } finally {
      if (!goesOn) passage.end();
    }
    this.#params.metrics.countResponse(passage.route, response.status);
    this.#params.logger.debug(
      { requestId, route: passage.route, status: response.status },
      'A request was answered.',
    );
    return response;
  }

  close(): void {
    this.#closed = true;
    for (const controller of this.#underWay) controller.abort(goingAway());
  }

  #begin(request: Request, connection: Connection): RequestContext {
    const controller = new AbortController();
    const giveUp = (): void => controller.abort(unavailable('The caller has gone.'));
    if (request.signal.aborted) giveUp();
    request.signal.addEventListener('abort', giveUp, { once: true });
    this.#underWay.add(controller);
    const end = (): void => {
      this.#underWay.delete(controller);
      request.signal.removeEventListener('abort', giveUp);
    };
    return {
      requestId: randomToken(),
      request,
      connection,
      signal: controller.signal,
      giveUp,
      revoke: (refusal) => controller.abort(refusal),
      end,
      route: 'none',
      goesOn: false,
      caller: undefined,
    };
  }

  async #pass(
    passage: RequestContext,
    headers: Readonly<Record<string, string>>,
  ): Promise<Response> {
    const { request, requestId } = passage;
    const { origins, limits } = this.#params;
    if (this.#closed) throw goingAway();
    origins.check(request.headers);
    const preflight = request.method === 'OPTIONS' && origins.preflightHeaders(request.headers);
    if (preflight) return emptyResponse({ requestId, headers: preflight });
    const url = new URL(request.url);
    const match = this.#router.match(request.method, url.pathname);
    passage.route = match.name;
    const { shape } = match;
    const caller = await this.#authorize(shape, passage);
    const address = checkPathAndQuery(match, url, limits.queryParameters);
    const call = await this.#admit(match, { passage, caller, address });
    if (shape.as === 'events') return this.#stream(match, call, headers);
    if (shape.exports === true) return this.#export(match, call, headers);
    const value = await this.#work(match, call);
    const isText = shape.as === 'text';
    const body = this.#bodyOf(shape, call, isText ? String(value) : JSON.stringify(value));
    return isText
      ? textResponse(body, { requestId, headers })
      : jsonResponse(body, { requestId, headers });
  }

  /** Reads the body of a request, and then waits until there is a place for it. */
  async #admit(
    { shape }: Match,
    asks: {
      readonly passage: RequestContext;
      readonly caller: Caller;
      readonly address: CheckedRequest;
    },
  ): Promise<Admitted> {
    const { admission } = this.#params;
    const { passage, caller, address } = asks;
    // The space keeps addresses and names of tokens apart.
    const key = caller.name ?? ` ${passage.connection.remoteAddress ?? ''}`;
    admission.checkRate(shape, key);
    const held = admission.openBody(shape, key);
    try {
      const asked = { ...address, ...(await this.#readBody(shape, passage.request, held)) };
      const giveBack = await admission.admit(shape, key, passage.signal);
      const leave = (): void => {
        giveBack();
        held.release();
      };
      return { passage, caller, key, asked, leave };
    } catch (error) {
      held.release();
      throw error;
    }
  }

  /** The body of an answer. A large one counts as held until its caller has read it. */
  #bodyOf(
    shape: RouteShape,
    { passage, key }: Admitted,
    text: string,
  ): string | ReadableStream<Uint8Array> {
    // What was changed is told in any case where the answer is small.
    const isCounted = shape.method === 'GET' || shape.waits === true || shape.large === true;
    // A caller can send hundreds of requests on one connection, and read none of the answers.
    const isOne = passage.connection.isPipelined?.() !== true;
    const isLimited = isCounted && shape.role !== 'public';
    if (!isLimited || (isOne && text.length <= smallAnswerLength)) return text;
    const bytes = Buffer.from(text);
    const held = this.#params.admission.openResponse(key);
    held.add(bytes.byteLength);
    const { whenSent } = passage.connection;
    // Answers wait in memory for those before them, also when they were read.
    whenSent?.(held.release);
    const onRead = whenSent === undefined ? held.release : (): void => undefined;
    return toByteStream(bytes, passage.request.signal, onRead);
  }

  async #authorize(shape: RouteShape, passage: RequestContext): Promise<Caller> {
    const { request, connection } = passage;
    const { authentication, admission, limits } = this.#params;
    if (shape.role === 'public') return anonymous;
    if (authentication === undefined) {
      connection.onAuthenticated?.();
      return anonymous;
    }
    const found = authentication.identify(request.headers, () => describe(passage));
    const caller =
      found instanceof Promise ? await within(found, limits.requestMs, authorizesTooLong) : found;
    if (caller === undefined) {
      admission.countWrongToken(networkOf(connection.remoteAddress ?? ''));
      throw unauthenticated();
    }
    connection.onAuthenticated?.();
    passage.caller = caller;
    return assertRole(shape, caller);
  }

  /** Ends a stream or a wait once its caller may no longer have it; returns how to stop looking. */
  #watchAccess(shape: RouteShape, passage: RequestContext, caller: Caller): () => void {
    const { authentication } = this.#params;
    if (authentication === undefined || caller === anonymous) return () => undefined;
    const { headers } = passage.request;
    return this.#rechecks.add({
      check: async () => {
        const now = await authentication.identify(headers, () => describe(passage));
        if (now === undefined || !isSame(assertRole(shape, now), caller)) {
          throw unauthenticated('revoked');
        }
      },
      end: (error) => {
        // Tokens that cannot be loaded now are asked for again.
        if (!(error instanceof HttpError) || error.reason === undefined) return;
        this.#logRefusal(error, passage);
        passage.revoke(error);
      },
    });
  }

  async #readBody(
    { body, bulk, urgent }: RouteShape,
    request: Request,
    held: ByteReservation,
  ): Promise<CheckedRequest> {
    if (body === undefined) return {};
    const { bulkBodyBytes, bodyBytes, urgentBodyBytes, requestMs } = this.#params.limits;
    const limit = urgent === true ? urgentBodyBytes : bulk === true ? bulkBodyBytes : bodyBytes;
    const json = readJson(request, limit, held);
    return checkBody(body, await within(json, requestMs, bodyTooSlow));
  }

  /** Does the work of a route; a place is held until that has ended, however long the caller waits for it. */
  async #work(match: Match, call: Admitted): Promise<unknown> {
    const { shape } = match;
    const settled = this.#call(match, call).finally(call.leave);
    if (shape.waits !== true) return within(settled, this.#params.limits.requestMs, tookTooLong);
    const { passage, caller } = call;
    const stopWatching = this.#watchAccess(shape, passage, caller);
    try {
      const value = await settled;
      // A caller whose access has ended must not get the result.
      if (isRevoked(passage.signal)) throw passage.signal.reason;
      return value;
    } finally {
      stopWatching();
    }
  }

  /** Answers with JSON that is written while it is read; holds the seat of a stream until then. */
  async #export(
    match: Match,
    call: Admitted,
    headers: Readonly<Record<string, string>>,
  ): Promise<Response> {
    const { passage, caller, leave } = call;
    const { requestId, request, signal } = passage;
    const parts = (await this.#begun(match, call)) as AsyncIterable<string>;
    const stopWatching = this.#watchAccess(match.shape, passage, caller);
    passage.goesOn = true;
    const stream = toTextStream(parts, {
      signal,
      // A server that goes away lets a reader who reads on have the rest.
      breaksOff: () => isRevoked(signal) || request.signal.aborted,
      onError: (error) => this.#log(error, passage),
      onEnd: () => {
        stopWatching();
        leave();
        passage.giveUp();
        passage.end();
      },
    });
    return jsonResponse(stream, { requestId, headers });
  }

  /** What a handler streams; a refusal has its own status, because the answer has not begun. */
  async #begun(match: Match, call: Admitted): Promise<unknown> {
    const begun = this.#call(match, call);
    try {
      return await within(begun, this.#params.limits.requestMs, tookTooLong);
    } catch (error) {
      // The seat is held until the work has ended, also where its caller was answered before.
      begun.catch(() => undefined).finally(call.leave);
      throw error;
    }
  }

  async #call(match: Match, { passage, caller, asked }: Admitted): Promise<unknown> {
    const { signal } = passage;
    const table = caller.definitions === undefined ? handlers : restrictedHandlers;
    const handler = table[match.name] as unknown as AnyHandler;
    return handler({ ...asked, caller, signal }, this.#params.serverContext);
  }

  async #stream(
    match: Match,
    call: Admitted,
    headers: Readonly<Record<string, string>>,
  ): Promise<Response> {
    const { passage, caller, leave } = call;
    const { requestId, signal } = passage;
    const messages = await this.#begun(match, call);
    const stopWatching = this.#watchAccess(match.shape, passage, caller);
    const stream = toEventStream(messages as AsyncIterable<unknown>, {
      heartbeatMs: this.#params.limits.heartbeatMs,
      showError: (error) => {
        this.#log(error, passage);
        return { error: toWireError(error, this.#params.showStacks), requestId };
      },
      onEnd: () => {
        stopWatching();
        leave();
        // Not every server aborts the request when the reader of its answer has gone.
        passage.giveUp();
        passage.end();
      },
      signal,
      isRevoked: () => isRevoked(signal),
    });
    passage.goesOn = true;
    return eventResponse(stream, { requestId, headers });
  }

  #refuse(
    error: unknown,
    passage: RequestContext,
    headers: Readonly<Record<string, string>>,
  ): Response {
    this.#log(error, passage);
    if (error instanceof HttpError && !isRevoked(passage.signal)) this.#logRefusal(error, passage);
    const { requestId } = passage;
    return jsonResponse(
      JSON.stringify({ error: toWireError(error, this.#params.showStacks), requestId }),
      {
        status: statusOf(error),
        requestId,
        headers: { ...headers, ...(error instanceof HttpError && error.headers) },
      },
    );
  }

  #logRefusal(refusal: HttpError, passage: RequestContext): void {
    const { requestId, route, caller, connection, request } = passage;
    const { status, reason } = refusal;
    if (reason === undefined) return;
    this.#refusals.add({
      requestId,
      route,
      status,
      reason,
      caller: caller?.name,
      remoteAddress: connection.remoteAddress,
      origin: request.headers.get('origin'),
    });
  }

  #log(error: unknown, { requestId, route, signal }: RequestContext): void {
    if (statusOf(error) < 500 || error instanceof HttpError || signal.aborted) return;
    this.#params.logger.error({ requestId, route, err: error }, 'A request failed.');
  }
}

function rank(role: Role): number {
  return roles.indexOf(role);
}

function assertRole({ role }: RouteShape, caller: Caller): Caller {
  if (role === 'public' || rank(caller.role) >= rank(role)) return caller;
  throw new HttpError(
    'FORBIDDEN',
    `This needs the role ${role}; the token has the role ${caller.role}.`,
    { status: 403, reason: 'role' },
  );
}

/** Whether what was decided for one caller holds for the other. */
function isSame(one: Caller, other: Caller): boolean {
  return (
    one.name === other.name &&
    one.definitions?.patterns.join('\n') === other.definitions?.patterns.join('\n')
  );
}

/** Whether a signal was aborted because the caller may no longer have the answer. */
function isRevoked(signal: AbortSignal): boolean {
  return signal.aborted && signal.reason instanceof HttpError && signal.reason.reason !== undefined;
}

function describe({ request, connection }: RequestContext): AuthorizeRequest {
  const { remoteAddress } = connection;
  const { pathname, search } = new URL(request.url);
  return {
    method: request.method,
    path: pathname + search,
    headers: request.headers,
    remoteAddress,
  };
}

function authorizesTooLong(): HttpError {
  return unavailable('Authorizing the request took too long.');
}

function goingAway(): HttpError {
  return unavailable('The server is going away.');
}

function bodyTooSlow(): HttpError {
  return new HttpError('INVALID_REQUEST', 'The body did not arrive in time.', { status: 408 });
}

function tookTooLong(): HttpError {
  return new HttpError(
    'UNAVAILABLE',
    'This took too long. It may still happen: look before you repeat it.',
    { status: 503, outcomeUnknown: true },
  );
}

async function within<Value>(
  work: Promise<Value>,
  ms: number,
  late: () => HttpError,
): Promise<Value> {
  const { promise: timeUp, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(late()), ms);
  try {
    return await Promise.race([work, timeUp]);
  } finally {
    clearTimeout(timer);
  }
}
