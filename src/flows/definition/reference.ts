import { invalidFlow, quote } from './flow-errors.ts';

declare const target: unique symbol;

/** A reference to a value of a run: the flow's input, a step's output, or a part of one. */
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

/** The path to a value: `input` or a step name, then property keys. */
export type Path = readonly [source: string, ...keys: string[]];

const paths = new WeakMap<object, Path>();

/** Returns a reference to the input, or to the output of a step. */
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

/** Returns an object with a reference for each source. Throws `INVALID_FLOW` for any other property. */
export function referencesTo(
  sources: readonly string[],
  what: string,
): Readonly<Record<string, Reference>> {
  return new Proxy(Object.freeze({}), {
    get: (_, key) => {
      if (typeof key === 'string' && sources.includes(key)) return referenceTo(key);
      throw invalidFlow(
        `${what} refers to ${quote(String(key))}, which it cannot read. Add the step to \`needs\` or \`optional\`. Readable: ${sources.join(', ')}.`,
      );
    },
  });
}

/** Returns the path of a reference; `undefined` for any other value. */
export function pathOf(value: unknown): Path | undefined {
  return typeof value === 'object' && value !== null ? paths.get(value) : undefined;
}

/** Returns the value at the keys of a path, or `undefined`. Reads own properties only. */
export function follow(value: unknown, keys: readonly string[]): unknown {
  let found = value;
  for (const key of keys) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Readonly<Record<string, unknown>>)[key];
  }
  return found;
}

/** Formats a path as in code, for error messages. */
export function showPath(path: Path): string {
  return path.join('.');
}
