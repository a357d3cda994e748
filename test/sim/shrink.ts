import { simulate, type SimulationOptions, type SimulationReport } from './simulation.ts';

/** A failing run with as few decisions as possible. */
export interface Shrunk {
  readonly report: SimulationReport;
  /** The number of runs that it took. */
  readonly runs: number;
  readonly decisionsBefore: number;
}

/** The kind of a violation: its text without names and numbers. */
function kindOf(violation: string): string {
  return violation
    .replaceAll(/\b[a-z]\d+[\w/.~-]*/g, '_')
    .replaceAll(/\d+/g, 'N')
    .slice(0, 60);
}

const maxRuns = 300;

/** Decisions are removed by what they do: all kills, all lost hints. */
const groupOf = (name: string): string => /^[^:#]*/.exec(name)?.[0] ?? '';

/**
 * Removes decisions from a failing seed while it fails in the same way (ddmin). Removes all decisions of one kind first,
 * then smaller and smaller parts of each kind. A removed decision takes its default.
 */
export async function shrink(options: Pick<SimulationOptions, 'seed' | 'bug'>): Promise<Shrunk> {
  const first = await simulate({ ...options, keepTrace: true });
  const [violation] = first.violations;
  if (violation === undefined) throw new Error(`Seed ${options.seed} does not fail.`);
  const kind = kindOf(violation);
  const state = { best: first, runs: 1 };
  const attempt = async (decisions: readonly string[]): Promise<boolean> => {
    state.runs += 1;
    const report = await simulate({ ...options, allowed: new Set(decisions), keepTrace: true });
    const isSame = report.violations.some((one) => kindOf(one) === kind);
    if (isSame) state.best = report;
    return isSame;
  };
  const ofKind = (wanted: string): readonly string[] =>
    state.best.decisions.filter((name) => groupOf(name) === wanted);
  // Coarse parts first: each removal can make another one possible.
  for (const finest of [1, 1 / 4, 1 / 16, 0]) {
    const kinds = new Set(state.best.decisions.map(groupOf));
    for (const one of kinds) {
      const { length } = ofKind(one);
      for (let size = length; size >= Math.max(1, finest * length); size = Math.floor(size / 2)) {
        for (let start = 0; start < ofKind(one).length && state.runs < maxRuns;) {
          const part = new Set(ofKind(one).slice(start, start + size));
          const isSmaller = await attempt(state.best.decisions.filter((name) => !part.has(name)));
          if (!isSmaller) start += size;
        }
      }
    }
  }
  return { report: state.best, runs: state.runs, decisionsBefore: first.decisions.length };
}

/** Steps that explain nothing. */
const noise =
  / (?:\w+ (?:immediate|timer|timeout|wakes|boots|hint \w+|gets \w+)|commits \w+: .*|store weather|store (?:\w+ \w+|waits for .*|settle|timer|immediate))$/;
const idle =
  /fetch\w+ .* -> \[\]$|(?:due|list|reclaim|renewWorkers|register|applyTimeouts|declare)\w* /;

/** The lines of a trace that a reader needs. */
export function timeline({ trace }: SimulationReport): readonly string[] {
  return trace
    .filter((line) => !noise.test(line) && !idle.test(line))
    .map((line) => line.slice(0, 220));
}
