import type { Figures } from './benchmark.ts';
import type { CaseName } from './cases.ts';

/** The figures of one round, by case; a case that was not run is absent. */
export type Round = Readonly<Partial<Record<CaseName, Figures>>>;

/** A limit for a figure. It is computed per round, so that both sides of a ratio saw the same machine load. */
export interface Goal {
  readonly what: string;
  readonly figure: (round: Round) => number | undefined;
  readonly unit: string;
  /** The limit. */
  readonly atLeast?: number;
  readonly atMost?: number;
  /** The target beyond the limit. */
  readonly target?: number;
}

/** A ratio; `undefined` if one side was not measured. */
export function ratio(above: number | undefined, below: number | undefined): number | undefined {
  return above === undefined || below === undefined ? undefined : above / below;
}

/** Whether a figure meets its goal, as text. */
export function rateGoal({ atLeast, atMost, target }: Goal, value: number): string {
  const isMet =
    (atLeast === undefined || value >= atLeast) && (atMost === undefined || value <= atMost);
  const isTargetReached =
    target !== undefined && (atMost === undefined ? value >= target : value <= target);
  if (!isMet) return 'MISSED';
  if (target === undefined) return 'met';
  if (isTargetReached) return 'met, target reached';
  return atLeast === undefined && atMost === undefined ? 'target not reached' : 'met';
}

/** The limits of a goal, as text. */
export function describeGoal({ atLeast, atMost, target, unit }: Goal): string {
  const limits = [
    ...(atLeast === undefined ? [] : [`at least ${atLeast}`]),
    ...(atMost === undefined ? [] : [`at most ${atMost}`]),
    ...(target === undefined ? [] : [`target ${target}`]),
  ];
  return `${limits.join(', ')} ${unit}`;
}
