const maxClasses = 32;

// Errors that were rebuilt from another thread, where only the names of their classes came along.
const rebuilt = new WeakMap<object, readonly string[]>();

/** The names of the classes of a thrown error, from its own class up to the built-in ones; never throws. */
export function errorClasses(thrown: unknown): readonly string[] {
  if (typeof thrown !== 'object' || thrown === null) return [];
  const known = rebuilt.get(thrown);
  if (known !== undefined) return known;
  const names: string[] = [];
  try {
    let prototype = Object.getPrototypeOf(thrown) as object | null;
    while (prototype !== null && prototype !== Object.prototype && names.length < maxClasses) {
      const name: unknown = (prototype.constructor as { readonly name?: unknown } | undefined)
        ?.name;
      if (typeof name === 'string' && name !== '') names.push(name);
      prototype = Object.getPrototypeOf(prototype) as object | null;
    }
  } catch {
    // A proxy may refuse to show its prototype; what was read before counts.
  }
  return names;
}

/** Gives an error that was rebuilt from a failure the classes that the original had. */
export function withClasses(error: Error, classes: readonly string[]): Error {
  rebuilt.set(error, classes);
  return error;
}
