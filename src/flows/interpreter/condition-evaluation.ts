import { PerdureError } from '../../index.ts';
import type { Expression, Operand } from '../definition/condition.ts';
import { follow, showPath, type Path } from '../definition/reference.ts';

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
      return compare(expression, values);
  }
}

type ComparisonExpression = Extract<Expression, { readonly left: Operand }>;

function compare(expression: ComparisonExpression, values: Values): boolean {
  const left = resolve(expression.op, expression.left, values);
  const right = resolve(expression.op, expression.right, values);
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

function resolve(op: string, operand: Operand, values: Values): unknown {
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
