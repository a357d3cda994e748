import { invalidOption, readFields } from '../model/option-fields.ts';

/** What one server takes on at most. */
export interface ServerLimits {
  /** The largest body of a request in bytes. Default 2 MiB and 64 KiB: the largest payload with what is around it. */
  readonly bodyBytes: number;
  /** The largest body of requests that carry many things at once. Default 8 MiB. */
  readonly bulkBodyBytes: number;
  /** Requests that are worked on at once; others wait for their turn. Default 100. */
  readonly concurrent: number;
  /** Requests that wait for their turn; more are refused. Default 1,000. */
  readonly queued: number;
  /** Requests that wait for something to happen. Default 1,000. */
  readonly waiting: number;
  /** Streams of events. Default 100. */
  readonly streams: number;
  /** Connections; more are closed at once. Default 4,096. */
  readonly connections: number;
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

const defaults: ServerLimits = {
  bodyBytes: 2 * 1024 * 1024 + 64 * 1024,
  bulkBodyBytes: 8 * 1024 * 1024,
  concurrent: 100,
  queued: 1_000,
  waiting: 1_000,
  streams: 100,
  connections: 4_096,
  changesPerSecond: 1_000,
  wrongTokensPerMinute: 10,
  headersMs: 10_000,
  requestMs: 30_000,
  heartbeatMs: 15_000,
};

/** Fills in what was not chosen; bad values are `INVALID_OPTION`. */
export function readLimits(limits: unknown): ServerLimits {
  const names = Object.keys(defaults) as (keyof ServerLimits)[];
  const given = readFields(limits, 'limits', names, 'INVALID_OPTION');
  const chosen: Record<string, number> = { ...defaults };
  for (const name of names) {
    const value = given[name];
    if (value === undefined) continue;
    if (!Number.isSafeInteger(value) || (value as number) < 1) {
      throw invalidOption(`limits.${name}`, value, 'a whole number of 1 or more');
    }
    chosen[name] = value as number;
  }
  return chosen as unknown as ServerLimits;
}
