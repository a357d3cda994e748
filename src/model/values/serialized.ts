import { PerdureError } from '../failures/errors.ts';
import { builtinKind, foreignKinds, maxPayloadDepth, showPath } from './find-unserializable.ts';

/**
 * The type of a value after JSON. A `Date` is text, a class instance has only its properties, and `undefined` in an array is
 * `null`. Methods are removed. `never` for values that JSON would lose: a `BigInt`, a symbol, a `Map`, a `Set`, an error,
 * a promise and binary data.
 */
export type Serialized<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null | undefined
    ? T
    : T extends { toJSON(key?: string): infer Json }
      ? Serialized<Json>
      : T extends Lost
        ? never
        : T extends readonly unknown[]
          ? { [K in keyof T]: SerializedItem<T[K]> }
          : { [K in keyof T as K extends symbol ? never : OmitMethods<T[K], K>]: Serialized<T[K]> };

type SerializedItem<T> = T extends undefined ? null : Serialized<T>;
type OmitMethods<Value, Key> = Value extends (...args: never[]) => unknown ? never : Key;
type Lost =
  | bigint
  | symbol
  | Error
  | RegExp
  | ArrayBuffer
  | ArrayBufferView
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | WeakMap<WeakKey, unknown>
  | WeakSet<WeakKey>
  | PromiseLike<unknown>
  | ((...args: never[]) => unknown);

/**
 * Converts a value into plain data, as JSON would: a `Date` becomes ISO text, a class instance its properties. Use it for
 * rows with dates and for class instances, which a payload rejects. Throws `NOT_SERIALIZABLE`, with the path, for a value
 * that JSON would lose, such as a `BigInt`, `NaN`, an invalid `Date`, a `Map`, a `Set`, an error, binary data or a cycle.
 */
export function serialized<T>(value: T): Serialized<T> {
  return convert(value, [], []) as Serialized<T>;
}

type Path = readonly (string | number)[];

function convert(value: unknown, path: Path, ancestors: readonly object[]): unknown {
  switch (typeof value) {
    case 'bigint':
      throw lost(path, 'is a BigInt');
    case 'symbol':
      throw lost(path, 'is a symbol');
    case 'function':
      throw lost(path, 'is a function');
    case 'number':
      if (Number.isFinite(value)) return value;
      throw lost(path, `is ${value}`);
    case 'object':
      return value === null ? null : convertObject(value, path, ancestors);
    default:
      return value;
  }
}

function convertObject(value: object, path: Path, ancestors: readonly object[]): unknown {
  if (ancestors.includes(value)) throw lost(path, 'refers back to itself');
  if (ancestors.length >= maxPayloadDepth) {
    throw lost(path, `is nested more than ${maxPayloadDepth} deep`);
  }
  const inside = [...ancestors, value];
  const kind = builtinKind(value);
  if (kind === 'Date' && Number.isNaN((value as Date).getTime())) {
    throw lost(path, 'is an invalid Date');
  }
  const { toJSON } = value as { readonly toJSON?: unknown };
  if (typeof toJSON === 'function') {
    const json: unknown = Reflect.apply(toJSON, value, [String(path.at(-1) ?? '')]);
    return convert(json, path, inside);
  }
  const problem = ArrayBuffer.isView(value)
    ? foreignKinds.get('ArrayBuffer')
    : foreignKinds.get(value instanceof Error ? 'Error' : kind);
  if (problem !== undefined) throw lost(path, `is ${problem}`);
  return Array.isArray(value)
    ? Array.from(value, (item: unknown, index) => convert(item ?? null, [...path, index], inside))
    : convertProperties(value, path, inside);
}

function convertProperties(value: object, path: Path, inside: readonly object[]): object {
  const plain: Record<string, unknown> = {};
  for (const [key, property] of Object.entries(value)) {
    if (key === '__proto__') throw lost(path, 'has a key named __proto__');
    if (property === undefined || typeof property === 'function') continue;
    plain[key] = convert(property, [...path, key], inside);
  }
  return plain;
}

function lost(path: Path, problem: string): PerdureError {
  return new PerdureError(
    'NOT_SERIALIZABLE',
    `serialized() cannot convert the value: ${showPath(path)} ${problem}. Convert it to plain data before the call.`,
  );
}
