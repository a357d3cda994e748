import fc from 'fast-check';

/** One step of a random flow. Steps are named by their position: s0, s1, … */
export interface StepSpec {
  readonly kind: 'step' | 'map' | 'generator' | 'reduce';
  /** Dependency kinds by the position of the earlier step. */
  readonly dependencies: Readonly<Record<number, 'needs' | 'after'>>;
  /** Default: no condition. */
  readonly condition?:
    | { readonly kind: 'flag'; readonly holds: boolean }
    | { readonly kind: 'exists' };
  readonly hasSignal: boolean;
  readonly maxAttempts: number;
  /** Number of items of a map or generator. */
  readonly items: number;
  readonly concurrency: number;
  /** Position of the step that a reduce folds. Default: the input. */
  readonly source?: number;
}

/** A random flow and the choices that select the actions on its run. */
export interface FlowSpec {
  readonly steps: readonly StepSpec[];
  readonly hasOnFail: boolean;
  readonly choices: readonly number[];
}

export const reduceBatchSize = 2;

const raw = fc.record({
  kind: fc.constantFrom('step', 'step', 'step', 'map', 'generator', 'reduce'),
  dependencies: fc.array(
    fc.record({ back: fc.nat(4), how: fc.constantFrom('needs', 'needs', 'after') }),
    { maxLength: 3 },
  ),
  condition: fc.option(fc.constantFrom('holds', 'fails', 'exists'), { freq: 2, nil: undefined }),
  hasSignal: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
  maxAttempts: fc.integer({ min: 1, max: 2 }),
  items: fc.nat(5),
  concurrency: fc.integer({ min: 1, max: 3 }),
  source: fc.nat(4),
} as const);

type Raw = typeof raw extends fc.Arbitrary<infer Value> ? Value : never;

/** Random flows that are valid. */
export const flowSpec: fc.Arbitrary<FlowSpec> = fc
  .record({
    steps: fc.array(raw, { minLength: 1, maxLength: 6 }),
    hasOnFail: fc.boolean(),
    choices: fc.array(fc.nat(1_000), { maxLength: 25 }),
  })
  .map(({ steps, ...rest }) => {
    const specs: StepSpec[] = [];
    for (const step of steps) specs.push(toSpec(step, specs));
    return { steps: specs, ...rest };
  });

function toSpec(step: Raw, earlier: readonly StepSpec[]): StepSpec {
  const place = earlier.length;
  const dependencies = Object.fromEntries(
    step.dependencies
      .map(({ back, how }) => [place - 1 - back, how] as const)
      .filter(([index]) => index >= 0),
  );
  const source = place - 1 - step.source;
  const canFold = earlier[source] !== undefined && earlier[source].condition === undefined;
  const hasSkippable = optionalOf({ dependencies }, earlier).length > 0;
  const condition = toCondition(step.condition, hasSkippable);
  return {
    kind: step.kind,
    dependencies,
    ...(condition !== undefined && { condition }),
    hasSignal: step.hasSignal,
    maxAttempts: step.maxAttempts,
    items: step.items,
    concurrency: step.concurrency,
    ...(step.kind === 'reduce' && canFold && { source }),
  };
}

function toCondition(
  kind: Raw['condition'],
  hasSkippable: boolean,
): NonNullable<StepSpec['condition']> | undefined {
  if (kind === undefined) return undefined;
  if (kind === 'exists' && hasSkippable) return { kind: 'exists' };
  return { kind: 'flag', holds: kind !== 'fails' };
}

/** Returns the positions of the needed dependencies that a condition can skip. */
export function optionalOf(
  { dependencies }: Pick<StepSpec, 'dependencies'>,
  steps: readonly StepSpec[],
): readonly number[] {
  return Object.entries(dependencies)
    .filter(([index, how]) => how === 'needs' && steps[Number(index)]?.condition !== undefined)
    .map(([index]) => Number(index));
}

export function nameOf(place: number): string {
  return `s${place}`;
}
