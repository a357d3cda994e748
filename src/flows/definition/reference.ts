import { invalidFlow } from './flow-errors.ts';

declare const target: unique symbol;

/** Stands for a value that a run will have: the flow's input, a step's output, or a part of one. */
export interface Reference<Value = unknown, From extends string = string> {
  readonly [target]: { readonly value: Value; readonly from: From };
}

/** A reference whose properties are references to the parts of its value. */
export type Ref<Value, From extends string = string> = Reference<Value, From> &
  (NonNullable<Value> extends readonly (infer Item)[]
    ? { readonly [index: number]: Ref<Item, From>; readonly length: Ref<number, From> }
    : NonNullable<Value> extends object
      ? { readonly [Key in keyof NonNullable<Value>]-?: Ref<NonNullable<Value>[Key], From> }
      : unknown);

/** Where a value lies: `input` or the name of a step, then the keys down to it. */
export type Path = readonly [source: string, ...keys: string[]];

const paths = new WeakMap<object, Path>();

/** A reference to the whole input or output of a source. */
export function referenceTo(source: string): Reference {
  return reference([source]);
}

function reference(path: Path): Reference {
  const children = new Map<string, Reference>();
  const proxy = new Proxy(Object.freeze({}), {
    get: (_, key) => {
      if (typeof key === 'symbol') return undefined;
      const child = children.get(key) ?? reference([...path, key]);
      children.set(key, child);
      return child;
    },
  });
  paths.set(proxy, path);
  return proxy as Reference;
}

/** An object with a reference for each source; asking it for another one says which there are. */
export function referencesTo(
  sources: readonly string[],
  what: string,
): Readonly<Record<string, Reference>> {
  return new Proxy(Object.freeze({}), {
    get: (_, key) => {
      if (typeof key === 'string' && sources.includes(key)) return referenceTo(key);
      throw invalidFlow(
        `${what} refers to '${String(key)}', which it cannot see. It sees: ${sources.join(', ')}. Name the step in needs or optional first.`,
      );
    },
  });
}

/** The path of a reference; `undefined` for anything else. */
export function pathOf(value: unknown): Path | undefined {
  return typeof value === 'object' && value !== null ? paths.get(value) : undefined;
}

/** Follows the keys of a path into a value. Only own properties count; `undefined` says that there is nothing. */
export function follow(value: unknown, keys: readonly string[]): unknown {
  let found = value;
  for (const key of keys) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Readonly<Record<string, unknown>>)[key];
  }
  return found;
}

/** A path as an author would write it. */
export function showPath(path: Path): string {
  return path.join('.');
}
