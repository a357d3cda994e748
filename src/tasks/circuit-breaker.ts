import { toMs, type Duration } from '../model/values/duration.ts';
import { PerdureError } from '../model/failures/errors.ts';

/** When a worker stops running a task for a while, because it keeps failing. */
export interface CircuitBreakerOptions {
  /** Failed attempts in a row that open it. Default 5. */
  readonly failures?: number | undefined;
  /** How long it stays open before one run is tried. Default 30 s. */
  readonly openFor?: Duration | undefined;
}

/** Options of a breaker with every field decided. */
export interface ResolvedBreaker {
  readonly failures: number;
  readonly openForMs: number;
}

/** How an attempt bears on its breaker; `neither` says nothing about the handler: it was canceled, lost or handed back. */
export type BreakerOutcome = 'succeeded' | 'failed' | 'neither';

/** Fills in the defaults and refuses what makes no sense. */
export function resolveBreaker(options: CircuitBreakerOptions): ResolvedBreaker {
  const { failures = 5, openFor = '30s' } = options;
  if (!Number.isSafeInteger(failures) || failures < 1) {
    throw new PerdureError(
      'INVALID_OPTION',
      `circuitBreaker.failures is ${String(failures)}; use a whole number of 1 or more.`,
    );
  }
  return { failures, openForMs: toMs(openFor, 'circuitBreaker.openFor') };
}

/**
 * Keeps a worker from running a handler that keeps failing. Closed, it counts failures in a row; open, it lets nothing
 * start until its time is over; then one attempt is the probe, whose end decides.
 */
export class CircuitBreaker {
  readonly #options: ResolvedBreaker;
  #failures = 0;
  #openUntil: number | undefined;
  #probe: symbol | undefined;

  constructor(options: ResolvedBreaker) {
    this.#options = options;
  }

  /** How many attempts may start now. */
  capacity(nowMs: number): number {
    if (this.#openUntil === undefined) return Infinity;
    return nowMs >= this.#openUntil && this.#probe === undefined ? 1 : 0;
  }

  /** When time alone lets an attempt start again; `undefined` when it is closed or waits for its probe. */
  get probeAt(): number | undefined {
    return this.#probe === undefined ? this.#openUntil : undefined;
  }

  /** Says that an attempt starts; the answer is told how it ended. */
  start(): (outcome: BreakerOutcome, nowMs: number) => void {
    const isProbe = this.#openUntil !== undefined;
    const attempt = Symbol('attempt');
    if (isProbe) this.#probe = attempt;
    return (outcome, nowMs) => {
      if (isProbe) this.#endProbe(attempt, outcome, nowMs);
      // What started before it opened has been judged already.
      else if (this.#openUntil === undefined) this.#count(outcome, nowMs);
    };
  }

  // A probe that says nothing leaves the place to the next one: the breaker must not wait for ever.
  #endProbe(attempt: symbol, outcome: BreakerOutcome, nowMs: number): void {
    if (this.#probe !== attempt) return;
    this.#probe = undefined;
    if (outcome === 'failed') this.#open(nowMs);
    if (outcome !== 'succeeded') return;
    this.#openUntil = undefined;
    this.#failures = 0;
  }

  #count(outcome: BreakerOutcome, nowMs: number): void {
    if (outcome === 'succeeded') this.#failures = 0;
    if (outcome !== 'failed') return;
    this.#failures += 1;
    if (this.#failures >= this.#options.failures) this.#open(nowMs);
  }

  #open(nowMs: number): void {
    this.#openUntil = nowMs + this.#options.openForMs;
  }
}
