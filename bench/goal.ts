import type { Figures } from './benchmark.ts';
import type { CaseName } from './cases.ts';

/** The figures of one round, by case; a case that was not run is absent. */
export type Round = Readonly<Partial<Record<CaseName, Figures>>>;

/** What we want of a figure; it is taken from each round, so that both sides of a ratio saw the same machine. */
export interface Goal {
  readonly what: string;
  readonly figure: (round: Round) => number | undefined;
  readonly unit: string;
  /** What must hold. */
  readonly atLeast?: number;
  readonly atMost?: number;
  /** What we hope for. */
  readonly hope?: number;
}

/** A ratio, where there are both sides of it. */
export function ratio(above: number | undefined, below: number | undefined): number | undefined {
  return above === undefined || below === undefined ? undefined : above / below;
}

/** Whether a figure is where we want it, in words. */
export function judge({ atLeast, atMost, hope }: Goal, value: number): string {
  const isMet =
    (atLeast === undefined || value >= atLeast) && (atMost === undefined || value <= atMost);
  const isHoped = hope !== undefined && (atMost === undefined ? value >= hope : value <= hope);
  if (!isMet) return 'MISSED';
  if (hope === undefined) return 'met';
  if (isHoped) return 'met, with what we hope for';
  return atLeast === undefined && atMost === undefined ? 'not yet' : 'met';
}

/** What is wanted, in words. */
export function describeGoal({ atLeast, atMost, hope, unit }: Goal): string {
  const limits = [
    ...(atLeast === undefined ? [] : [`at least ${atLeast}`]),
    ...(atMost === undefined ? [] : [`at most ${atMost}`]),
    ...(hope === undefined ? [] : [`hoped ${hope}`]),
  ];
  return `${limits.join(', ')} ${unit}`;
}
