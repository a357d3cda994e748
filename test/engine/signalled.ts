/** A promise that a test settles from inside the code under test. */
export function signalled<T>(): PromiseWithResolvers<T> {
  return Promise.withResolvers<T>();
}
