/** Checks a value; returns the path of the first wrong part. */
export type Check = (value: unknown, path: string) => string | undefined;

type RequiredKeys<Value> = {
  [Key in keyof Value]-?: object extends Pick<Value, Key> ? never : Key;
}[keyof Value];

/** A check per required field, and for some optional ones. */
type FieldChecks<Value> = { readonly [Key in RequiredKeys<Value>]: Check } & {
  readonly [Key in keyof Value]?: Check;
};

export const anything: Check = () => undefined;
export const text: Check = (value, path) => (typeof value === 'string' ? undefined : path);
export const flag: Check = (value, path) => (typeof value === 'boolean' ? undefined : path);
export const number: Check = (value, path) =>
  typeof value === 'number' && Number.isFinite(value) ? undefined : path;

/** A field that may be absent. */
export function optional(check: Check): Check {
  return (value, path) => (value === undefined ? undefined : check(value, path));
}

export function nullable(check: Check): Check {
  return (value, path) => (value === null ? undefined : check(value, path));
}

export function list(item: Check): Check {
  return (value, path) => {
    if (!Array.isArray(value)) return path;
    for (const [index, one] of value.entries()) {
      const wrong = item(one, `${path}[${index}]`);
      if (wrong !== undefined) return wrong;
    }
    return undefined;
  };
}

/** An object with any keys whose values pass a check. */
export function record(item: Check): Check {
  return (value, path) => {
    if (!isObject(value)) return path;
    for (const [key, one] of Object.entries(value)) {
      const wrong = item(one, `${path}.${key}`);
      if (wrong !== undefined) return wrong;
    }
    return undefined;
  };
}

/** An object with these fields. Others are ignored: a newer server may send more. */
export function fields<Value>(checks: FieldChecks<Value>): Check {
  const all = Object.entries<Check>(checks);
  return (value, path) => {
    if (!isObject(value)) return path;
    for (const [key, check] of all) {
      const wrong = check(value[key], `${path}.${key}`);
      if (wrong !== undefined) return wrong;
    }
    return undefined;
  };
}

/** A value that passes at least one check. */
export function either(...checks: readonly Check[]): Check {
  return (value, path) =>
    checks.some((check) => check(value, path) === undefined) ? undefined : path;
}

/** An object whose field has this value. */
export function tagged(field: string, tag: unknown, check: Check): Check {
  return (value, path) =>
    isObject(value) && value[field] === tag ? check(value, path) : `${path}.${field}`;
}

/** An object whose text field selects the check. Other texts pass: a newer server may send more variants. */
export function variants<Tag extends string>(
  field: string,
  checks: Readonly<Record<Tag, Check>>,
): Check {
  const byTag = new Map<unknown, Check>(Object.entries(checks));
  return (value, path) => {
    if (!isObject(value) || typeof value[field] !== 'string') return `${path}.${field}`;
    return byTag.get(value[field])?.(value, path);
  };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
