import { toMs, type Duration } from '../model/values/duration.ts';
import { invalidOption } from '../model/option-fields.ts';

/** Pauses a task in a worker after consecutive failures. */
export interface CircuitBreakerOptions {
  /** Consecutive failed attempts that open the breaker. Default: 5. */
  readonly failures?: number | undefined;
  /** Time before a probe run is allowed. Default: 30 s. */
  readonly openFor?: Duration | undefined;
}

/** Options with defaults applied. */
export interface ResolvedBreaker {
  readonly failures: number;
  readonly openForMs: number;
}

/** Effect of an attempt on the breaker. `neither`: it was canceled, lost or released. */
export type BreakerOutcome = 'succeeded' | 'failed' | 'neither';

/** Applies the defaults. Throws `INVALID_OPTION` or `INVALID_DURATION` for an invalid value. */
export function resolveBreaker(options: CircuitBreakerOptions): ResolvedBreaker {
  const { failures = 5, openFor = '30s' } = options;
  if (!Number.isSafeInteger(failures) || failures < 1) {
    throw invalidOption('circuitBreaker.failures', failures, 'an integer of at least 1');
  }
  return { failures, openForMs: toMs(openFor, 'circuitBreaker.openFor') };
}

/**
 * Stops a worker from running a handler that keeps failing. Closed: counts consecutive failures. Open: allows no
 * attempt until `openFor` has passed. Then one attempt is the probe, and its outcome closes or reopens the breaker.
 */
export class CircuitBreaker {
  readonly #options: ResolvedBreaker;
  #failures = 0;
  #openUntil: number | undefined;
  #probe: symbol | undefined;

  constructor(options: ResolvedBreaker) {
    this.#options = options;
  }

  /** Returns how many attempts may start now. */
  capacity(nowMs: number): number {
    if (this.#openUntil === undefined) return Infinity;
    return nowMs >= this.#openUntil && this.#probe === undefined ? 1 : 0;
  }

  /** When a probe may start. `undefined` while the breaker is closed or a probe runs. */
  get probeAt(): number | undefined {
    return this.#probe === undefined ? this.#openUntil : undefined;
  }

  /** Registers an attempt. Call the returned function once with its outcome. */
  start(): (outcome: BreakerOutcome, nowMs: number) => void {
    const isProbe = this.#openUntil !== undefined;
    const attempt = Symbol('attempt');
    if (isProbe) this.#probe = attempt;
    return (outcome, nowMs) => {
      if (isProbe) this.#endProbe(attempt, outcome, nowMs);
      // Attempts from before the breaker opened do not count.
      else if (this.#openUntil === undefined) this.#count(outcome, nowMs);
    };
  }

  // A probe without a verdict allows another one, so that the breaker cannot stay open forever.
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
