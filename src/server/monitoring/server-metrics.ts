import type { Logger } from '../../model/logger.ts';
import { networkOf } from '../http/connections.ts';
import type { RejectionReason } from '../http/errors.ts';
import { RateLimit } from '../limits/rate-limit.ts';
import type { RouteName } from '../routes/table.ts';

/** Requests of a dashboard, which are not in the table of routes. */
export type DashboardRoute = 'dashboardFile' | 'dashboardSession';

/** Routes as the metrics and the log name them. */
export type CountedRoute = RouteName | DashboardRoute | 'none';

// About 100 routes can each respond with ten errors: further pairs of a route and an error are counted as `other`.
const maxErrorResponses = 150;

interface ResponseCount {
  readonly route: CountedRoute | 'other';
  readonly status: number;
  count: number;
}

interface RejectionCount {
  readonly status: number;
  readonly reason: RejectionReason;
  count: number;
}

/** Counters and gauges of one server, since its start. */
export class ServerMetrics {
  readonly #responses = new Map<string, ResponseCount>();
  readonly #rejections = new Map<string, RejectionCount>();
  readonly #gauges: Readonly<Record<string, () => number>>;
  #errorResponses = 0;

  constructor(gauges: Readonly<Record<string, () => number>>) {
    this.#gauges = gauges;
  }

  countResponse(route: CountedRoute, status: number): void {
    this.#responseCount(route, status).count += 1;
  }

  #responseCount(route: ResponseCount['route'], status: number): ResponseCount {
    const key = `${route} ${status}`;
    let counted = this.#responses.get(key);
    if (counted === undefined) {
      if (status >= 400 && route !== 'other') {
        if (this.#errorResponses >= maxErrorResponses) return this.#responseCount('other', status);
        this.#errorResponses += 1;
      }
      counted = { route, status, count: 0 };
      this.#responses.set(key, counted);
    }
    return counted;
  }

  countRejection(status: number, reason: RejectionReason): void {
    const key = `${reason} ${status}`;
    const counted = this.#rejections.get(key);
    if (counted === undefined) this.#rejections.set(key, { status, reason, count: 1 });
    else counted.count += 1;
  }

  get rejections(): readonly RejectionCount[] {
    return [...this.#rejections.values()];
  }

  get responses(): readonly ResponseCount[] {
    return [...this.#responses.values()];
  }

  get gauges(): readonly (readonly [name: string, value: number])[] {
    return Object.entries(this.#gauges).map(([name, read]) => [name, read()]);
  }
}

/** A request rejected with 401 or 403. Never includes the token. */
interface Rejected {
  readonly requestId: string;
  readonly route: CountedRoute;
  readonly status: number;
  readonly reason: RejectionReason;
  /** The name of the token, if it is known. */
  readonly caller: string | null | undefined;
  readonly remoteAddress: string | undefined;
  readonly origin: string | null;
}

// Per network, so that a flood of rejected requests cannot fill the disk. The metrics count all of them.
const linesPerMinute = 60;
const maxOriginLength = 200;

/** Logs and counts requests rejected with 401 or 403. */
export class RejectionLog {
  readonly #logger: Logger;
  readonly #metrics: ServerMetrics;
  readonly #lines = new RateLimit(linesPerMinute, 60_000);

  constructor(logger: Logger, metrics: ServerMetrics) {
    this.#logger = logger;
    this.#metrics = metrics;
  }

  add({ caller, origin, ...rejected }: Rejected): void {
    const { status, reason, remoteAddress } = rejected;
    this.#metrics.countRejection(status, reason);
    // One host may use every address of an IPv6 network.
    if (!this.#lines.take(networkOf(remoteAddress ?? ''))) return;
    this.#logger.warn(
      {
        ...rejected,
        ...(typeof caller === 'string' && { caller }),
        ...(origin !== null && { origin: origin.slice(0, maxOriginLength) }),
      },
      reason === 'origin'
        ? 'request rejected: its origin is not in allowedOrigins'
        : 'request rejected',
    );
  }
}
