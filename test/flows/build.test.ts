import { describe, expect, it } from 'vitest';
import { event, isPerdureError, Perdure } from 'perdure';
import { and, eq, flow, gt, not, type FlowDefinition } from 'perdure/flows';

/** The builder without its types, for JavaScript callers. */
interface Untyped {
  step(name: unknown, ...rest: unknown[]): Untyped;
  map(name: unknown, ...rest: unknown[]): Untyped;
  generator(name: unknown, ...rest: unknown[]): Untyped;
  reduce(name: unknown, ...rest: unknown[]): Untyped;
  onFail(...rest: unknown[]): Untyped;
  output(...names: unknown[]): FlowDefinition;
}

const untyped = (name = 'bad'): Untyped => flow(name);
const nothing = (): undefined => undefined;
const always = { when: ({ input }: { input: never }) => eq(input, 1) };
const over = (name: string) => ({ over: (sources: Record<string, unknown>) => sources[name] });

function thrownBy(build: () => unknown): unknown {
  try {
    build();
  } catch (error) {
    return error;
  }
  throw new Error('Nothing was thrown.');
}

describe('building an invalid flow', () => {
  const refused: readonly (readonly [string, () => unknown, RegExp])[] = [
    ['a flow without steps', () => untyped().output(), /"bad" has no steps\. Add one/],
    [
      'two steps with the same name',
      () => untyped().step('a', nothing).step('a', nothing).output(),
      /two steps named "a"\. Rename one/,
    ],
    [
      'an unknown dependency',
      () =>
        untyped()
          .step('a', { needs: ['b'] }, nothing)
          .output(),
      /depends on "b", which is not a step\. Steps: a/,
    ],
    [
      'an unknown ordering dependency',
      () =>
        untyped()
          .step('a', { after: ['b'] }, nothing)
          .output(),
      /depends on "b"/,
    ],
    [
      'a dependency cycle',
      () =>
        untyped()
          .step('a', { needs: ['c'] }, nothing)
          .step('b', { needs: ['a'] }, nothing)
          .step('c', { after: ['b'] }, nothing)
          .output(),
      /cycle: a -> c -> b -> a\. Remove one/,
    ],
    [
      'a step that depends on itself',
      () =>
        untyped()
          .step('a', { needs: ['a'] }, nothing)
          .output(),
      /cycle: a -> a/,
    ],
    [
      'a reduce over itself',
      () =>
        untyped()
          .reduce('a', { ...over('a'), initial: 0 }, nothing)
          .output(),
      /cycle: a -> a/,
    ],
    [
      'a map over an unknown step',
      () => untyped().map('a', over('b'), nothing).output(),
      /depends on "b", which is not a step/,
    ],
    [
      'a need that a condition can skip',
      () =>
        untyped()
          .step('a', always, nothing)
          .step('b', { needs: ['a'] }, nothing)
          .output(),
      /needs "a", which its condition may skip\. List it in `optional`/,
    ],
    [
      'a map over a step that a condition can skip',
      () => untyped().step('a', always, nothing).map('b', over('a'), nothing).output(),
      /reads the items of "a", which its condition may skip/,
    ],
    [
      'an output that is not a step',
      () => untyped().step('a', nothing).output('b'),
      /names "b", which is not a step\. Steps: a/,
    ],
    [
      'an output after one without a condition',
      () => untyped().step('a', nothing).step('b', nothing).output('a', 'b'),
      /"b" of flow "bad" is unreachable: "a" before it has no condition/,
    ],
    [
      'an output named twice',
      () => untyped().step('a', always, nothing).output('a', 'a'),
      /names "a" twice/,
    ],
    [
      'a signal that two steps wait for',
      () =>
        untyped()
          .step('a', { signal: event('go') }, nothing)
          .step('b', { signal: event('go') }, nothing)
          .output(),
      /"a" and "b" .* same signal "go"/,
    ],
    [
      'a signal name of 249 bytes',
      () => untyped().step('a', { signal: event('x'.repeat(249)) }, nothing),
      /signal name of step "a" .* exceeds 248 bytes\. Shorten it/,
    ],
    [
      'a step named __proto__',
      () => untyped().step('__proto__', nothing).output(),
      /step named "__proto__", which cannot be stored as a key\. Choose another/,
    ],
    [
      'a signal named __proto__',
      () =>
        untyped()
          .step('a', { signal: event('__proto__') }, nothing)
          .output(),
      /signal "__proto__", which cannot be stored as a key\. Choose another/,
    ],
    [
      'a signal that is not an event',
      () => untyped().step('a', { signal: 'go' }, nothing),
      /must be an event/,
    ],
    [
      'a step with the reserved name input',
      () => untyped().step('input', nothing),
      /step named "input".*another/,
    ],
    ['a step name with a slash', () => untyped().step('a/b', nothing), /must not contain/],
    ['an empty step name', () => untyped().step('', nothing), /has no name/],
    ['an empty flow name', () => untyped(''), /Invalid flow name ""/],
    [
      'a handler that is not a function',
      () => untyped().step('a', {}, 5),
      /handler .* must be a function/,
    ],
    ['a missing handler', () => untyped().map('a', over('input')), /handler .* must be a function/],
    [
      'a generator that is not a function',
      () => untyped().generator('a', {}, 5, nothing),
      /generator .* must be a function/,
    ],
    [
      'an unknown option',
      () => untyped().step('a', { neds: [] }, nothing),
      /Unknown option "neds" of step "a"/,
    ],
    [
      'an option of another kind of step',
      () => untyped().step('a', { concurrency: 5 }, nothing),
      /Unknown option "concurrency"/,
    ],
    [
      'options that are not an object',
      () => untyped().step('a', null, nothing),
      /must be an object/,
    ],
    [
      'a needs option that is not an array',
      () => untyped().step('a', { needs: 'b' }, nothing),
      /`needs` .* must be an array/,
    ],
    [
      'a concurrency of 0',
      () => untyped().map('a', { ...over('input'), concurrency: 0 }, nothing),
      /Invalid `concurrency` 0 .* must be a positive integer/,
    ],
    [
      'a map over a value that is not a reference',
      () => untyped().map('a', { over: () => [1, 2] }, nothing),
      /over` .* must return a reference/,
    ],
    [
      'a condition that is a boolean',
      () => untyped().step('a', { when: () => true }, nothing),
      /requires a condition, such as eq/,
    ],
    [
      'a condition on a step that is not a dependency',
      () =>
        untyped()
          .step('a', nothing)
          .step('b', { when: ({ a }: { a: never }) => eq(a, 1) }, nothing),
      /refers to "a", which it cannot read\..* Readable: input/,
    ],
    [
      'a comparison without a reference',
      () => untyped().step('a', { when: () => gt(1 as never, 2) }, nothing),
      /first argument of gt\(\) must be a reference/,
    ],
    [
      'a comparison with NaN',
      () => untyped().step('a', { when: ({ input }: never) => eq(input, Number.NaN) }, nothing),
      /must be plain JSON data/,
    ],
    [
      'a comparison with a Date',
      () =>
        untyped().step(
          'a',
          { when: ({ input }: never) => eq(input, { on: [new Date(0)] }) },
          nothing,
        ),
      /must be plain JSON data/,
    ],
    [
      'a comparison with a Map',
      () =>
        untyped().step('a', { when: ({ input }: never) => eq(input, new Map() as never) }, nothing),
      /must be plain JSON data/,
    ],
    ['and() without conditions', () => and(), /requires at least one condition/],
    ['not() without a condition', () => not(undefined as never), /requires a condition/],
    [
      'two on-fail handlers',
      () => untyped().onFail(nothing).onFail(nothing),
      /two on-fail handlers/,
    ],
  ];

  it.each(refused)('building a flow throws INVALID_FLOW for %s', (_title, build, message) => {
    const error = thrownBy(build);
    expect(isPerdureError(error, 'INVALID_FLOW')).toBe(true);
    expect((error as Error).message).toMatch(message);
  });

  it('step() throws INVALID_OPTION for an invalid retry policy, INVALID_DURATION for a negative timeout', () => {
    const retry = thrownBy(() => untyped().step('a', { retry: { maxAttempts: 0 } }, nothing));
    expect(isPerdureError(retry, 'INVALID_OPTION')).toBe(true);
    const timeout = thrownBy(() => untyped().step('a', { timeout: -1 }, nothing));
    expect(isPerdureError(timeout, 'INVALID_DURATION')).toBe(true);
  });

  it('step() throws INVALID_NAME when flow and step name together are too long', () => {
    const error = thrownBy(() => untyped('f'.repeat(200)).step('s'.repeat(60), nothing));
    expect(isPerdureError(error, 'INVALID_NAME')).toBe(true);
  });
});

describe('a flow definition', () => {
  it('a builder can be extended into several flows with separate outputs', () => {
    const beginning = flow('shared').step('a', () => 1);
    const one = beginning.step('b', { needs: ['a'] }, (_ctx, { a }) => a + 1).output();
    const other = beginning.step('c', { needs: ['a'] }, (_ctx, { a }) => a + 2).output();
    expect(one.graph.output).toEqual(['b']);
    expect(other.graph.output).toEqual(['c']);
  });

  it('a flow graph is frozen, JSON-serializable data', () => {
    const { graph } = flow('frozen')
      .input<{ readonly euros: number }>()
      .step(
        'a',
        { when: ({ input }) => gt(input.euros, 5), retry: { maxAttempts: Infinity } },
        () => 1,
      )
      .output();
    expect(JSON.parse(JSON.stringify(graph))).toEqual(graph);
    expect(Object.isFrozen(graph.steps[0]?.when)).toBe(true);
  });

  it('building a flow copies its options and does not freeze the originals', () => {
    const initial = { seen: ['none'] };
    const needs = ['a'] as const;
    const built = flow('polite')
      .step('a', () => [1])
      .reduce('b', { over: ({ a }) => a, needs, initial }, (_ctx, all) => all)
      .output();
    initial.seen.push('changed');
    expect([Object.isFrozen(initial), Object.isFrozen(needs)]).toEqual([false, false]);
    expect(built.graph.steps[1]?.initial).toEqual({ seen: ['none'] });
  });

  it('an untyped builder accepts a step before its dependency', () => {
    const { graph } = untyped('order')
      .step('b', { needs: ['a'] }, nothing)
      .step('a', nothing)
      .output();
    expect(graph.output).toEqual(['b']);
  });

  it('startWorker() rejects a duplicate or invalid flow, runFlow() an invalid one', async () => {
    const one = flow('twice')
      .step('a', () => 1)
      .output();
    await using perdure = await Perdure.open(':memory:');
    await expect(perdure.startWorker({ flows: [one, one] })).rejects.toMatchObject({
      code: 'ALREADY_REGISTERED',
    });
    await expect(perdure.startWorker({ flows: [{} as never] })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
    await expect(perdure.client.runFlow({} as never)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });
});
