import { ByteBudget, type ByteReservation } from './byte-budget.ts';
import { ConcurrencyLimit, CapacityLimit } from './concurrency-limit.ts';
import type { ServerLimits } from './limits.ts';
import { RateLimit } from './rate-limit.ts';
import { rateLimited } from '../http/errors.ts';
import type { RouteShape } from '../routes/route.ts';

const noop = (): void => undefined;
// Seconds' worth of writes that may arrive in a burst.
const writeBurst = 2;

/**
 * Applies the limits of the server to requests. Urgent requests (cancels, keep-alives, shutdowns) need no capacity: a
 * caller that stops work must not wait for that work. Public routes are not limited. `caller` is the name of a token,
 * or an address if the server has no tokens.
 */
export class Admission {
  readonly #concurrency: ConcurrencyLimit;
  readonly #waits: CapacityLimit;
  readonly #streams: CapacityLimit;
  readonly #bodies: ByteBudget;
  readonly #urgentBodies: ByteBudget;
  readonly #responses: ByteBudget;
  readonly #writes: RateLimit;
  readonly #wrongTokens: RateLimit;

  constructor(limits: ServerLimits) {
    this.#concurrency = new ConcurrencyLimit({
      max: limits.concurrent,
      maxPerCaller: limits.concurrentPerToken,
      maxQueued: limits.queued,
      maxQueuedPerCaller: limits.queuedPerToken,
    });
    this.#waits = new CapacityLimit(limits.waiting, limits.waitingPerToken, 'long polls');
    this.#streams = new CapacityLimit(limits.streams, limits.streamsPerToken, 'streams');
    this.#bodies = new ByteBudget({
      totalBytes: limits.bodyBudgetBytes,
      bytesPerCaller: limits.bodyBudgetBytesPerToken,
      what: 'request bodies',
    });
    this.#urgentBodies = new ByteBudget({
      totalBytes: limits.urgentBudgetBytes,
      bytesPerCaller: limits.urgentBudgetBytesPerToken,
      what: 'urgent request bodies',
    });
    this.#responses = new ByteBudget({
      totalBytes: limits.answerBudgetBytes,
      bytesPerCaller: limits.answerBudgetBytesPerToken,
      what: 'unread responses',
    });
    this.#writes = new RateLimit(limits.changesPerSecond, 1_000, writeBurst);
    this.#wrongTokens = new RateLimit(limits.wrongTokensPerMinute, 60_000);
  }

  /** Current load, by the `what` label of the metric `perdure_server_under_way`. */
  get gauges(): Readonly<Record<string, () => number>> {
    return {
      working: () => this.#concurrency.active,
      queued: () => this.#concurrency.queued,
      waiting: () => this.#waits.taken,
      streams: () => this.#streams.taken,
      bodyBytes: () => this.#bodies.held,
      urgentBodyBytes: () => this.#urgentBodies.held,
      answerBytes: () => this.#responses.held,
    };
  }

  /** Throws 429 for a write above the rate of its caller. Called before the body is read. */
  checkRate(shape: RouteShape, caller: string): void {
    const isCounted = isLimited(shape) && shape.as !== 'events' && shape.waits !== true;
    if (!isCounted || shape.method === 'GET' || this.#writes.take(caller)) return;
    throw rateLimited('This token sends too many writes.', this.#writes.refillMs(caller));
  }

  openBody({ urgent }: RouteShape, caller: string): ByteReservation {
    return (urgent === true ? this.#urgentBodies : this.#bodies).open(caller);
  }

  /** Opens the reservation for the bytes of a response until it was sent. */
  openResponse(caller: string): ByteReservation {
    return this.#responses.open(caller);
  }

  /** Resolves with a release function once there is capacity. Rejects with 429 or 503 if the queue is full. */
  async admit(shape: RouteShape, caller: string, signal: AbortSignal): Promise<() => void> {
    if (!isLimited(shape)) return noop;
    if (shape.as === 'events' || shape.exports === true) return this.#streams.acquire(caller);
    if (shape.waits === true) return this.#waits.acquire(caller);
    return this.#concurrency.acquire(caller, signal);
  }

  /** Counts a wrong token. Throws 429 for an address that sends too many. */
  countWrongToken(address: string): void {
    if (this.#wrongTokens.take(address)) return;
    const waitMs = this.#wrongTokens.refillMs(address);
    throw rateLimited('Too many wrong tokens from this address.', waitMs);
  }
}

function isLimited({ urgent, role, isLimited: isPublicLimited }: RouteShape): boolean {
  return urgent !== true && (role !== 'public' || isPublicLimited === true);
}
