import type { Logger } from '../../model/logger.ts';
import { networkOf } from './connections.ts';
import { RateLimit } from '../limits/rate-limit.ts';
import type { RefusalReason } from './refusal.ts';
import type { RouteName } from '../routes/table.ts';
import type { ServerFigures } from '../reading/server-metrics.ts';

/** A caller who was turned away. Never has the token. */
interface Refused {
  readonly requestId: string;
  readonly route: RouteName | 'none';
  readonly status: number;
  readonly reason: RefusalReason;
  /** The name of the token, where it is known. */
  readonly caller: string | null | undefined;
  readonly remoteAddress: string | undefined;
  readonly origin: string | null;
}

// A flood of refused requests must not fill the disk: the metrics count them all.
const linesPerMinute = 60;
const maxOriginLength = 200;

/** Logs and counts callers who were turned away with 401 or 403. */
export class RefusalLog {
  readonly #logger: Logger;
  readonly #figures: ServerFigures;
  readonly #lines = new RateLimit(linesPerMinute, 60_000);

  constructor(logger: Logger, figures: ServerFigures) {
    this.#logger = logger;
    this.#figures = figures;
  }

  add({ caller, origin, ...refused }: Refused): void {
    const { status, reason, remoteAddress } = refused;
    this.#figures.countRefused(status, reason);
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
