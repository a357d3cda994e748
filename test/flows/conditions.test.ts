import { describe, expect, it } from 'vitest';
import { isPerdureError } from 'perdure';
import {
  and,
  contains,
  eq,
  exists,
  gt,
  gte,
  lt,
  lte,
  ne,
  not,
  oneOf,
  or,
  type Condition,
} from 'perdure/flows';
import { holds } from '../../src/flows/definition/condition.ts';
import { referenceTo, type Ref } from '../../src/flows/definition/reference.ts';

interface Order {
  readonly euros: number;
  readonly country: string;
  readonly tags: readonly string[];
  readonly note: string | null;
  readonly address?: { readonly city: string };
  readonly lines: readonly { readonly sku: string }[];
}

const input = referenceTo('input') as Ref<Order>;
const skipped = referenceTo('skipped') as Ref<number>;
const values = {
  input: {
    euros: 30,
    country: 'NL',
    tags: ['gift', 'fragile'],
    note: null,
    lines: [{ sku: 'a' }, { sku: 'b' }],
  },
};

const cases: readonly (readonly [string, Condition, boolean])[] = [
  ['eq() is true for equal numbers', eq(input.euros, 30), true],
  ['eq() is false for different numbers', eq(input.euros, 31), false],
  ['eq() is true for equal text', eq(input.country, 'NL'), true],
  ['eq() is true for null and null', eq(input.note, null), true],
  ['eq() is true for arrays with equal items', eq(input.tags, ['gift', 'fragile']), true],
  ['eq() is false for arrays in another order', eq(input.tags, ['fragile', 'gift']), false],
  ['eq() is true for arrays of equal objects', eq(input.lines, [{ sku: 'a' }, { sku: 'b' }]), true],
  ['eq() compares two references', eq(input.euros, input.euros), true],
  ['ne() is false for equal values', ne(input.euros, 30), false],
  ['ne() is true for different values', ne(input.country, 'BE'), true],
  ['gt() is true against a smaller number', gt(input.euros, 29), true],
  ['gt() is false against an equal number', gt(input.euros, 30), false],
  ['gt() compares text', gt(input.country, 'BE'), true],
  ['gte() is true against an equal number', gte(input.euros, 30), true],
  ['gte() is false against a greater number', gte(input.euros, 31), false],
  ['lt() is true against a greater number', lt(input.euros, 31), true],
  ['lt() is false against an equal number', lt(input.euros, 30), false],
  ['lte() is true against an equal number', lte(input.euros, 30), true],
  ['lte() is false against a smaller number', lte(input.euros, 29), false],
  ['oneOf() is true for a listed value', oneOf(input.country, ['BE', 'NL']), true],
  ['oneOf() is false for an unlisted value', oneOf(input.country, ['BE', 'LU']), false],
  ['oneOf() is false for an empty list', oneOf(input.country, []), false],
  ['oneOf() accepts a reference to a list', oneOf(input.tags[0] as Ref<string>, input.tags), true],
  ['contains() is true for an item of an array', contains(input.tags, 'gift'), true],
  ['contains() is false for an item that the array lacks', contains(input.tags, 'heavy'), false],
  ['contains() is true for an equal object in an array', contains(input.lines, { sku: 'b' }), true],
  ['contains() is true for a part of a text', contains(input.country, 'N'), true],
  ['contains() is false for text that does not occur', contains(input.country, 'X'), false],
  ['exists() is true for a value', exists(input.euros), true],
  ['exists() is true for null', exists(input.note), true],
  ['exists() is false for a missing property', exists(input.address), false],
  ['exists() is false below a missing property', exists(input.address.city), false],
  ['exists() is false for the output of a skipped step', exists(skipped), false],
  ['exists() is false for an inherited property', exists((input as never)['toString']), false],
  ['a reference can read an array item', eq(input.lines[1]?.sku as Ref<string>, 'b'), true],
  ['a reference can read the length of an array', eq(input.tags.length, 2), true],
  ['not() negates a condition', not(eq(input.euros, 30)), false],
  ['and() of true conditions is true', and(eq(input.euros, 30), exists(input.tags)), true],
  [
    'and() with a false condition is false',
    and(eq(input.euros, 30), eq(input.country, 'BE')),
    false,
  ],
  ['and() stops before a condition that would fail', and(exists(skipped), gt(skipped, 5)), false],
  ['or() with a true condition is true', or(eq(input.country, 'BE'), eq(input.euros, 30)), true],
  ['or() of false conditions is false', or(eq(input.country, 'BE'), eq(input.euros, 31)), false],
  ['or() stops before a condition that would fail', or(not(exists(skipped)), gt(skipped, 5)), true],
];

const inapplicable: readonly (readonly [string, Condition, RegExp])[] = [
  ['a missing value', eq(input.address, { city: 'x' }), /reads `input\.address`, which is missing/],
  [
    'the output of a skipped step',
    gt(skipped, 5),
    /reads `skipped`, which is missing\. Check it with exists/,
  ],
  ['not() of a missing value', not(eq(skipped, 5)), /is missing/],
  [
    'an order comparison of a number with text',
    gt(input.euros, '5'),
    /cannot compare a number with a string/,
  ],
  [
    'an order comparison of null',
    lt(input.note as Ref<string>, 'a'),
    /cannot compare null with a string/,
  ],
  [
    'contains() on a number',
    contains(input.euros as never, 3),
    /contains on `input\.euros` cannot be evaluated/,
  ],
  [
    'oneOf() of a value that is not an array',
    oneOf(input.euros, input.euros as never),
    /is not an array/,
  ],
];

describe('holds()', () => {
  it.each(cases)('%s', (_title, { expression }, expected) => {
    expect(holds(expression, values)).toBe(expected);
    // A run stores its conditions as JSON.
    expect(holds(JSON.parse(JSON.stringify(expression)), values)).toBe(expected);
  });

  it.each(inapplicable)('holds() throws CONDITION_FAILED for %s', (_title, condition, message) => {
    try {
      holds(condition.expression, values);
    } catch (error) {
      expect(isPerdureError(error, 'CONDITION_FAILED')).toBe(true);
      expect((error as Error).message).toMatch(message);
      return;
    }
    throw new Error('It applied.');
  });
});
