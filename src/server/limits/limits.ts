import { invalidOption, readFields } from '../../model/option-fields.ts';

/** Limits of one server. `PerToken` limits count by address if the server has no tokens. */
export interface ServerLimits {
  /** Maximum size of a request body, in bytes. Default: 2 MiB + 64 KiB, the largest payload and its envelope. */
  readonly bodyBytes: number;
  /** Maximum body of batch requests, in bytes. Default: 8 MiB. */
  readonly bulkBodyBytes: number;
  /** Maximum body of urgent requests (cancels, keep-alives, shutdowns), in bytes. Default: 256 KiB. */
  readonly urgentBodyBytes: number;
  /** Maximum bytes of request bodies in memory, until their requests end. Default: 128 MiB. */
  readonly bodyBudgetBytes: number;
  /** Maximum share of `bodyBudgetBytes` for one token. Default: half. */
  readonly bodyBudgetBytesPerToken: number;
  /** Like `bodyBudgetBytes`, for urgent requests, which have a separate budget. Default: 16 MiB. */
  readonly urgentBudgetBytes: number;
  /** Maximum share of `urgentBudgetBytes` for one token. Default: half. */
  readonly urgentBudgetBytesPerToken: number;
  /** Maximum bytes of responses that callers have not read yet. Default: 256 MiB. */
  readonly answerBudgetBytes: number;
  /** Maximum share of `answerBudgetBytes` for one token. Default: half. */
  readonly answerBudgetBytesPerToken: number;
  /** Maximum number of query parameters. Default: 100. */
  readonly queryParameters: number;
  /** Maximum concurrent requests. Further requests are queued. Default: 100. */
  readonly concurrent: number;
  /** Maximum concurrent requests of one token. Default: half of `concurrent`. */
  readonly concurrentPerToken: number;
  /** Maximum queued requests. Further requests get 503. Default: 1,000. */
  readonly queued: number;
  /** Maximum queued requests of one token. Further requests get 429. Default: half of `queued`. */
  readonly queuedPerToken: number;
  /** Maximum concurrent long polls. Default: 1,000. */
  readonly waiting: number;
  /** Maximum concurrent long polls of one token. Default: half of `waiting`. */
  readonly waitingPerToken: number;
  /** Maximum concurrent event streams and exports. Default: 100. */
  readonly streams: number;
  /** Maximum concurrent streams and exports of one token. Default: half of `streams`. */
  readonly streamsPerToken: number;
  /** Maximum connections per listening address. Above it, a new one replaces an idle one. Default: 4,096. */
  readonly connections: number;
  /** Maximum connections from one address (IPv6: /64). Behind a proxy, set it to `connections`. Default: 1,024. */
  readonly connectionsPerAddress: number;
  /** Idle timeout before the first authenticated request of a connection, in milliseconds. Default: 5,000. */
  readonly anonymousIdleMs: number;
  /** Maximum writes per second of one token, with a burst of twice as many. Default: 1,000. */
  readonly changesPerSecond: number;
  /** Maximum wrong tokens per minute from one address. Further ones get 429. Default: 10. */
  readonly wrongTokensPerMinute: number;
  /** Timeout for the headers of a request, in milliseconds. Default: 10,000. */
  readonly headersMs: number;
  /** Timeout for each phase: receiving, handling, and a stalled response, in milliseconds. Default: 30,000. */
  readonly requestMs: number;
  /** Interval of heartbeats on an idle event stream, in milliseconds. Default: 15,000. */
  readonly heartbeatMs: number;
}

const mib = 1024 * 1024;

/** Limits per token that default to half of a total limit. */
const sharedBy = {
  bodyBudgetBytesPerToken: 'bodyBudgetBytes',
  urgentBudgetBytesPerToken: 'urgentBudgetBytes',
  answerBudgetBytesPerToken: 'answerBudgetBytes',
  concurrentPerToken: 'concurrent',
  queuedPerToken: 'queued',
  waitingPerToken: 'waiting',
  streamsPerToken: 'streams',
} as const satisfies Partial<Record<keyof ServerLimits, keyof ServerLimits>>;

const defaults: Omit<ServerLimits, keyof typeof sharedBy> = {
  bodyBytes: 2 * mib + 64 * 1024,
  bulkBodyBytes: 8 * mib,
  urgentBodyBytes: 256 * 1024,
  bodyBudgetBytes: 128 * mib,
  urgentBudgetBytes: 16 * mib,
  answerBudgetBytes: 256 * mib,
  queryParameters: 100,
  concurrent: 100,
  queued: 1_000,
  waiting: 1_000,
  streams: 100,
  connections: 4_096,
  connectionsPerAddress: 1_024,
  anonymousIdleMs: 5_000,
  changesPerSecond: 1_000,
  wrongTokensPerMinute: 10,
  headersMs: 10_000,
  requestMs: 30_000,
  heartbeatMs: 15_000,
};

/** Validates limits and applies defaults. Throws `INVALID_OPTION` for invalid values. */
export function readLimits(limits: unknown): ServerLimits {
  const shares = Object.entries(sharedBy);
  const names = [...Object.keys(defaults), ...Object.keys(sharedBy)] as (keyof ServerLimits)[];
  const given = readFields(limits, 'limits', names);
  const chosen: Record<string, number> = { ...defaults };
  for (const name of names) {
    const value = given[name];
    if (value === undefined) continue;
    if (!Number.isSafeInteger(value) || (value as number) < 1) {
      throw invalidOption(`limits.${name}`, value, 'an integer of at least 1');
    }
    chosen[name] = value as number;
  }
  for (const [share, whole] of shares) chosen[share] ??= Math.ceil((chosen[whole] ?? 1) / 2);
  return chosen as unknown as ServerLimits;
}
