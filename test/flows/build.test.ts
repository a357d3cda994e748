import { describe, expect, it } from 'vitest';
import { event, isPerdureError, Perdure } from 'perdure';
import { and, eq, flow, gt, not, type FlowDefinition } from 'perdure/flows';

/** A builder as JavaScript sees it: whoever has no types gets the same answers at build. */
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

describe('a flow that cannot run as its author means it is refused when it is built', () => {
  const refused: readonly (readonly [string, () => unknown, RegExp])[] = [
    ['an empty flow', () => untyped().output(), /"bad" has no steps\. Add one/],
    [
      'two steps of one name',
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
      'a cycle',
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
      'a reduce of itself',
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
      'a need that may be skipped',
      () =>
        untyped()
          .step('a', always, nothing)
          .step('b', { needs: ['a'] }, nothing)
          .output(),
      /needs "a", which its condition may skip\. List it in `optional`/,
    ],
    [
      'a map over a step that may be skipped',
      () => untyped().step('a', always, nothing).map('b', over('a'), nothing).output(),
      /reads the items of "a", which its condition may skip/,
    ],
    [
      'an output that is no step',
      () => untyped().step('a', nothing).output('b'),
      /names "b", which is not a step\. Steps: a/,
    ],
    [
      'an output behind one that always completes',
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
      'a signal whose name leaves no room for that of its event',
      () => untyped().step('a', { signal: event('x'.repeat(249)) }, nothing),
      /signal name of step "a" .* exceeds 248 bytes\. Shorten it/,
    ],
    [
      'a step with a name that cannot be stored',
      () => untyped().step('__proto__', nothing).output(),
      /step named "__proto__", which cannot be stored as a key\. Choose another/,
    ],
    [
      'a signal with a name that cannot be stored',
      () =>
        untyped()
          .step('a', { signal: event('__proto__') }, nothing)
          .output(),
      /signal "__proto__", which cannot be stored as a key\. Choose another/,
    ],
    [
      'a signal that is no event',
      () => untyped().step('a', { signal: 'go' }, nothing),
      /must be an event/,
    ],
    ['a reserved name', () => untyped().step('input', nothing), /step named "input".*another/],
    ['a name with a slash', () => untyped().step('a/b', nothing), /must not contain/],
    ['a step without a name', () => untyped().step('', nothing), /has no name/],
    ['a flow without a name', () => untyped(''), /Invalid flow name ""/],
    [
      'a handler that is no function',
      () => untyped().step('a', {}, 5),
      /handler .* must be a function/,
    ],
    ['a missing handler', () => untyped().map('a', over('input')), /handler .* must be a function/],
    [
      'a generator that is no function',
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
    ['options that are no object', () => untyped().step('a', null, nothing), /must be an object/],
    [
      'needs that are no list',
      () => untyped().step('a', { needs: 'b' }, nothing),
      /`needs` .* must be an array/,
    ],
    [
      'a concurrency of nothing',
      () => untyped().map('a', { ...over('input'), concurrency: 0 }, nothing),
      /Invalid `concurrency` 0 .* must be a positive integer/,
    ],
    [
      'a map over no reference',
      () => untyped().map('a', { over: () => [1, 2] }, nothing),
      /over` .* must return a reference/,
    ],
    [
      'a condition that is a truth value',
      () => untyped().step('a', { when: () => true }, nothing),
      /requires a condition, such as eq/,
    ],
    [
      'a condition about a step that it does not depend on',
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
      'a comparison with what JSON cannot carry',
      () => untyped().step('a', { when: ({ input }: never) => eq(input, Number.NaN) }, nothing),
      /must be plain JSON data/,
    ],
    [
      'a comparison with a Date, which JSON would turn into text',
      () =>
        untyped().step(
          'a',
          { when: ({ input }: never) => eq(input, { on: [new Date(0)] }) },
          nothing,
        ),
      /must be plain JSON data/,
    ],
    [
      'a comparison with a Map, which JSON would empty',
      () =>
        untyped().step('a', { when: ({ input }: never) => eq(input, new Map() as never) }, nothing),
      /must be plain JSON data/,
    ],
    ['a condition of nothing', () => and(), /requires at least one condition/],
    ['the opposite of nothing', () => not(undefined as never), /requires a condition/],
    [
      'two on-fail handlers',
      () => untyped().onFail(nothing).onFail(nothing),
      /two on-fail handlers/,
    ],
  ];

  it.each(refused)('%s', (_title, build, message) => {
    const error = thrownBy(build);
    expect(isPerdureError(error, 'INVALID_FLOW')).toBe(true);
    expect((error as Error).message).toMatch(message);
  });

  it('a retry policy or timeout that makes no sense, as for an activity', () => {
    const retry = thrownBy(() => untyped().step('a', { retry: { maxAttempts: 0 } }, nothing));
    expect(isPerdureError(retry, 'INVALID_OPTION')).toBe(true);
    const timeout = thrownBy(() => untyped().step('a', { timeout: -1 }, nothing));
    expect(isPerdureError(timeout, 'INVALID_DURATION')).toBe(true);
  });

  it('a name that is too long for its activities', () => {
    const error = thrownBy(() => untyped('f'.repeat(200)).step('s'.repeat(60), nothing));
    expect(isPerdureError(error, 'INVALID_NAME')).toBe(true);
  });
});

describe('a flow that is built', () => {
  it('shares its beginning with others', () => {
    const beginning = flow('shared').step('a', () => 1);
    const one = beginning.step('b', { needs: ['a'] }, (_ctx, { a }) => a + 1).output();
    const other = beginning.step('c', { needs: ['a'] }, (_ctx, { a }) => a + 2).output();
    expect(one.graph.output).toEqual(['b']);
    expect(other.graph.output).toEqual(['c']);
  });

  it('is plain data that nobody can change', () => {
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

  it('leaves what its author gave it as it was', () => {
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

  it('may be defined in any order where there are no types', () => {
    const { graph } = untyped('order')
      .step('b', { needs: ['a'] }, nothing)
      .step('a', nothing)
      .output();
    expect(graph.output).toEqual(['b']);
  });

  it('cannot be registered twice, nor beside an orchestration of its name', async () => {
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
