import type { Logger } from '../../model/logger.ts';
import { networkOf } from '../http/connections.ts';
import type { RejectionReason } from '../http/errors.ts';
import { RateLimit } from '../limits/rate-limit.ts';
import type { RouteName } from '../routes/table.ts';

/** How a route was answered, by route and status. */
interface ResponseCount {
  readonly route: RouteName | 'none';
  readonly status: number;
  count: number;
}

/** How many callers were turned away, by status and reason. */
interface RejectionCount {
  readonly status: number;
  readonly reason: RejectionReason;
  count: number;
}

/** What the server counts of itself, since it began. */
export class ServerMetrics {
  readonly #answers = new Map<string, ResponseCount>();
  readonly #refused = new Map<string, RejectionCount>();
  /** What is under way right now, by name. */
  readonly #gauges: Readonly<Record<string, () => number>>;

  constructor(gauges: Readonly<Record<string, () => number>>) {
    this.#gauges = gauges;
  }

  /** Counts an answer. */
  countResponse(route: RouteName | 'none', status: number): void {
    const key = `${route} ${status}`;
    const counted = this.#answers.get(key);
    if (counted === undefined) this.#answers.set(key, { route, status, count: 1 });
    else counted.count += 1;
  }

  /** Counts a caller who was turned away. */
  countRejection(status: number, reason: RejectionReason): void {
    const key = `${reason} ${status}`;
    const counted = this.#refused.get(key);
    if (counted === undefined) this.#refused.set(key, { status, reason, count: 1 });
    else counted.count += 1;
  }

  get rejections(): readonly RejectionCount[] {
    return [...this.#refused.values()];
  }

  get responses(): readonly ResponseCount[] {
    return [...this.#answers.values()];
  }

  get gauges(): readonly (readonly [name: string, value: number])[] {
    return Object.entries(this.#gauges).map(([name, read]) => [name, read()]);
  }
}

/** A caller who was turned away. Never has the token. */
interface Rejected {
  readonly requestId: string;
  readonly route: RouteName | 'none';
  readonly status: number;
  readonly reason: RejectionReason;
  /** The name of the token, where it is known. */
  readonly caller: string | null | undefined;
  readonly remoteAddress: string | undefined;
  readonly origin: string | null;
}

// A flood of refused requests must not fill the disk: the metrics count them all.
const linesPerMinute = 60;
const maxOriginLength = 200;

/** Logs and counts callers who were turned away with 401 or 403. */
export class RejectionLog {
  readonly #logger: Logger;
  readonly #figures: ServerMetrics;
  readonly #lines = new RateLimit(linesPerMinute, 60_000);

  constructor(logger: Logger, figures: ServerMetrics) {
    this.#logger = logger;
    this.#figures = figures;
  }

  add({ caller, origin, ...refused }: Rejected): void {
    const { status, reason, remoteAddress } = refused;
    this.#figures.countRejection(status, reason);
    // One host may have every address of an IPv6 network.
    if (!this.#lines.take(networkOf(remoteAddress ?? ''))) return;
    this.#logger.warn(
      {
        ...refused,
        ...(typeof caller === 'string' && { caller }),
        ...(origin !== null && { origin: origin.slice(0, maxOriginLength) }),
      },
      reason === 'origin'
        ? 'request refused: its origin is not in allowedOrigins'
        : 'request refused',
    );
  }
}
