import { PerdureError } from '../../index.ts';
import { invalidFlow } from './flow-errors.ts';
import { pathOf, follow, showPath, type Path, type Reference } from './reference.ts';

type Comparison = 'eq' | 'ne' | 'gt' | 'gte' | 'lt' | 'lte' | 'in' | 'contains';

/** One side of a comparison: a value of the run, or a constant. */
export type Operand = { readonly path: Path } | { readonly value: unknown };

/** A condition as plain data: it is frozen into the run, so no later code can change what it says. */
export type Expression =
  | { readonly op: Comparison; readonly left: Operand; readonly right: Operand }
  | { readonly op: 'exists'; readonly path: Path }
  | { readonly op: 'not'; readonly condition: Expression }
  | { readonly op: 'and' | 'or'; readonly conditions: readonly Expression[] };

declare const skips: unique symbol;

/** Decides whether a step runs or is skipped. */
export interface Condition<Skips extends boolean = true> {
  readonly expression: Expression;
  readonly [skips]?: Skips;
}

/** A constant, or a reference to a value of the same type. */
export type ValueOrReference<Value> = Value | Reference<Value>;

type Comparable = number | string;

/** The two are equal, as JSON. */
export function eq<Value>(
  left: Reference<Value>,
  right: NoInfer<ValueOrReference<Value>>,
): Condition {
  return compare('eq', left, right);
}

/** The two differ, as JSON. */
export function ne<Value>(
  left: Reference<Value>,
  right: NoInfer<ValueOrReference<Value>>,
): Condition {
  return compare('ne', left, right);
}

/** The first is greater: both numbers, or both text. */
export function gt(left: Reference<Comparable>, right: ValueOrReference<Comparable>): Condition {
  return compare('gt', left, right);
}

/** The first is greater than the second or equal to it. */
export function gte(left: Reference<Comparable>, right: ValueOrReference<Comparable>): Condition {
  return compare('gte', left, right);
}

/** The first is less: both numbers, or both text. */
export function lt(left: Reference<Comparable>, right: ValueOrReference<Comparable>): Condition {
  return compare('lt', left, right);
}

/** The first is less than the second or equal to it. */
export function lte(left: Reference<Comparable>, right: ValueOrReference<Comparable>): Condition {
  return compare('lte', left, right);
}

/** The value is one of a list. */
export function oneOf<Value>(
  left: Reference<Value>,
  right: ValueOrReference<readonly NoInfer<Value>[]>,
): Condition {
  return compare('in', left, right);
}

/** An array has the value among its items, or a text has it as a part. */
export function contains<Value>(
  left: Reference<readonly Value[]> | Reference<string>,
  right: ValueOrReference<NoInfer<Value> | string>,
): Condition {
  return compare('contains', left, right);
}

/** There is a value, which may be `null`: the step was not skipped, the property is there. */
export function exists(reference: Reference): Condition {
  return { expression: { op: 'exists', path: requirePath('exists', reference) } };
}

/** The condition does not hold. */
export function not(condition: Condition): Condition {
  return { expression: { op: 'not', condition: requireCondition('not', condition) } };
}

/** All hold; they are looked at in order, up to the first that does not. */
export function and(...conditions: readonly Condition[]): Condition {
  return combine('and', conditions);
}

/** At least one holds; they are looked at in order, up to the first that does. */
export function or(...conditions: readonly Condition[]): Condition {
  return combine('or', conditions);
}

/** The paths that a condition looks at. */
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

/** The data of a condition; throws for what is none. */
export function requireCondition(what: string, condition: unknown): Expression {
  const { expression } = (condition ?? {}) as Partial<Condition>;
  if (expression !== undefined) return expression;
  throw invalidFlow(`${what} needs a condition, such as eq(input.country, 'NL').`);
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
  if (conditions.length === 0) throw invalidFlow(`${op}() needs at least one condition.`);
  return {
    expression: { op, conditions: conditions.map((each) => requireCondition(op, each)) },
  };
}

function requirePath(op: string, reference: unknown): Path {
  const path = pathOf(reference);
  if (path !== undefined) return path;
  throw invalidFlow(
    `The first argument of ${op}() must be a reference, such as the input or step that 'when' is given.`,
  );
}

/** A copy as JSON carries it: what JSON would change silently must not decide anything. */
function constant(op: string, value: unknown): unknown {
  const problem = 'is compared with something that JSON cannot carry. Use plain data.';
  const text = JSON.stringify(value, function (this: Readonly<Record<string, unknown>>, key, part) {
    const isLost =
      part === undefined ||
      // A Date is text by now; the object that holds it still has it.
      !isPlain(this[key]) ||
      typeof part === 'function' ||
      typeof part === 'symbol' ||
      typeof part === 'bigint' ||
      (typeof part === 'number' && !Number.isFinite(part)) ||
      pathOf(part) !== undefined;
    if (isLost) throw invalidFlow(`What ${op}() looks at ${problem}`);
    return part;
  });
  return JSON.parse(text);
}

function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value) as object | null;
  // The prototype of plain objects, also of another realm, has none itself.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** What a condition can look at: the input and the outputs of steps, by name; a skipped step has none. */
export type Values = Readonly<Record<string, unknown>>;

/**
 * Says whether a condition holds. One that does not apply (a value is missing, or of the wrong kind) throws
 * `CONDITION_FAILED`: a silent false would skip a step for the wrong reason.
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
      if (!Array.isArray(right)) throw doesNotApply(expression, 'the second is no array');
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
  throw doesNotApply(expression, `the first is ${kindOf(whole)}, the second ${kindOf(part)}`);
}

function order(expression: ComparisonExpression, left: unknown, right: unknown): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  if (typeof left === 'string' && typeof right === 'string') {
    return left < right ? -1 : Number(left > right);
  }
  throw doesNotApply(expression, `the first is ${kindOf(left)}, the second ${kindOf(right)}`);
}

function resolveOperand(op: string, operand: Operand, values: Values): unknown {
  if ('value' in operand) return operand.value;
  const value = find(values, operand.path);
  if (value !== undefined) return value;
  throw new PerdureError(
    'CONDITION_FAILED',
    `Condition ${op} looks at ${showPath(operand.path)}, which is not there. Ask with exists() first.`,
  );
}

function find(values: Values, [source, ...keys]: Path): unknown {
  return follow(Object.hasOwn(values, source) ? values[source] : undefined, keys);
}

function doesNotApply({ op, left }: ComparisonExpression, why: string): PerdureError {
  const where = 'path' in left ? ` at ${showPath(left.path)}` : '';
  return new PerdureError(
    'CONDITION_FAILED',
    `Condition ${op}${where} does not apply: ${why}. Compare values of one kind.`,
  );
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : `of type ${typeof value}`;
}

/** Compares two values as JSON carries them; the order of keys does not count. */
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
