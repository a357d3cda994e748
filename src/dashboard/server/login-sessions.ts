import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import type { FoundSession, SessionLookup } from '../../server/access/authentication.ts';
import { isForeign, isFromOwnPage } from '../../server/access/origin-check.ts';
import { HttpError } from '../../server/http/errors.ts';

/** A login session, in the memory of this process. */
export interface LoginSession {
  /** SHA-256 of the id in the cookie, in hex. The id itself is not stored. */
  readonly key: string;
  readonly tokenDigest: Buffer;
  /** Whether the cookie was set over TLS. Another cookie does not open the session. */
  readonly isSecure: boolean;
  readonly createdAt: number;
  usedAt: number;
}

export interface LoginSessionsParams {
  readonly clock: Clock;
  readonly idleMs: number;
  readonly maxAgeMs: number;
  /** Two dashboards of one host need different cookies, because `__Host-` cookies belong to the whole host. */
  readonly basePath: string;
}

// Bounds the memory. Above a limit, the session unused for longest ends.
const maxSessions = 10_000;
const maxSessionsPerToken = 100;
// A hostile subdomain can add cookies of the same name.
const maxCookiesRead = 4;
const idPattern = /^[\w-]{43}$/;

/**
 * Login sessions of a dashboard: an id in a cookie stands for a token. Sessions are unknown to other processes and end
 * with this one.
 */
export class LoginSessions implements SessionLookup {
  readonly #params: LoginSessionsParams;
  /** By key, the one unused for longest first. */
  readonly #sessions = new Map<string, LoginSession>();
  readonly #csrfKey = randomBytes(32);
  readonly #secureName: string;
  readonly #plainName: string;

  constructor(params: LoginSessionsParams) {
    this.#params = params;
    const suffix = params.basePath.slice(0, -1).replaceAll('/', '-');
    this.#secureName = `__Host-perdure${suffix}`;
    // Not every browser accepts a `Secure` cookie from http://localhost.
    this.#plainName = `perdure-session${suffix}`;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Opens a session. Returns it with the header that sets its cookie. */
  open(
    tokenDigest: Buffer,
    { isSecure }: { readonly isSecure: boolean },
  ): { readonly session: LoginSession; readonly cookie: string } {
    const id = randomBytes(32).toString('base64url');
    const now = this.#params.clock.now();
    const session = { key: keyOf(id), tokenDigest, isSecure, createdAt: now, usedAt: now };
    this.#makeRoom(tokenDigest);
    this.#sessions.set(session.key, session);
    return { session, cookie: this.#toCookie(isSecure, id) };
  }

  /** Returns the header that deletes the cookie of a session. */
  expiredCookie({ isSecure }: Pick<LoginSession, 'isSecure'>): string {
    return `${this.#toCookie(isSecure, '')}; Max-Age=0`;
  }

  /** Returns the session that the cookie of a request names. Does not check the origin of the request. */
  get(headers: Headers): LoginSession | undefined {
    for (const { id, isSecure } of this.#readCookies(headers)) {
      const session = this.#sessions.get(keyOf(id));
      if (session === undefined || session.isSecure !== isSecure) continue;
      if (this.expiresAt(session) > this.#params.clock.now()) return session;
      this.end(session);
    }
    return undefined;
  }

  find({ method, headers }: Parameters<SessionLookup['find']>[0]): FoundSession | undefined {
    // Also for `allowedOrigins`: their pages need a token of their own.
    if (isForeign(headers)) return undefined;
    const session = this.get(headers);
    if (session === undefined) return undefined;
    if (method !== 'GET' && method !== 'HEAD') this.#checkCsrf(session, headers);
    return { tokenDigest: session.tokenDigest, end: () => this.end(session) };
  }

  hasCookie(headers: Headers): boolean {
    const cookie = headers.get('cookie');
    return cookie !== null && cookie.includes('perdure') && this.#readCookies(headers).length > 0;
  }

  /** Starts the idle time of a session again. */
  touch(session: LoginSession): void {
    if (!this.#sessions.delete(session.key)) return;
    session.usedAt = this.#params.clock.now();
    this.#sessions.set(session.key, session);
  }

  end({ key }: LoginSession): void {
    this.#sessions.delete(key);
  }

  /** Milliseconds since the epoch at which a session ends if it is not used. */
  expiresAt({ createdAt, usedAt }: LoginSession): number {
    const { idleMs, maxAgeMs } = this.#params;
    return Math.min(usedAt + idleMs, createdAt + maxAgeMs);
  }

  /** Returns the token that writes of a session must send. */
  csrfToken({ key }: LoginSession): string {
    return createHmac('sha256', this.#csrfKey).update(key).digest('base64url');
  }

  #checkCsrf(session: LoginSession, headers: Headers): void {
    const given = Buffer.from(headers.get('x-perdure-csrf') ?? '');
    const wanted = Buffer.from(this.csrfToken(session));
    const isEqual = given.length === wanted.length && timingSafeEqual(given, wanted);
    if (isEqual && isFromOwnPage(headers)) return;
    throw new HttpError(
      'FORBIDDEN',
      'Missing or wrong CSRF token: send the `csrfToken` of the session as `x-perdure-csrf`, from a page of this origin.',
      { status: 403, reason: 'csrf' },
    );
  }

  #toCookie(isSecure: boolean, value: string): string {
    const name = isSecure ? this.#secureName : this.#plainName;
    return `${name}=${value}; Path=/; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;
  }

  #readCookies(headers: Headers): { readonly id: string; readonly isSecure: boolean }[] {
    const found = (headers.get('cookie') ?? '')
      .split(';')
      .map((pair) => pair.trim().split('='))
      .filter(([name, id]) => this.#isName(name) && idPattern.test(id ?? ''))
      .map(([name, id]) => ({ id: id ?? '', isSecure: name === this.#secureName }));
    return found
      .sort((one, other) => Number(other.isSecure) - Number(one.isSecure))
      .slice(0, maxCookiesRead);
  }

  #isName(name: string | undefined): boolean {
    return name === this.#secureName || name === this.#plainName;
  }

  #makeRoom(tokenDigest: Buffer): void {
    const now = this.#params.clock.now();
    const own: LoginSession[] = [];
    for (const session of this.#sessions.values()) {
      if (this.expiresAt(session) <= now) this.end(session);
      else if (session.tokenDigest.equals(tokenDigest)) own.push(session);
    }
    const [oldestOwn] = own;
    if (oldestOwn !== undefined && own.length >= maxSessionsPerToken) this.end(oldestOwn);
    const [oldest] = this.#sessions.values();
    if (oldest !== undefined && this.#sessions.size >= maxSessions) this.end(oldest);
  }
}

function keyOf(id: string): string {
  return createHash('sha256').update(id).digest('hex');
}
