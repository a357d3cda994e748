import { builtinKind } from './builtin-kind.ts';

const maxDepth = 500;
const maxPathLength = 200;

/** What stands in the way of a value becoming JSON unchanged, with the path to it; `undefined` when nothing does. */
export function findUncarriable(value: unknown): string | undefined {
  const found = find(value, []);
  if (found === undefined) return undefined;
  return `${shownPath(found.path)} ${found.problem}`;
}

interface Found {
  /** From the inside out: it is only built once there is a problem. */
  readonly path: (string | number)[];
  readonly problem: string;
}

function find(value: unknown, ancestors: object[]): Found | undefined {
  switch (typeof value) {
    case 'bigint':
      return found('is a BigInt');
    case 'function':
      return found('is a function');
    case 'symbol':
      return found('is a symbol');
    case 'number':
      return Number.isFinite(value) ? undefined : found(`is ${value}`);
    case 'object':
      return value === null ? undefined : findInObject(value, ancestors);
    default:
      return undefined;
  }
}

function findInObject(value: object, ancestors: object[]): Found | undefined {
  if (ancestors.includes(value)) return found('refers back to itself');
  if (ancestors.length >= maxDepth) return found(`is nested more than ${maxDepth} deep`);
  const carried = toJson(value);
  if (carried !== value) {
    ancestors.push(value);
    const inner =
      typeof carried === 'object' && carried !== null
        ? findInMembers(carried, ancestors)
        : find(carried, ancestors);
    ancestors.pop();
    return inner;
  }
  return findInMembers(value, ancestors);
}

function findInMembers(value: object, ancestors: object[]): Found | undefined {
  const foreign = foreignKind(value);
  if (foreign !== undefined) return found(`is ${foreign}`);
  ancestors.push(value);
  const inner = Array.isArray(value)
    ? findInItems(value, ancestors)
    : findInProperties(value as Record<string, unknown>, ancestors);
  ancestors.pop();
  return inner;
}

function findInItems(items: readonly unknown[], ancestors: object[]): Found | undefined {
  for (let index = 0; index < items.length; index++) {
    const inner = find(items[index], ancestors);
    if (inner !== undefined) return within(inner, index);
  }
  return undefined;
}

function findInProperties(
  properties: Readonly<Record<string, unknown>>,
  ancestors: object[],
): Found | undefined {
  for (const key of Object.keys(properties)) {
    if (key === '__proto__') return found('has a key named __proto__');
    const inner = find(properties[key], ancestors);
    if (inner !== undefined) return within(inner, key);
  }
  return undefined;
}

/** What JSON would take in place of a value that knows how to become JSON; the value itself for all others. */
function toJson(value: object): unknown {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? Number.NaN : '';
  const convert = (value as { toJSON?: unknown }).toJSON;
  return typeof convert === 'function' && !ArrayBuffer.isView(value)
    ? (convert.call(value, '') as unknown)
    : value;
}

// JSON writes all of these as if they were empty or plain objects.
const foreignKinds: ReadonlyMap<string, string> = new Map([
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

function foreignKind(value: object): string | undefined {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === Array.prototype) return undefined;
  if (value instanceof Map || value instanceof Set) return `a ${value.constructor.name}`;
  if (ArrayBuffer.isView(value)) return foreignKinds.get('ArrayBuffer');
  const kind = value instanceof Error ? 'Error' : builtinKind(value);
  return foreignKinds.get(kind);
}

function found(problem: string): Found {
  return { path: [], problem };
}

function within(inner: Found, key: string | number): Found {
  inner.path.push(key);
  return inner;
}

function shownPath(path: readonly (string | number)[]): string {
  if (path.length === 0) return 'the value';
  const text = path
    .toReversed()
    .map((key, index) => (typeof key === 'number' ? `[${key}]` : index === 0 ? key : `.${key}`))
    .join('');
  return text.length <= maxPathLength ? text : `${text.slice(0, maxPathLength)}…`;
}
