import { platform, type Platform } from '../../../src/model/platform.ts';

type Methods = Record<string, (...args: never[]) => unknown>;

/** Replaces a method of a class. Returns a function that restores it. */
export function replace<T extends object & { [K in keyof T]: T[K] }>(
  of: { readonly prototype: T },
  name: keyof T & string,
  make: (original: (...args: unknown[]) => unknown) => (this: T, ...args: never[]) => unknown,
): () => () => void {
  return () => {
    const prototype: Methods = of.prototype;
    const original = prototype[name] as (...args: unknown[]) => unknown;
    prototype[name] = make(original);
    return () => void (prototype[name] = original as never);
  };
}

/** A method that does nothing. */
export const never = () => () => undefined;

/** Replaces a function of the simulated platform. */
export function replacePlatformFunction<Name extends keyof Platform>(
  name: Name,
  replacement: Platform[Name],
): () => () => void {
  return () => {
    const original = platform[name];
    platform[name] = replacement;
    return () => void (platform[name] = original);
  };
}
