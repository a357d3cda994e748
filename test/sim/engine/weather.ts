import type { Decisions } from './decisions.ts';

/** The faults, and how often each happens: per call, per hint, or per 20 ms and process. */
const rates = {
  kill: 0.012,
  killClient: 0.004,
  storeStep: 0.004,
  stop: 0.012,
  step: 0.008,
  gracefulStop: 0.004,
  failBefore: 0.03,
  failAfter: 0.03,
  slow: 0.03,
  badItem: 0.03,
  repeat: 0.12,
  hintLost: 0.25,
  hintTwice: 0.15,
  hintLate: 0.15,
  wakeLost: 0.25,
} as const;

export type Fault = keyof typeof rates;

/** Faults that end leases. */
const disruptive: readonly Fault[] = [
  'kill',
  'stop',
  'gracefulStop',
  'failBefore',
  'failAfter',
  'slow',
];

/** The conditions of one seed: which faults it has, and how its processes differ. */
export interface Weather {
  readonly rates: Readonly<Partial<Record<Fault, number>>>;
  /** Processes stop between two readings of their clock. */
  readonly stalls: boolean;
  /** Handlers use the CPU. */
  readonly burns: boolean;
  /** The largest difference of a wall clock from the store's. 0: all have the store's clock. */
  readonly skewMs: number;
  /** The store wakes waiting fetches itself. Otherwise the connection does, and loses some wake-ups. */
  readonly storeWakes: boolean;
  /** Polling finds what no hint or wake-up announced. Otherwise only lease expiry and timers are left. */
  readonly pollMs: number;
  readonly workers: number;
  /** Hosts whose workers check each other, and take over the claims of dead processes. 0: only leases end claims. */
  readonly hosts: number;
  readonly activityLeaseMs: number;
  readonly orchestrationLeaseMs: number;
  /** Claims without an outcome after which an item is poison. */
  readonly maxClaims: number;
  readonly mixedBuilds: boolean;
  readonly fastPaths: boolean;
  readonly warm: boolean;
  /** Hints stay lost at the end. */
  readonly deafEnd: boolean;
}

/** Chooses the conditions of a seed. A few faults at a time find more bugs than all together. */
export function chooseWeather(decisions: Decisions): Weather {
  const has = (name: string, probability: number): boolean =>
    decisions.draw(`weather ${name}`) < probability;
  const isCalm = has('calm', 0.15);
  const chosen: Partial<Record<Fault, number>> = {};
  for (const [fault, rate] of Object.entries(rates) as [Fault, number][]) {
    if (has(fault, 0.45) && !isCalm) chosen[fault] = rate;
  }
  const hosts = has('takeovers', 0.25) ? (has('two hosts', 0.25) ? 2 : 1) : 0;
  if (hosts > 0 && !isCalm) chosen.kill = rates.kill;
  const storeWakes = has('storeWakes', 0.4);
  if (storeWakes) delete chosen.wakeLost;
  const canPollRarely = storeWakes && !chosen.hintLost && !chosen.failBefore && !chosen.failAfter;
  const stalls = has('stalls', 0.35) && !isCalm;
  const burns = has('burns', 0.5);
  // Each of them can end the attempts of one item several times.
  const isDisruptive = stalls || burns || disruptive.some((fault) => chosen[fault] !== undefined);
  return {
    rates: chosen,
    stalls,
    burns,
    skewMs: has('skew', 0.4) && !storeWakes ? 2_000 : 0,
    storeWakes,
    pollMs: canPollRarely ? 100_000 : 250,
    workers: 1 + Math.floor(decisions.draw('weather workers') * 3),
    hosts,
    // Long enough that a takeover comes first.
    activityLeaseMs: hosts > 0 ? 3_000 : 300,
    orchestrationLeaseMs: hosts > 0 ? 2_000 : 200,
    maxClaims: isDisruptive ? 25 : 4,
    mixedBuilds: has('mixedBuilds', 0.15),
    fastPaths: has('fastPaths', 0.8),
    warm: has('warm', 0.85),
    deafEnd: has('deafEnd', 0.5) && chosen.hintLost !== undefined,
  };
}
