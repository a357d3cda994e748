import type { FlowDefinition } from '../flows/flow-definition.ts';
import { systemClock, type Clock } from '../model/clock.ts';
import { PerdureError } from '../model/errors.ts';
import { consoleLogger, type Logger } from '../model/logger.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { readLimits, type ServerLimits } from './limits.ts';
import { OriginCheck } from './origin-check.ts';
import { Tokens, type ServerToken } from './tokens.ts';

/** Who may use a server, and how much it takes on. */
export interface HandlerOptions {
  /** Who may use it. */
  readonly tokens?: readonly ServerToken[] | undefined;
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
  readonly tokens: Tokens | undefined;
  readonly origins: OriginCheck;
  readonly flows: ReadonlyMap<string, FlowDefinition>;
  readonly showStacks: boolean;
  readonly limits: ServerLimits;
  readonly logger: Logger;
}

/** The names of the options of a handler. */
export const handlerOptionNames = [
  'tokens',
  'insecure',
  'allowedHosts',
  'allowedOrigins',
  'flows',
  'showStacks',
  'limits',
  'logger',
  'clock',
] as const satisfies readonly (keyof HandlerOptions)[];

/** Checks options; bad values are `INVALID_OPTION`. */
export function readHandlerOptions(options: HandlerOptions): CheckedOptions {
  readFields(options, 'options', handlerOptionNames, 'INVALID_OPTION');
  const { tokens, insecure, flows = [], clock = systemClock } = options;
  if (tokens === undefined && insecure !== true) {
    throw new PerdureError(
      'INVALID_OPTION',
      'Pass tokens, so that not everybody can do everything: createToken() makes one. Or say insecure: true.',
    );
  }
  return {
    tokens: tokens === undefined ? undefined : new Tokens(tokens, clock),
    origins: new OriginCheck(
      readTexts('allowedHosts', options.allowedHosts),
      readTexts('allowedOrigins', options.allowedOrigins).map(checkOrigin),
    ),
    flows: new Map(flows.map((flow) => [flow.name, flow])),
    showStacks: options.showStacks === true,
    limits: readLimits(options.limits),
    logger: options.logger ?? consoleLogger,
  };
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
