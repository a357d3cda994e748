import type { FlowDefinition } from '../flows/definition/flow-definition.ts';
import { systemClock, type Clock } from '../model/clock.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { consoleLogger, type Logger } from '../model/logger.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { Authentication, type Authorize } from './access/authentication.ts';
import { readLimits, type ServerLimits } from './limits/limits.ts';
import { OriginCheck } from './access/origin-check.ts';
import { TokenSource, type LoadTokens } from './access/token-source.ts';
import { Tokens, type ServerToken } from './access/tokens.ts';

/** Who may use a server, and how much it takes on. */
export interface HandlerOptions {
  /** Who may use it: a list, or a function that returns the current one, so that tokens change without a restart. */
  readonly tokens?: readonly ServerToken[] | LoadTokens | undefined;
  /** Says who sends a request that has no known token, by a cookie or a JWT for example. Called for every such request. */
  readonly authorize?: Authorize | undefined;
  /**
   * How long a list of a `tokens` function is used, and how often open streams and waits are authorized again.
   * Default 10 s. If the function fails, the last list is used for up to 5 minutes.
   */
  readonly authMaxAge?: Duration | undefined;
  /** Lets everybody who can reach it do everything, without a token. */
  readonly insecure?: boolean | undefined;
  /** The names that it answers to, besides `localhost` and its addresses: `'perdure.example.com'`. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Other origins whose pages may use it: `'https://app.example.com'`. Default: none. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Flows that can be started by name. */
  readonly flows?: readonly FlowDefinition[] | undefined;
  /** Show the stacks of failures, which tell of files on the machines that ran the code. Default false. */
  readonly showStacks?: boolean | undefined;
  readonly limits?: Partial<ServerLimits> | undefined;
  /** Where log lines go. Default: warnings and errors to the console; `silentLogger` drops all. */
  readonly logger?: Logger | undefined;
  /** Decides when tokens expire; tests bring their own. */
  readonly clock?: Clock | undefined;
}

/** Options that were checked. */
export interface CheckedOptions {
  /** `undefined`: everybody is let in. */
  readonly authentication: Authentication | undefined;
  readonly authMaxAgeMs: number;
  readonly origins: OriginCheck;
  readonly flows: ReadonlyMap<string, FlowDefinition>;
  readonly showStacks: boolean;
  readonly limits: ServerLimits;
  readonly logger: Logger;
}

/** The names of the options of a handler. */
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

/** Whether options say how to know callers. */
export function hasAuthentication({ tokens, authorize }: HandlerOptions): boolean {
  return tokens !== undefined || authorize !== undefined;
}

/** Checks options; bad values are `INVALID_OPTION`. */
export function readHandlerOptions(
  options: HandlerOptions,
  // A server that listens on loopback alone needs no authentication, unless a proxy extends its reach.
  { isLocal = false }: { readonly isLocal?: boolean } = {},
): CheckedOptions {
  readFields(options, 'createHandler()', handlerOptionNames);
  const { insecure, flows = [] } = options;
  const isOpen = !hasAuthentication(options);
  if (isOpen && insecure !== true && !isLocal) {
    throw new PerdureError(
      'INVALID_OPTION',
      'Pass `tokens` or `authorize`, so that not every caller can do everything: createToken() makes a token. Or pass `insecure: true`.',
    );
  }
  const authMaxAgeMs = toMs(options.authMaxAge ?? defaultAuthMaxAge, 'authMaxAge');
  const logger = options.logger ?? consoleLogger;
  return {
    authentication: isOpen ? undefined : readAuthentication(options, { authMaxAgeMs, logger }),
    authMaxAgeMs: Math.max(1, authMaxAgeMs),
    origins: new OriginCheck(
      readTexts('allowedHosts', options.allowedHosts),
      readTexts('allowedOrigins', options.allowedOrigins).map(checkOrigin),
      { refusesProxies: isOpen && insecure !== true },
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
  { authMaxAgeMs, logger }: { readonly authMaxAgeMs: number; readonly logger: Logger },
): Authentication {
  if (authorize !== undefined && typeof authorize !== 'function') {
    throw invalidOption('authorize', authorize, 'a function');
  }
  if (tokens === undefined) return new Authentication(undefined, authorize);
  const source =
    typeof tokens === 'function'
      ? new TokenSource({ load: tokens, clock, logger, maxAgeMs: authMaxAgeMs })
      : new Tokens(tokens, clock);
  return new Authentication(source, authorize);
}

function readTexts(option: string, value: unknown): readonly string[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every((one) => typeof one === 'string' && one !== '')) {
    return value as readonly string[];
  }
  throw invalidOption(option, value, 'an array of texts');
}

function checkOrigin(origin: string): string {
  if (/^https?:\/\/[^/\s*]+$/.test(origin)) return origin;
  throw invalidOption('allowedOrigins', origin, 'origins like https://app.example.com');
}
