import type { LocalClient } from '../client/local-client.ts';
import type { FlowDefinition } from '../flows/definition/flow-definition.ts';
import { systemClock, type Clock } from '../model/clock.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { consoleLogger, type Logger } from '../model/logger.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { Authentication, type Authorize, type SessionLookup } from './access/authentication.ts';
import { OriginCheck } from './access/origin-check.ts';
import { TokenSource, Tokens, type LoadTokens, type ServerToken } from './access/tokens.ts';
import { Admission } from './limits/admission.ts';
import { readLimits, type ServerLimits } from './limits/limits.ts';
import { ServerMetrics } from './monitoring/server-metrics.ts';
import { RequestPipeline, type Connection } from './request-pipeline.ts';
import { createServerContext } from './server-context.ts';

/** A web-standard request handler: returns a `Response` for a `Request`. */
export interface RequestHandler {
  (request: Request, connection?: Connection): Promise<Response>;
  /** Ends open streams and waits, and rejects later requests with 503. Idempotent. */
  close(): void;
}

/** Creates a request handler to mount in your own HTTP server. `serve` includes a server. */
export function createHandler(client: LocalClient, options: HandlerOptions): RequestHandler {
  return makeHandler(client, readHandlerOptions(options));
}

/** Creates a request handler from validated options. */
export function makeHandler(client: LocalClient, checked: CheckedOptions): RequestHandler {
  const { pipeline } = makePipeline(client, checked);
  return Object.assign(
    (request: Request, connection: Connection = {}) => pipeline.handle(request, connection),
    { close: () => pipeline.close() },
  );
}

/** Creates the pipeline of a server, with the limits that it applies. */
export function makePipeline(
  client: LocalClient,
  checked: CheckedOptions,
  { isReadOnly = false }: { readonly isReadOnly?: boolean } = {},
): { readonly pipeline: RequestPipeline; readonly admission: Admission } {
  const admission = new Admission(checked.limits);
  const metrics = new ServerMetrics(admission.gauges);
  const serverContext = createServerContext(client, checked, metrics);
  const params = { ...checked, admission, metrics, serverContext, isReadOnly };
  return { pipeline: new RequestPipeline(params), admission };
}

/** Authentication, allowed origins and limits of a server. */
export interface HandlerOptions {
  /** Accepted tokens, or a function that returns them, to change tokens without a restart. */
  readonly tokens?: readonly ServerToken[] | LoadTokens | undefined;
  /** Identifies the caller of every request without a known token, for example by a cookie or a JWT. */
  readonly authorize?: Authorize | undefined;
  /**
   * Maximum age of the list from a `tokens` function, and interval at which open streams and waits are authorized
   * again. Default: 10 s. If the function fails, the last list stays valid for up to 5 minutes.
   */
  readonly authMaxAge?: Duration | undefined;
  /** Grants every caller the role `admin` without a token. Default: false. */
  readonly insecure?: boolean | undefined;
  /** Accepted host names in addition to loopback and the listening address: `'perdure.example.com'`. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Origins of web pages that may use the server: `'https://app.example.com'`. Default: its own origin. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Flows that callers can start by name. */
  readonly flows?: readonly FlowDefinition[] | undefined;
  /** Include the stacks of failures, which name files of the workers. Default: false. */
  readonly showStacks?: boolean | undefined;
  readonly limits?: Partial<ServerLimits> | undefined;
  /** Default: warnings and errors to the console. `silentLogger` drops all lines. */
  readonly logger?: Logger | undefined;
  /** Clock for the expiry of tokens. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

/** Validated options. */
export interface CheckedOptions {
  /** `undefined`: every caller is an admin. */
  readonly authentication: Authentication | undefined;
  readonly authMaxAgeMs: number;
  readonly origins: OriginCheck;
  readonly flows: ReadonlyMap<string, FlowDefinition>;
  readonly showStacks: boolean;
  readonly limits: ServerLimits;
  readonly logger: Logger;
}

/** Names of the handler options. */
export const handlerOptionNames = [
  'tokens',
  'authorize',
  'authMaxAge',
  'insecure',
  'allowedHosts',
  'allowedOrigins',
  'flows',
  'showStacks',
  'limits',
  'logger',
  'clock',
] as const satisfies readonly (keyof HandlerOptions)[];

/** Whether the options include `tokens` or `authorize`. */
export function hasAuthentication({ tokens, authorize }: HandlerOptions): boolean {
  return tokens !== undefined || authorize !== undefined;
}

export interface HandlerSetting {
  /** A server on loopback needs no authentication. Requests through a proxy are rejected (see `OriginCheck`). */
  readonly isLocal?: boolean;
  /** Login sessions of a dashboard. */
  readonly sessions?: SessionLookup;
  /** Name of the call in error messages. */
  readonly where?: string;
}

/** Validates options. Throws `INVALID_OPTION` for invalid values. */
export function readHandlerOptions(
  options: HandlerOptions,
  { isLocal = false, sessions, where = 'createHandler()' }: HandlerSetting = {},
): CheckedOptions {
  readFields(options, where, handlerOptionNames);
  const { insecure, flows = [] } = options;
  const isOpen = !hasAuthentication(options);
  if (isOpen && insecure !== true && !isLocal) {
    throw new PerdureError(
      'INVALID_OPTION',
      'Authentication is required: pass `tokens` (create one with createToken()) or `authorize`, or set `insecure: true` to allow every caller.',
    );
  }
  const authMaxAgeMs = toMs(options.authMaxAge ?? defaultAuthMaxAge, 'authMaxAge');
  const logger = options.logger ?? consoleLogger;
  return {
    authentication: isOpen
      ? undefined
      : readAuthentication(options, { authMaxAgeMs, logger, sessions }),
    authMaxAgeMs: Math.max(1, authMaxAgeMs),
    origins: new OriginCheck(
      readTexts('allowedHosts', options.allowedHosts),
      readTexts('allowedOrigins', options.allowedOrigins).map(checkOrigin),
      { rejectsProxies: isOpen && insecure !== true },
    ),
    flows: new Map(flows.map((flow) => [flow.name, flow])),
    showStacks: options.showStacks === true,
    limits: readLimits(options.limits),
    logger,
  };
}

const defaultAuthMaxAge = '10s';

function readAuthentication(
  { tokens, authorize, clock = systemClock }: HandlerOptions,
  given: {
    readonly authMaxAgeMs: number;
    readonly logger: Logger;
    readonly sessions: SessionLookup | undefined;
  },
): Authentication {
  const { authMaxAgeMs, logger, sessions } = given;
  if (authorize !== undefined && typeof authorize !== 'function') {
    throw invalidOption('authorize', authorize, 'a function');
  }
  if (tokens === undefined) return new Authentication({ tokens, authorize, sessions });
  const source =
    typeof tokens === 'function'
      ? new TokenSource({ load: tokens, clock, logger, maxAgeMs: authMaxAgeMs })
      : new Tokens(tokens, clock);
  return new Authentication({ tokens: source, authorize, sessions });
}

function readTexts(option: string, value: unknown): readonly string[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every((one) => typeof one === 'string' && one !== '')) {
    return value as readonly string[];
  }
  throw invalidOption(option, value, 'an array of non-empty strings');
}

function checkOrigin(origin: string): string {
  if (/^https?:\/\/[^/\s*]+$/.test(origin)) return origin;
  throw invalidOption('allowedOrigins', origin, 'origins like https://app.example.com');
}
