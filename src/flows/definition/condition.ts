import { PerdureError } from '../../index.ts';
import { invalidFlow } from './flow-errors.ts';
import { follow, pathOf, showPath, type Path, type Reference } from './reference.ts';

type Comparison = 'eq' | 'ne' | 'gt' | 'gte' | 'lt' | 'lte' | 'in' | 'contains';

/** One side of a comparison: a value of the run, or a constant. */
type Operand = { readonly path: Path } | { readonly value: unknown };

/** A condition as plain data. It is stored with the run, so later code does not change it. */
export type Expression =
  | { readonly op: Comparison; readonly left: Operand; readonly right: Operand }
  | { readonly op: 'exists'; readonly path: Path }
  | { readonly op: 'not'; readonly condition: Expression }
  | { readonly op: 'and' | 'or'; readonly conditions: readonly Expression[] };

declare const skips: unique symbol;

/** A condition that decides whether a step runs or is skipped. */
export interface Condition<Skips extends boolean = true> {
  readonly expression: Expression;
  readonly [skips]?: Skips;
}

/** A constant, or a reference to a value of the same type. */
export type ValueOrReference<Value> = Value | Reference<Value>;

type Comparable = number | string;

/** True if the two values are equal as JSON. */
export function eq<Value>(
  left: Reference<Value>,
  right: NoInfer<ValueOrReference<Value>>,
): Condition {
  return compare('eq', left, right);
}

/** True if the two values differ as JSON. */
export function ne<Value>(
  left: Reference<Value>,
  right: NoInfer<ValueOrReference<Value>>,
): Condition {
  return compare('ne', left, right);
}

/** True if the first value is greater. Both must be numbers, or both strings. */
export function gt(left: Reference<Comparable>, right: ValueOrReference<Comparable>): Condition {
  return compare('gt', left, right);
}

/** True if the first value is greater or equal. Both must be numbers, or both strings. */
export function gte(left: Reference<Comparable>, right: ValueOrReference<Comparable>): Condition {
  return compare('gte', left, right);
}

/** True if the first value is less. Both must be numbers, or both strings. */
export function lt(left: Reference<Comparable>, right: ValueOrReference<Comparable>): Condition {
  return compare('lt', left, right);
}

/** True if the first value is less or equal. Both must be numbers, or both strings. */
export function lte(left: Reference<Comparable>, right: ValueOrReference<Comparable>): Condition {
  return compare('lte', left, right);
}

/** True if the array contains the value. */
export function oneOf<Value>(
  left: Reference<Value>,
  right: ValueOrReference<readonly NoInfer<Value>[]>,
): Condition {
  return compare('in', left, right);
}

/** True if an array contains the value, or a string contains the substring. */
export function contains<Value>(
  left: Reference<readonly Value[]> | Reference<string>,
  right: ValueOrReference<NoInfer<Value> | string>,
): Condition {
  return compare('contains', left, right);
}

/** True if the value is present, including `null`: the step was not skipped and the property is set. */
export function exists(reference: Reference): Condition {
  return { expression: { op: 'exists', path: requirePath('exists', reference) } };
}

/** True if the condition is false. */
export function not(condition: Condition): Condition {
  return { expression: { op: 'not', condition: requireCondition('not', condition) } };
}

/** True if all conditions are true. Evaluates them in order, up to the first that is false. */
export function and(...conditions: readonly Condition[]): Condition {
  return combine('and', conditions);
}

/** True if any condition is true. Evaluates them in order, up to the first that is true. */
export function or(...conditions: readonly Condition[]): Condition {
  return combine('or', conditions);
}

/** Returns the paths that a condition reads. */
export function pathsOf(expression: Expression): readonly Path[] {
  switch (expression.op) {
    case 'exists':
      return [expression.path];
    case 'not':
      return pathsOf(expression.condition);
    case 'and':
    case 'or':
      return expression.conditions.flatMap(pathsOf);
    default:
      return [expression.left, expression.right].flatMap((operand) =>
        'path' in operand ? [operand.path] : [],
      );
  }
}

/** Returns the expression of a condition. Throws `INVALID_FLOW` for any other value. */
export function requireCondition(what: string, condition: unknown): Expression {
  const { expression } = (condition ?? {}) as Partial<Condition>;
  if (expression !== undefined) return expression;
  throw invalidFlow(`${what} requires a condition, such as eq(input.country, 'NL').`);
}

function compare(op: Comparison, left: unknown, right: unknown): Condition {
  const path = pathOf(right);
  return {
    expression: {
      op,
      left: { path: requirePath(op, left) },
      right: path === undefined ? { value: constant(op, right) } : { path },
    },
  };
}

function combine(op: 'and' | 'or', conditions: readonly Condition[]): Condition {
  if (conditions.length === 0) throw invalidFlow(`${op}() requires at least one condition.`);
  return {
    expression: { op, conditions: conditions.map((each) => requireCondition(op, each)) },
  };
}

function requirePath(op: string, reference: unknown): Path {
  const path = pathOf(reference);
  if (path !== undefined) return path;
  throw invalidFlow(
    `The first argument of ${op}() must be a reference, such as \`input\` or a step in the argument of \`when\`.`,
  );
}

/** Returns a copy of a constant. Throws `INVALID_FLOW` if JSON cannot represent it exactly. */
function constant(op: string, value: unknown): unknown {
  const text = JSON.stringify(value, function (this: Readonly<Record<string, unknown>>, key, part) {
    const isLost =
      part === undefined ||
      // A Date in `part` is a string by now; its holder still has the Date.
      !isPlain(this[key]) ||
      typeof part === 'function' ||
      typeof part === 'symbol' ||
      typeof part === 'bigint' ||
      (typeof part === 'number' && !Number.isFinite(part)) ||
      pathOf(part) !== undefined;
    if (isLost) throw invalidFlow(`The constant of ${op}() must be plain JSON data.`);
    return part;
  });
  return JSON.parse(text);
}

function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value) as object | null;
  // The prototype of a plain object, also of another realm, has no prototype itself.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** The values that a condition can read: `input`, and step outputs by name. A skipped step has none. */
export type Values = Readonly<Record<string, unknown>>;

/**
 * Whether a condition is true. Throws `CONDITION_FAILED` if a value is missing or has the wrong type: returning false
 * would skip the step for the wrong reason.
 */
export function holds(expression: Expression, values: Values): boolean {
  switch (expression.op) {
    case 'exists':
      return find(values, expression.path) !== undefined;
    case 'not':
      return !holds(expression.condition, values);
    case 'and':
      return expression.conditions.every((each) => holds(each, values));
    case 'or':
      return expression.conditions.some((each) => holds(each, values));
    default:
      return evaluateComparison(expression, values);
  }
}

type ComparisonExpression = Extract<Expression, { readonly left: Operand }>;

function evaluateComparison(expression: ComparisonExpression, values: Values): boolean {
  const left = resolveOperand(expression.op, expression.left, values);
  const right = resolveOperand(expression.op, expression.right, values);
  switch (expression.op) {
    case 'eq':
      return isSameJson(left, right);
    case 'ne':
      return !isSameJson(left, right);
    case 'in':
      if (!Array.isArray(right)) throw doesNotApply(expression, 'the second value is not an array');
      return right.some((item) => isSameJson(left, item));
    case 'contains':
      return hasPart(expression, left, right);
    case 'gt':
      return order(expression, left, right) > 0;
    case 'gte':
      return order(expression, left, right) >= 0;
    case 'lt':
      return order(expression, left, right) < 0;
    case 'lte':
      return order(expression, left, right) <= 0;
  }
}

function hasPart(expression: ComparisonExpression, whole: unknown, part: unknown): boolean {
  if (Array.isArray(whole)) return whole.some((item) => isSameJson(item, part));
  if (typeof whole === 'string' && typeof part === 'string') return whole.includes(part);
  throw doesNotApply(expression, `cannot search ${kindOf(whole)} for ${kindOf(part)}`);
}

function order(expression: ComparisonExpression, left: unknown, right: unknown): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  if (typeof left === 'string' && typeof right === 'string') {
    return left < right ? -1 : Number(left > right);
  }
  throw doesNotApply(expression, `cannot compare ${kindOf(left)} with ${kindOf(right)}`);
}

function resolveOperand(op: string, operand: Operand, values: Values): unknown {
  if ('value' in operand) return operand.value;
  const value = find(values, operand.path);
  if (value !== undefined) return value;
  throw new PerdureError(
    'CONDITION_FAILED',
    `Condition ${op} reads \`${showPath(operand.path)}\`, which is missing. Check it with exists() first.`,
  );
}

function find(values: Values, [source, ...keys]: Path): unknown {
  return follow(Object.hasOwn(values, source) ? values[source] : undefined, keys);
}

function doesNotApply({ op, left }: ComparisonExpression, why: string): PerdureError {
  const where = 'path' in left ? ` on \`${showPath(left.path)}\`` : '';
  return new PerdureError(
    'CONDITION_FAILED',
    `Condition ${op}${where} cannot be evaluated: ${why}.`,
  );
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** Whether two JSON values are equal, regardless of key order. */
export function isSameJson(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) {
    return false;
  }
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every(
      (key) =>
        Object.hasOwn(right, key) && isSameJson(Reflect.get(left, key), Reflect.get(right, key)),
    )
  );
}
