import { ByteBudget, type ByteReservation } from './byte-budget.ts';
import { ConcurrencyLimit, CapacityLimit } from './concurrency-limit.ts';
import type { ServerLimits } from './limits.ts';
import { RateLimit } from './rate-limit.ts';
import { rateLimited } from '../http/errors.ts';
import type { RouteShape } from '../routes/route.ts';

const nothing = (): void => undefined;
// Twice a second's worth may come at once.
const burst = 2;

/**
 * Decides when a request may be worked on, and how many bytes it may hold. Urgent requests (cancels, keep-alives,
 * shutdowns) need no place: a caller that stops work must not have to wait for that work. `/v1/health` is outside every
 * limit. `caller` is the name of a token, or an address where there are none.
 */
export class Admission {
  readonly #gate: ConcurrencyLimit;
  readonly #waiting: CapacityLimit;
  readonly #streams: CapacityLimit;
  readonly #bodies: ByteBudget;
  readonly #urgentBodies: ByteBudget;
  readonly #answers: ByteBudget;
  readonly #changes: RateLimit;
  readonly #wrongTokens: RateLimit;

  constructor(limits: ServerLimits) {
    this.#gate = new ConcurrencyLimit({
      max: limits.concurrent,
      maxPerCaller: limits.concurrentPerToken,
      maxQueued: limits.queued,
      maxQueuedPerCaller: limits.queuedPerToken,
    });
    this.#waiting = new CapacityLimit(limits.waiting, limits.waitingPerToken, 'requests that wait');
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
    this.#answers = new ByteBudget({
      totalBytes: limits.answerBudgetBytes,
      bytesPerCaller: limits.answerBudgetBytesPerToken,
      what: 'unread answers',
    });
    this.#changes = new RateLimit(limits.changesPerSecond, 1_000, burst);
    this.#wrongTokens = new RateLimit(limits.wrongTokensPerMinute, 60_000);
  }

  /** What is under way, for the figures of the server. */
  get gauges(): Readonly<Record<string, () => number>> {
    return {
      working: () => this.#gate.active,
      queued: () => this.#gate.queued,
      waiting: () => this.#waiting.taken,
      streams: () => this.#streams.taken,
      bodyBytes: () => this.#bodies.held,
      urgentBodyBytes: () => this.#urgentBodies.held,
      answerBytes: () => this.#answers.held,
    };
  }

  /** Refuses a change above the rate of its caller, before its body is read. */
  checkRate(shape: RouteShape, caller: string): void {
    const isCounted = isLimited(shape) && shape.as !== 'events' && shape.waits !== true;
    if (!isCounted || shape.method === 'GET' || this.#changes.take(caller)) return;
    throw rateLimited('This token asks for too many changes in a second.');
  }

  /** Where the bytes of a request's body are counted. */
  openBody({ urgent }: RouteShape, caller: string): ByteReservation {
    return (urgent === true ? this.#urgentBodies : this.#bodies).open(caller);
  }

  /** Where the bytes of an answer are counted until they are read. */
  openResponse(caller: string): ByteReservation {
    return this.#answers.open(caller);
  }

  /** Lets a request in, now or when there is room, and returns how it leaves; refuses it otherwise. */
  async admit(shape: RouteShape, caller: string, signal: AbortSignal): Promise<() => void> {
    if (!isLimited(shape)) return nothing;
    if (shape.as === 'events' || shape.exports === true) return this.#streams.acquire(caller);
    if (shape.waits === true) return this.#waiting.acquire(caller);
    return this.#gate.acquire(caller, signal);
  }

  /** Counts a wrong token, and refuses an address that sends too many. */
  countWrongToken(address: string): void {
    if (!this.#wrongTokens.take(address))
      throw rateLimited('Too many wrong tokens came from here.');
  }
}

function isLimited({ urgent, role }: RouteShape): boolean {
  return urgent !== true && role !== 'public';
}
