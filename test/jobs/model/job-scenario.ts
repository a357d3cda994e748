import fc from 'fast-check';
import { breakable, type Breakable } from './faulty-connection.ts';

/**
 * What a handler does: `quick` returns immediately, `gated` waits for its release or abort, `stubborn` ignores aborts,
 * `commit` waits past its point of no return, `failing` throws, `chatty` emits chunks and then waits.
 */
export type Mode = 'quick' | 'gated' | 'stubborn' | 'commit' | 'failing' | 'chatty';

/** `own` is the implicit session of a client. `control` is never shut down during the scenario. */
export type Where = 'subject' | 'control' | 'own';

export type Step =
  | {
      readonly kind: 'submit';
      readonly where: Where;
      readonly mode: Mode;
      readonly nested: boolean;
    }
  | {
      readonly kind:
        | 'result'
        | 'hurriedResult'
        | 'close'
        | 'cancel'
        | 'release'
        | 'read'
        | 'leave'
        | 'reuse';
      readonly job: number;
    }
  | {
      readonly kind: 'shutdown';
      readonly mode: 'graceful' | 'forceful';
      readonly by: 'client' | 'operator';
    }
  | { readonly kind: 'goodbye' }
  | { readonly kind: 'die' }
  | { readonly kind: 'break'; readonly method: Breakable; readonly when: 'before' | 'after' }
  | { readonly kind: 'pass'; readonly turns: number };

export interface Scenario {
  readonly maxInFlight: number;
  readonly steps: readonly Step[];
}

const submit = fc.record({
  kind: fc.constant('submit' as const),
  where: fc.constantFrom<Where>('subject', 'subject', 'subject', 'control', 'own'),
  mode: fc.constantFrom<Mode>('quick', 'gated', 'gated', 'stubborn', 'commit', 'failing', 'chatty'),
  nested: fc.boolean(),
});

const ofJob = fc.record({
  kind: fc.constantFrom(
    'result' as const,
    'result' as const,
    'hurriedResult' as const,
    'close' as const,
    'close' as const,
    'cancel' as const,
    'release' as const,
    'read' as const,
    'leave' as const,
    'reuse' as const,
  ),
  job: fc.nat({ max: 7 }),
});

const ofSession = fc.oneof(
  fc.record({
    kind: fc.constant('shutdown' as const),
    mode: fc.constantFrom('graceful' as const, 'forceful' as const),
    by: fc.constantFrom('client' as const, 'operator' as const),
  }),
  fc.constant({ kind: 'goodbye' as const }),
  fc.constant({ kind: 'die' as const }),
);

const trouble = fc.record({
  kind: fc.constant('break' as const),
  method: fc.constantFrom(...breakable),
  when: fc.constantFrom('before' as const, 'after' as const),
});

const pass = fc.record({
  kind: fc.constant('pass' as const),
  turns: fc.integer({ min: 1, max: 12 }),
});

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: submit },
  { weight: 8, arbitrary: ofJob },
  { weight: 1, arbitrary: ofSession },
  { weight: 2, arbitrary: trouble },
  { weight: 5, arbitrary: pass },
);

/** Random scenarios with a few jobs and sessions. */
export const scenario: fc.Arbitrary<Scenario> = fc.record({
  maxInFlight: fc.integer({ min: 1, max: 4 }),
  steps: fc.array(step, { minLength: 4, maxLength: 24, size: 'max' }),
});

/** Scenarios in which the client never dies, for stores with a real clock. */
export const scenarioWithoutDeath: fc.Arbitrary<Scenario> = scenario.map((one) => ({
  ...one,
  steps: one.steps.filter(({ kind }) => kind !== 'die'),
}));
