import type { Clock } from '../../model/clock.ts';
import {
  tokenOf,
  type Authentication,
  type AuthorizeRequest,
} from '../../server/access/authentication.ts';
import { isForeign } from '../../server/access/origin-check.ts';
import { digestOf, type Caller } from '../../server/access/tokens.ts';
import { networkOf } from '../../server/http/connections.ts';
import { bodyTimeout, HttpError, invalidRequest, withTimeout } from '../../server/http/errors.ts';
import { unauthenticated, unavailable } from '../../server/http/errors.ts';
import { readJson } from '../../server/http/read-request.ts';
import { jsonResponse } from '../../server/http/responses.ts';
import type { Admission } from '../../server/limits/admission.ts';
import { packageVersion } from '../../server/package-version.ts';
import type { Connection } from '../../server/request-pipeline.ts';
import type { LoginSession, LoginSessions } from './login-sessions.ts';
import type { CheckedSettings } from './options.ts';
import type { SessionState } from './session-state.ts';

export interface SessionRoutesParams {
  /** `undefined`: every caller is an admin. */
  readonly authentication: Authentication | undefined;
  readonly sessions: LoginSessions;
  readonly admission: Admission;
  readonly settings: CheckedSettings;
  readonly clock: Clock;
  readonly requestMs: number;
  /** Called after a session was ended by its user. */
  readonly onSignedOut: (session: LoginSession) => void;
}

/** A request to `/session`. */
interface SessionRequest {
  readonly request: Request;
  readonly connection: Connection;
  readonly requestId: string;
}

const maxBodyBytes = 4_096;
const unlimited = { add: () => undefined, release: () => undefined };

/** Implements `/session`: GET returns its state, POST signs in with a token, DELETE signs out. */
export class SessionRoutes {
  readonly #params: SessionRoutesParams;

  constructor(params: SessionRoutesParams) {
    this.#params = params;
  }

  async handle(given: SessionRequest): Promise<Response> {
    const { request } = given;
    // `allowedOrigins` may use the API with a token of their own, but never a login session.
    if (isForeign(request.headers)) {
      throw new HttpError(
        'FORBIDDEN',
        'Only pages of this origin may use login sessions. A proxy must pass on the `Host` header.',
        { status: 403, reason: 'origin' },
      );
    }
    if (request.method === 'GET') return this.#respond(given, await this.#identify(given));
    if (request.method === 'POST') return this.#signIn(given);
    if (request.method === 'DELETE') return this.#signOut(given);
    throw new HttpError('METHOD_NOT_ALLOWED', 'Method not allowed. Use GET, POST or DELETE.', {
      status: 405,
      headers: { allow: 'DELETE, GET, POST' },
    });
  }

  async #signIn(given: SessionRequest): Promise<Response> {
    const { authentication, admission, sessions, requestMs } = this.#params;
    const { request, connection } = given;
    const token = readToken(
      await withTimeout(readJson(request, maxBodyBytes, unlimited), requestMs, bodyTimeout),
    );
    if (authentication === undefined) return this.#respond(given, undefined);
    const caller = await withTimeout(authentication.findByToken(token), requestMs, () =>
      unavailable('Authentication timed out.'),
    );
    if (caller === undefined) {
      admission.countWrongToken(networkOf(connection.remoteAddress ?? ''));
      throw unauthenticated();
    }
    connection.onAuthenticated?.();
    // A new id, so that an id that an attacker has planted is worth nothing.
    const before = sessions.get(request.headers);
    if (before !== undefined) sessions.end(before);
    const { session, cookie } = sessions.open(digestOf(token), { isSecure: isTls(request) });
    return this.#respond(given, caller, { session, headers: { 'set-cookie': cookie } });
  }

  #signOut(given: SessionRequest): Response {
    const { sessions, onSignedOut } = this.#params;
    const { headers } = given.request;
    const session = sessions.get(headers);
    if (session === undefined) return this.#respond(given, undefined);
    // Throws without the CSRF token.
    sessions.find({ method: 'DELETE', headers })?.end();
    onSignedOut(session);
    const cookie = sessions.expiredCookie(session);
    return this.#respond(given, undefined, { headers: { 'set-cookie': cookie } });
  }

  async #identify({ request, connection }: SessionRequest): Promise<Caller | undefined> {
    const { authentication, requestMs } = this.#params;
    const { headers, method } = request;
    const { remoteAddress } = connection;
    const path = '/session';
    const describe = (): AuthorizeRequest => ({ method, path, headers, remoteAddress });
    const caller = await withTimeout(authentication?.identify(headers, describe), requestMs, () =>
      unavailable('Authentication timed out.'),
    );
    if (caller !== undefined) connection.onAuthenticated?.();
    return caller;
  }

  #respond(
    { request, requestId }: SessionRequest,
    caller: Caller | undefined,
    given: {
      readonly session?: LoginSession;
      readonly headers?: Readonly<Record<string, string>>;
    } = {},
  ): Response {
    const { authentication, settings, sessions, clock } = this.#params;
    const { title, environment, readOnly, links } = settings;
    const isOpen = authentication === undefined;
    const { session = caller && this.#sessionOf(request) } = given;
    const state: SessionState = {
      state: isOpen ? 'open' : caller === undefined ? 'signedOut' : 'signedIn',
      role: isOpen ? 'admin' : (caller?.role ?? null),
      name: caller?.name ?? null,
      csrfToken: session === undefined ? null : sessions.csrfToken(session),
      expiresAt: session === undefined ? null : sessions.expiresAt(session),
      title,
      environment,
      readOnly,
      links,
      version: packageVersion(),
      now: clock.now(),
    };
    const { headers } = given;
    return jsonResponse(JSON.stringify(state), { requestId, ...(headers && { headers }) });
  }

  /** Returns the session of an authenticated request, or `undefined` if it has a token of its own. */
  #sessionOf({ headers }: Request): LoginSession | undefined {
    return tokenOf(headers) === undefined ? this.#params.sessions.get(headers) : undefined;
  }
}

function readToken(body: unknown): string {
  const { token, ...rest } = Object(body) as { readonly token?: unknown };
  const isValid = typeof token === 'string' && /^[\x21-\x7e]{1,512}$/.test(token);
  if (isValid && Object.keys(rest).length === 0) return token;
  throw invalidRequest('Invalid body: send { "token": "…" }.');
}

/** Whether the browser uses TLS, directly or up to a proxy. Browsers send their origin with every POST. */
function isTls({ url, headers }: Request): boolean {
  const forwarded = headers.get('x-forwarded-proto') ?? '';
  return (
    url.startsWith('https:') ||
    /^https:/i.test(headers.get('origin') ?? '') ||
    /^https\s*(,|$)/i.test(forwarded) ||
    /(^|[;,\s])proto="?https\b/i.test(headers.get('forwarded') ?? '')
  );
}
