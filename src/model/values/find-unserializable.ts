/** Maximum levels of a payload. */
export const maxPayloadDepth = 500;
const maxPathLength = 200;

/** The size of a value: its nodes, and the characters of its strings without keys. */
export interface ValueSize {
  nodes: number;
  characters: number;
}

/** Returns why JSON cannot represent a value unchanged, with the path; `undefined` if it can. Adds to `size` what it reads. */
export function findUnserializable(
  value: unknown,
  size: ValueSize = { nodes: 0, characters: 0 },
): string | undefined {
  const found = find(value, [], size);
  if (found === undefined) return undefined;
  return `${showPath(found.path.toReversed())} ${found.problem}`;
}

interface Found {
  /** From the inside out: built only after a problem was found. */
  readonly path: (string | number)[];
  readonly problem: string;
}

function find(value: unknown, ancestors: object[], size: ValueSize): Found | undefined {
  size.nodes += 1;
  switch (typeof value) {
    case 'string':
      size.characters += value.length;
      return undefined;
    case 'bigint':
      return found('is a BigInt');
    case 'function':
      return found('is a function');
    case 'symbol':
      return found('is a symbol');
    case 'number':
      return Number.isFinite(value) ? undefined : found(`is ${value}`);
    case 'object':
      return value === null ? undefined : findInObject(value, ancestors, size);
    default:
      return undefined;
  }
}

function findInObject(value: object, ancestors: object[], size: ValueSize): Found | undefined {
  if (ancestors.includes(value)) return found('refers back to itself');
  if (ancestors.length >= maxPayloadDepth)
    return found(`is nested more than ${maxPayloadDepth} deep`);
  const foreign = foreignKind(value);
  if (foreign !== undefined) return found(`is ${foreign}`);
  // JSON would write its result instead of the value. A non-enumerable method is not among the properties.
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
    return found('has a toJSON method (pass what it returns)');
  }
  ancestors.push(value);
  const inner = Array.isArray(value)
    ? findInItems(value, ancestors, size)
    : findInProperties(value as Record<string, unknown>, ancestors, size);
  ancestors.pop();
  return inner;
}

function findInItems(
  items: readonly unknown[],
  ancestors: object[],
  size: ValueSize,
): Found | undefined {
  for (let index = 0; index < items.length; index++) {
    const item = items[index];
    const inner =
      item === undefined ? found('is undefined (use null)') : find(item, ancestors, size);
    if (inner !== undefined) return within(inner, index);
  }
  return undefined;
}

function findInProperties(
  properties: Readonly<Record<string, unknown>>,
  ancestors: object[],
  size: ValueSize,
): Found | undefined {
  for (const key of Object.keys(properties)) {
    if (key === '__proto__') return found('has a key named __proto__');
    const inner = find(properties[key], ancestors, size);
    if (inner !== undefined) return within(inner, key);
  }
  return undefined;
}

/** Built-in classes that JSON would write as text, or as empty or plain objects. */
export const foreignKinds: ReadonlyMap<string, string> = new Map([
  ['Date', 'a Date (pass its toISOString() or getTime(), or serialized(value))'],
  ['Promise', 'a promise (is an await missing?)'],
  ['Map', 'a Map'],
  ['Set', 'a Set'],
  ['WeakMap', 'a weak collection'],
  ['WeakSet', 'a weak collection'],
  ['RegExp', 'a RegExp'],
  ['Error', 'an Error'],
  ['ArrayBuffer', 'binary data (pass it as base64 text)'],
  ['SharedArrayBuffer', 'binary data (pass it as base64 text)'],
  ['Number', 'a boxed primitive'],
  ['String', 'a boxed primitive'],
  ['Boolean', 'a boxed primitive'],
  ['Symbol', 'a boxed primitive'],
  ['BigInt', 'a boxed primitive'],
]);

/** Describes an object that is neither a plain object nor a plain array. */
function foreignKind(value: object): string | undefined {
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype || prototype === Array.prototype || prototype === null) {
    return undefined;
  }
  if (value instanceof Map || value instanceof Set) return `a ${value.constructor.name}`;
  if (ArrayBuffer.isView(value)) return foreignKinds.get('ArrayBuffer');
  const kind = value instanceof Error ? 'Error' : builtinKind(value);
  return foreignKinds.get(kind) ?? (isPlain(value, prototype) ? undefined : instanceOf(prototype));
}

/** Whether an object of another realm (a vm context, some test runners) is plain there. */
function isPlain(value: object, prototype: object): boolean {
  const above = Object.getPrototypeOf(prototype) as object | null;
  if (!Array.isArray(value)) return above === null;
  return Array.isArray(prototype) && above !== null && Object.getPrototypeOf(above) === null;
}

function instanceOf({ constructor }: object): string {
  const { name } = constructor as { readonly name?: unknown };
  return typeof name === 'string' && name !== '' && name !== 'Object'
    ? `an instance of ${name.slice(0, 60)} (pass plain data)`
    : 'an object with a prototype of its own (pass plain data)';
}

function found(problem: string): Found {
  return { path: [], problem };
}

function within(inner: Found, key: string | number): Found {
  inner.path.push(key);
  return inner;
}

/** Formats a path for a message, from the outside in. */
export function showPath(path: readonly (string | number)[]): string {
  if (path.length === 0) return 'the value';
  const text = path
    .map((key, index) => (typeof key === 'number' ? `[${key}]` : index === 0 ? key : `.${key}`))
    .join('');
  return text.length <= maxPathLength ? text : `${text.slice(0, maxPathLength)}…`;
}

/**
 * Returns the built-in class of an object, also of another realm (a vm context, a frame) with other classes. `Object` for
 * all others.
 */
export function builtinKind(value: object): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}
