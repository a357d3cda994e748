/** Compiles only when the value's type is exactly the one asked for: `any` and wider or narrower types are refused. */
export function exactly<Expected>() {
  return <Actual>(
    _value: Actual,
    ..._proof: Same<Actual, Expected> extends true ? [] : [mismatch: { is: Actual; not: Expected }]
  ): void => undefined;
}

// Two invariant boxes fit both ways only when what they hold is the same; `any` fits everywhere and is asked for apart.
type Same<A, B> = IsAny<A> extends IsAny<B> ? ([Box<A>] extends [Box<B>] ? true : false) : false;

interface Box<T> {
  readonly held: (value: T) => T;
}

type IsAny<T> = 0 extends 1 & T ? true : false;
