/** Compiles only if the value has exactly this type: rejects `any` and wider or narrower types. */
export function exactly<Expected>() {
  return <Actual>(
    _value: Actual,
    ..._proof: Same<Actual, Expected> extends true ? [] : [mismatch: { is: Actual; not: Expected }]
  ): void => undefined;
}

// Two invariant boxes are assignable both ways only if their types are equal. `any` is always assignable, so it is
// checked separately.
type Same<A, B> = IsAny<A> extends IsAny<B> ? ([Box<A>] extends [Box<B>] ? true : false) : false;

interface Box<T> {
  readonly held: (value: T) => T;
}

type IsAny<T> = 0 extends 1 & T ? true : false;
