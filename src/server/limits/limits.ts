import { invalidOption, readFields } from '../../model/option-fields.ts';

/** What one server takes on at most. */
export interface ServerLimits {
  /** The largest body of a request in bytes. Default 2 MiB and 64 KiB: the largest payload with what is around it. */
  readonly bodyBytes: number;
  /** The largest body of requests that carry many things at once. Default 8 MiB. */
  readonly bulkBodyBytes: number;
  /** The largest body of urgent requests: cancels, keep-alives, shutdowns. Default 256 KiB. */
  readonly urgentBodyBytes: number;
  /** Bytes of bodies in memory, from the first byte read to the end of the request. Default 128 MiB. */
  readonly bodyBudgetBytes: number;
  /** The part of `bodyBudgetBytes` that one token may hold. Default: half of it. */
  readonly bodyBudgetBytesPerToken: number;
  /** As `bodyBudgetBytes`, for the bodies of urgent requests, which have a budget of their own. Default 16 MiB. */
  readonly urgentBudgetBytes: number;
  /** The part of `urgentBudgetBytes` that one token may hold. Default: half of it. */
  readonly urgentBudgetBytesPerToken: number;
  /** Bytes of answers that were made and not yet read by their callers. Default 256 MiB. */
  readonly answerBudgetBytes: number;
  /** The part of `answerBudgetBytes` that one token may hold. Default: half of it. */
  readonly answerBudgetBytesPerToken: number;
  /** Parameters in the query of a request. Default 100. */
  readonly queryParameters: number;
  /** Requests that are worked on at once; others wait for their turn. Default 100. */
  readonly concurrent: number;
  /** Requests of one token that are worked on at once. Default: half of `concurrent`. */
  readonly concurrentPerToken: number;
  /** Requests that wait for their turn; more are refused. Default 1,000. */
  readonly queued: number;
  /** Requests of one token that wait for their turn. Default: half of `queued`. */
  readonly queuedPerToken: number;
  /** Requests that wait for something to happen. Default 1,000. */
  readonly waiting: number;
  /** Requests of one token that wait for something to happen. Default: half of `waiting`. */
  readonly waitingPerToken: number;
  /** Streams: of events, and exports. Default 100. */
  readonly streams: number;
  /** Streams of one token. Default: half of `streams`. */
  readonly streamsPerToken: number;
  /** Connections per listening address. When all are taken, a new one replaces the one idle for longest. Default 4,096. */
  readonly connections: number;
  /** Connections from one address (IPv6: one /64 network). Behind a proxy, set it to `connections`. Default 1,024. */
  readonly connectionsPerAddress: number;
  /** How long a connection may be idle before its first authenticated request, in milliseconds. Default 5 s. */
  readonly anonymousIdleMs: number;
  /** Changes that one token may ask for in a second; twice as many at once. Default 1,000. */
  readonly changesPerSecond: number;
  /** Wrong tokens from one address in a minute before they are answered with `RATE_LIMITED`. Default 10. */
  readonly wrongTokensPerMinute: number;
  /** How long the headers of a request may take, in milliseconds. Default 10 s. */
  readonly headersMs: number;
  /** How long a request may take to arrive, and an answer to be made or taken, in milliseconds. Default 30 s. */
  readonly requestMs: number;
  /** How often a stream without news says that it is there, in milliseconds. Default 15 s. */
  readonly heartbeatMs: number;
}

const mib = 1024 * 1024;

/** What one token may have, where it was not chosen: this part of the limit that all tokens share. */
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

/** Fills in what was not chosen; bad values are `INVALID_OPTION`. */
export function readLimits(limits: unknown): ServerLimits {
  const shares = Object.entries(sharedBy);
  const names = [...Object.keys(defaults), ...Object.keys(sharedBy)] as (keyof ServerLimits)[];
  const given = readFields(limits, 'limits', names);
  const chosen: Record<string, number> = { ...defaults };
  for (const name of names) {
    const value = given[name];
    if (value === undefined) continue;
    if (!Number.isSafeInteger(value) || (value as number) < 1) {
      throw invalidOption(`limits.${name}`, value, 'a whole number of 1 or more');
    }
    chosen[name] = value as number;
  }
  for (const [share, whole] of shares) chosen[share] ??= Math.ceil((chosen[whole] ?? 1) / 2);
  return chosen as unknown as ServerLimits;
}
