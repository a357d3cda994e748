import { readFields } from '../../model/option-fields.ts';
import { HttpError } from '../http/errors.ts';
import { roles, type Role, type RouteShape } from '../routes/route.ts';
import { TokenSource, readCaller, type Caller, type Tokens } from './tokens.ts';

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

/** Identifies callers by their token, then by the `authorize` hook. */
export class Authentication {
  readonly #tokens: Tokens | TokenSource | undefined;
  readonly #authorize: Authorize | undefined;

  constructor(tokens: Tokens | TokenSource | undefined, authorize: Authorize | undefined) {
    this.#tokens = tokens;
    this.#authorize = authorize;
  }

  /** Loads the first list of a `tokens` function. Rejects if the list is invalid. */
  async start(): Promise<void> {
    if (this.#tokens instanceof TokenSource) await this.#tokens.start();
  }

  /** Returns the caller, or `undefined` if it is not authenticated. Synchronous with a static list of tokens alone. */
  identify(
    headers: Headers,
    describe: () => AuthorizeRequest,
  ): Caller | undefined | Promise<Caller | undefined> {
    const token = /^Bearer ([\x21-\x7e]{1,512})$/i.exec(headers.get('authorization') ?? '')?.[1];
    const found = token === undefined ? undefined : this.#tokens?.find(token);
    if (this.#authorize === undefined) return found;
    return callAuthorize(this.#authorize, found, describe);
  }
}

async function callAuthorize(
  authorize: Authorize,
  found: Caller | undefined | Promise<Caller | undefined>,
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
    this.#timer ??= setInterval(() => this.#checkAll(), this.#everyMs).unref();
    return () => {
      this.#entries.delete(entry);
      if (this.#entries.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  #checkAll(): void {
    for (const entry of this.#entries) {
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
