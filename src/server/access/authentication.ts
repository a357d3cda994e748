import { readFields } from '../../model/option-fields.ts';
import { TokenSource } from './token-source.ts';
import { readCaller, type Caller, type Tokens } from './tokens.ts';
import type { Role } from '../routes/route.ts';

/** A request as `authorize` sees it: without its body. */
export interface AuthorizeRequest {
  readonly method: string;
  /** The path with its query, like `/v1/instances?limit=10`. */
  readonly path: string;
  readonly headers: Headers;
  /** Where the connection comes from; behind a proxy that is the proxy. */
  readonly remoteAddress: string | undefined;
}

/** Who sent a request, as `authorize` says. */
export interface AuthorizedCaller {
  /** The actor of what is done, and the owner of sessions. */
  readonly name: string;
  readonly role: Role;
  /** As that of a token. Default: all. */
  readonly definitions?: string | readonly string[] | undefined;
}

/** Says who sent a request; `null` or `undefined` refuses it with 401. */
export type Authorize = (
  request: AuthorizeRequest,
) => AuthorizedCaller | null | undefined | Promise<AuthorizedCaller | null | undefined>;

/** Finds out who sends a request: by its token, then by the `authorize` hook. */
export class Authentication {
  readonly #tokens: Tokens | TokenSource | undefined;
  readonly #authorize: Authorize | undefined;

  constructor(tokens: Tokens | TokenSource | undefined, authorize: Authorize | undefined) {
    this.#tokens = tokens;
    this.#authorize = authorize;
  }

  /** Loads tokens that come from a function; rejects where they cannot be used. */
  async start(): Promise<void> {
    if (this.#tokens instanceof TokenSource) await this.#tokens.start();
  }

  /** Returns who sends a request; `undefined` if the request is not authenticated. Synchronous where no source has to be queried. */
  identify(
    headers: Headers,
    describe: () => AuthorizeRequest,
  ): Caller | undefined | Promise<Caller | undefined> {
    const token = /^Bearer ([\x21-\x7e]{1,512})$/i.exec(headers.get('authorization') ?? '')?.[1];
    const found = token === undefined ? undefined : this.#tokens?.find(token);
    if (this.#authorize === undefined) return found;
    return this.#ask(this.#authorize, found, describe);
  }

  async #ask(
    authorize: Authorize,
    found: Caller | undefined | Promise<Caller | undefined>,
    describe: () => AuthorizeRequest,
  ): Promise<Caller | undefined> {
    const caller = await found;
    if (caller !== undefined) return caller;
    const answer: unknown = await authorize(describe());
    if (answer === null || answer === undefined) return undefined;
    const keys = ['name', 'role', 'definitions'] as const;
    return readCaller(readFields(answer, 'authorize()', keys), 'authorize()');
  }
}
