import { Gate, Seats } from './gate.ts';
import type { ServerLimits } from './limits.ts';
import { RateLimit } from './rate-limit.ts';
import { Refusal } from './refusal.ts';
import type { RouteShape } from './routes/route.ts';
import type { Caller } from './tokens.ts';

const nobody = (): void => undefined;
// Twice a second's worth may come at once.
const burst = 2;

/**
 * Decides when a request may be worked on. Urgent ones (cancels, keep-alives, shutdowns) are let in at once, whatever
 * else is under way: whoever wants to stop work must not have to wait for that work.
 */
export class Admission {
  readonly #gate: Gate;
  readonly #waiting: Seats;
  readonly #streams: Seats;
  readonly #changes: RateLimit;
  readonly #wrongTokens: RateLimit;

  constructor(limits: ServerLimits) {
    this.#gate = new Gate(limits.concurrent, limits.queued);
    this.#waiting = new Seats(limits.waiting, 'requests that wait');
    this.#streams = new Seats(limits.streams, 'streams');
    this.#changes = new RateLimit(limits.changesPerSecond, 1_000, burst);
    this.#wrongTokens = new RateLimit(limits.wrongTokensPerMinute, 60_000);
  }

  /** What is under way, for the figures of the server. */
  get gauges(): Readonly<Record<string, () => number>> {
    return {
      working: () => this.#gate.inside,
      queued: () => this.#gate.queued,
      waiting: () => this.#waiting.taken,
      streams: () => this.#streams.taken,
    };
  }

  /** Lets a request in, now or when there is room, and answers how it leaves; refuses it otherwise. */
  async enter(shape: RouteShape, caller: Caller, signal: AbortSignal): Promise<() => void> {
    if (shape.urgent === true) return nobody;
    if (shape.as === 'events') return this.#streams.take();
    if (shape.waits === true) return this.#waiting.take();
    if (shape.method !== 'GET' && !this.#changes.take(caller.name ?? '')) {
      throw tooMany('This token asks for too many changes in a second.');
    }
    return this.#gate.enter(signal);
  }

  /** Counts a wrong token, and refuses an address that sends too many. */
  countWrongToken(address: string): void {
    if (!this.#wrongTokens.take(address)) throw tooMany('Too many wrong tokens came from here.');
  }
}

function tooMany(why: string): Refusal {
  return new Refusal('RATE_LIMITED', `${why} Slow down.`, {
    status: 429,
    headers: { 'retry-after': '1' },
  });
}
