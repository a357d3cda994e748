import fc from 'fast-check';
import type { CommonStartOptions } from '../../src/model/start-settings.ts';
import type { Bracket, Conflict, Leaf, Program, Step } from './random-program.ts';

const names = fc.constantFrom('a', 'b', 'c');
const timeouts = fc.constantFrom(undefined, undefined, 20);
const cancellations = fc.constantFrom(undefined, undefined, 'request', 'wait', 'abandon');
const keepLosers = fc.constantFrom(false, false, true);

/** Options of the starts of children and detached instances. */
const starts: fc.Arbitrary<CommonStartOptions | undefined> = fc.oneof(
  fc.constant(undefined),
  fc.record(
    {
      delay: fc.nat(50),
      timeout: fc.integer({ min: 1, max: 50 }),
      priority: fc.nat(100),
      headers: fc.dictionary(names, names, { maxKeys: 2 }),
      tags: fc.dictionary(names, names, { maxKeys: 2 }),
    },
    { requiredKeys: [] },
  ),
);

/** What a start does with the instance that has its id. Two ids, so that children find earlier ones. */
const conflicts: fc.Arbitrary<Conflict | undefined> = fc.oneof(
  fc.constant(undefined),
  fc.record({
    id: fc.constantFrom('x', 'y'),
    onConflict: fc.constantFrom('reject', 'useExisting', 'terminateExisting'),
  }),
  fc.record({
    id: fc.constantFrom('x', 'y'),
    event: fc.record({ token: names, payload: fc.nat(9) }),
  }),
);

const leaf: fc.Arbitrary<Leaf> = fc.oneof(
  {
    arbitrary: fc.record({
      kind: fc.constant('call'),
      name: names,
      timeoutMs: timeouts,
      cancellation: cancellations,
    }),
    weight: 3,
  },
  {
    arbitrary: fc.record({
      kind: fc.constant('child'),
      name: names,
      cancellation: cancellations,
      start: starts,
      conflict: conflicts,
    }),
    weight: 3,
  },
  {
    arbitrary: fc.record({ kind: fc.constantFrom('run', 'transaction'), name: names }),
    weight: 3,
  },
  {
    arbitrary: fc.record({ kind: fc.constant('task'), name: names, timeoutMs: timeouts }),
    weight: 1,
  },
  { arbitrary: fc.record({ kind: fc.constant('sleep'), ms: fc.nat(50) }), weight: 2 },
  {
    arbitrary: fc.record({
      kind: fc.constant('wait'),
      event: names,
      timeoutMs: timeouts,
      isChecked: fc.boolean(),
    }),
    weight: 2,
  },
  {
    arbitrary: fc.record({
      kind: fc.constant('awakeable'),
      timeoutMs: timeouts,
      isChecked: fc.boolean(),
    }),
    weight: 2,
  },
);

const { step } = fc.letrec<{ step: Step; bracket: Bracket }>((tie) => ({
  bracket: fc.record({
    kind: fc.constantFrom('scope', 'shield'),
    step: tie('step'),
    timeoutMs: timeouts,
  }),
  step: fc.oneof(
    { maxDepth: 6, depthSize: 'medium', withCrossShrink: true },
    { arbitrary: leaf, weight: 4 },
    {
      arbitrary: fc.record({
        kind: fc.constantFrom('status', 'emit', 'random', 'microtasks', 'tags', 'headers'),
      }),
      weight: 1,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('detached'),
        start: starts,
        conflict: conflicts,
      }),
      weight: 1,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('state'),
        action: fc.constantFrom('set', 'set', 'get', 'delete'),
        key: names,
      }),
      weight: 1,
    },
    {
      arbitrary: fc.record({ kind: fc.constant('patch'), id: names, step: tie('step') }),
      weight: 1,
    },
    { arbitrary: fc.record({ kind: fc.constant('deprecate'), id: names }), weight: 1 },
    { arbitrary: tie('bracket'), weight: 3 },
    {
      arbitrary: fc.record({
        kind: fc.constant('cancel'),
        target: fc.oneof(leaf, tie('bracket')),
        after: fc.option(leaf, { nil: undefined }),
      }),
      weight: 1,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('sequence'),
        steps: fc.array(tie('step'), { maxLength: 4 }),
      }),
      weight: 3,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('attempt'),
        step: tie('step'),
        otherwise: tie('step'),
      }),
      weight: 1,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('finally'),
        step: tie('step'),
        cleanUp: fc.oneof(
          tie('step'),
          fc.record({ kind: fc.constant('shield'), step: tie('step'), timeoutMs: timeouts }),
        ),
      }),
      weight: 2,
    },
    { arbitrary: fc.record({ kind: fc.constant('spawn'), step: tie('step') }), weight: 1 },
    {
      arbitrary: fc.record({
        kind: fc.constant('join'),
        by: fc.constantFrom('native', 'context'),
        combinator: fc.constantFrom('all', 'allSettled', 'race', 'any'),
        keepLosers,
        branches: fc.array(tie('step'), { minLength: 1, maxLength: 4 }),
      }),
      weight: 3,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('select'),
        keepLosers,
        branches: fc.array(tie('step'), { minLength: 1, maxLength: 4 }),
      }),
      weight: 1,
    },
  ),
}));

/**
 * Random programs: all operations, native and durable combinators, scopes and shields with and without timeouts,
 * compensation, branches without an await, update handlers; nested, in sequence and in parallel.
 */
export const programs: fc.Arbitrary<Program> = fc.record({
  step: fc
    .array(step, { minLength: 1, maxLength: 3 })
    .map((steps): Step => ({ kind: 'sequence', steps })),
  rounds: fc.constantFrom(1, 1, 1, 2, 3),
  heedsCancel: fc.boolean(),
  settlesUpdates: fc.boolean(),
  updates: fc.oneof(
    fc.constant([]),
    fc.array(fc.record({ step, isPicky: fc.boolean() }), { minLength: 1, maxLength: 2 }),
  ),
});
