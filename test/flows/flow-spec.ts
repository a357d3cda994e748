import fc from 'fast-check';

/** One step of a random flow; steps are named by their place: s0, s1, … */
export interface StepSpec {
  readonly kind: 'step' | 'map' | 'generator' | 'reduce';
  /** How an earlier step is depended on, by its place. */
  readonly dependencies: Readonly<Record<number, 'needs' | 'after'>>;
  /** Absent: no condition. */
  readonly condition?:
    { readonly kind: 'flag'; readonly holds: boolean } | { readonly kind: 'exists' };
  readonly hasSignal: boolean;
  readonly maxAttempts: number;
  /** How many items a map or generator has. */
  readonly items: number;
  readonly concurrency: number;
  /** The place of the step that a reduce folds; absent: the input. */
  readonly source?: number;
}

/** A random flow, and the choices that decide what happens to it. */
export interface FlowSpec {
  readonly steps: readonly StepSpec[];
  readonly hasOnFail: boolean;
  readonly choices: readonly number[];
}

export const foldedAtOnce = 2;

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

/** Random flows that pass every check at build. */
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

/** The places of the dependencies whose output is given and that may be skipped. */
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
