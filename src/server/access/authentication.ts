import { readFields } from '../../model/option-fields.ts';
import { HttpError } from '../http/errors.ts';
import { roles, type Role, type RouteShape } from '../routes/route.ts';
import { TokenSource, digestOf, readCaller, type Caller, type Tokens } from './tokens.ts';

/** A request as passed to `authorize`: without its body. */
export interface AuthorizeRequest {
  readonly method: string;
  /** The path with its query, for example `/v1/instances?limit=10`. */
  readonly path: string;
  readonly headers: Headers;
  /** Address of the peer. Behind a proxy, the address of the proxy. */
  readonly remoteAddress: string | undefined;
}

/** The caller that `authorize` identified. */
export interface AuthorizedCaller {
  /** Recorded as the actor of operations and the owner of sessions. */
  readonly name: string;
  readonly role: Role;
  /** Allowed definitions, in the format of a token. Default: all. */
  readonly definitions?: string | readonly string[] | undefined;
}

/** Identifies the caller of a request. `null` or `undefined` rejects the request with 401. */
export type Authorize = (
  request: AuthorizeRequest,
) => AuthorizedCaller | null | undefined | Promise<AuthorizedCaller | null | undefined>;

/** The login session that a request names by its cookie. */
export interface FoundSession {
  /** The SHA-256 of the token that the session was opened with. */
  readonly tokenDigest: Buffer;
  /** Ends the session. Called if its token is no longer accepted. */
  readonly end: () => void;
}

/** Finds login sessions by the cookie of a request. */
export interface SessionLookup {
  /** Returns the session of a request. Throws 403 for a write without its CSRF token. */
  find(request: Pick<AuthorizeRequest, 'method' | 'headers'>): FoundSession | undefined;
  /** Whether a request has the cookie of a session, which may have ended. */
  hasCookie(headers: Headers): boolean;
}

export interface AuthenticationParams {
  readonly tokens: Tokens | TokenSource | undefined;
  readonly authorize: Authorize | undefined;
  readonly sessions: SessionLookup | undefined;
}

type Found = Caller | undefined | Promise<Caller | undefined>;

/** Returns the token of a request. */
export function tokenOf(headers: Headers): string | undefined {
  return /^Bearer ([\x21-\x7e]{1,512})$/i.exec(headers.get('authorization') ?? '')?.[1];
}

/** Identifies callers by their token, then by their login session, then by the `authorize` hook. */
export class Authentication {
  readonly #params: AuthenticationParams;

  constructor(params: AuthenticationParams) {
    this.#params = params;
  }

  /** Loads the first list of a `tokens` function. Rejects if the list is invalid. */
  async start(): Promise<void> {
    const { tokens } = this.#params;
    if (tokens instanceof TokenSource) await tokens.start();
  }

  /** Returns the caller, or `undefined` if it is not authenticated. Synchronous with a static list of tokens alone. */
  identify(headers: Headers, describe: () => AuthorizeRequest): Found {
    const { authorize } = this.#params;
    const found = this.#findByCredentials(headers, describe);
    return authorize === undefined ? found : callAuthorize(authorize, found, describe);
  }

  /** Returns the caller of a token. */
  findByToken(token: string): Found {
    return this.#params.tokens?.find(digestOf(token));
  }

  /** Whether a request names a session, which may have ended, and has no token. */
  usesSession(headers: Headers): boolean {
    const { sessions } = this.#params;
    return tokenOf(headers) === undefined && sessions?.hasCookie(headers) === true;
  }

  #findByCredentials(headers: Headers, describe: () => AuthorizeRequest): Found {
    const token = tokenOf(headers);
    if (token !== undefined) return this.findByToken(token);
    const { sessions } = this.#params;
    return sessions?.hasCookie(headers) === true
      ? this.#findBySession(sessions, describe())
      : undefined;
  }

  async #findBySession(
    sessions: SessionLookup,
    request: AuthorizeRequest,
  ): Promise<Caller | undefined> {
    const session = sessions.find(request);
    if (session === undefined) return undefined;
    const caller = await this.#params.tokens?.find(session.tokenDigest);
    if (caller === undefined) session.end();
    return caller;
  }
}

async function callAuthorize(
  authorize: Authorize,
  found: Found,
  describe: () => AuthorizeRequest,
): Promise<Caller | undefined> {
  const caller = await found;
  if (caller !== undefined) return caller;
  const result: unknown = await authorize(describe());
  if (result === null || result === undefined) return undefined;
  try {
    const keys = ['name', 'role', 'definitions'] as const;
    return readCaller(readFields(result, 'authorize()', keys), 'authorize()');
  } catch (cause) {
    // Not a `PerdureError`: the mistake is in the server, so the caller gets a 500 and the log has the message.
    throw new Error(
      `\`authorize()\` returned an invalid caller: ${(cause as Error).message} Return { name, role, definitions? }, or null to reject the request.`,
      { cause },
    );
  }
}

/** Throws 403 if the role of a caller does not include the role of a route. */
export function assertRole({ role }: RouteShape, caller: Caller): void {
  if (role === 'public' || roles.indexOf(caller.role) >= roles.indexOf(role)) return;
  throw new HttpError(
    'FORBIDDEN',
    `This route requires the role ${role}; the token has the role ${caller.role}.`,
    { status: 403, reason: 'role' },
  );
}

/** Whether two callers have the same name and the same allowed definitions. */
export function isSameCaller(one: Caller, other: Caller): boolean {
  return (
    one.name === other.name &&
    one.definitions?.patterns.join('\n') === other.definitions?.patterns.join('\n')
  );
}

interface Entry {
  /** Headers of the request that opened the stream or wait. */
  readonly headers: Headers;
  /** Rejects if the caller lost its access. */
  readonly check: () => Promise<void>;
  /** Called with the reason when `check` rejects. */
  readonly onRejected: (error: unknown) => void;
}

/** Rechecks the access of open streams and waits periodically. */
export class AccessRechecks {
  readonly #everyMs: number;
  readonly #entries = new Set<Entry>();
  readonly #checking = new Set<Entry>();
  #timer: NodeJS.Timeout | undefined;

  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Adds an entry. Returns a function that removes it. */
  add(entry: Entry): () => void {
    this.#entries.add(entry);
    this.#timer ??= setInterval(() => this.checkNow(), this.#everyMs).unref();
    return () => {
      this.#entries.delete(entry);
      if (this.#entries.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  /** Checks all entries, or those whose request matches. */
  checkNow(matches: (headers: Headers) => boolean = () => true): void {
    for (const entry of this.#entries) {
      if (!matches(entry.headers)) continue;
      // Checks that hang must not pile up.
      if (this.#checking.has(entry)) continue;
      this.#checking.add(entry);
      entry
        .check()
        .catch(entry.onRejected)
        .finally(() => this.#checking.delete(entry));
    }
  }
}
