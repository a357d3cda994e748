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
  ['eq of equal numbers', eq(input.euros, 30), true],
  ['eq of different numbers', eq(input.euros, 31), false],
  ['eq of text', eq(input.country, 'NL'), true],
  ['eq of null', eq(input.note, null), true],
  ['eq of arrays, item by item', eq(input.tags, ['gift', 'fragile']), true],
  ['eq of arrays in another order', eq(input.tags, ['fragile', 'gift']), false],
  ['eq of objects', eq(input.lines, [{ sku: 'a' }, { sku: 'b' }]), true],
  ['eq with another value of the run', eq(input.euros, input.euros), true],
  ['ne of equal values', ne(input.euros, 30), false],
  ['ne of different values', ne(input.country, 'BE'), true],
  ['gt of a smaller number', gt(input.euros, 29), true],
  ['gt of an equal number', gt(input.euros, 30), false],
  ['gt of text', gt(input.country, 'BE'), true],
  ['gte of an equal number', gte(input.euros, 30), true],
  ['gte of a greater number', gte(input.euros, 31), false],
  ['lt of a greater number', lt(input.euros, 31), true],
  ['lt of an equal number', lt(input.euros, 30), false],
  ['lte of an equal number', lte(input.euros, 30), true],
  ['lte of a smaller number', lte(input.euros, 29), false],
  ['in a list', oneOf(input.country, ['BE', 'NL']), true],
  ['not in a list', oneOf(input.country, ['BE', 'LU']), false],
  ['in an empty list', oneOf(input.country, []), false],
  ['in a list of the run', oneOf(input.tags[0] as Ref<string>, input.tags), true],
  ['an array contains an item', contains(input.tags, 'gift'), true],
  ['an array does not contain an item', contains(input.tags, 'heavy'), false],
  ['an array contains an object', contains(input.lines, { sku: 'b' }), true],
  ['a text contains a part', contains(input.country, 'N'), true],
  ['a text does not contain a part', contains(input.country, 'X'), false],
  ['something exists', exists(input.euros), true],
  ['null exists', exists(input.note), true],
  ['a missing property does not exist', exists(input.address), false],
  ['nothing exists below a missing property', exists(input.address.city), false],
  ['the output of a skipped step does not exist', exists(skipped), false],
  ['an inherited property does not exist', exists((input as never)['toString']), false],
  ['a part of an array', eq(input.lines[1]?.sku as Ref<string>, 'b'), true],
  ['the length of an array', eq(input.tags.length, 2), true],
  ['not', not(eq(input.euros, 30)), false],
  ['and of true ones', and(eq(input.euros, 30), exists(input.tags)), true],
  ['and of one that does not hold', and(eq(input.euros, 30), eq(input.country, 'BE')), false],
  ['and stops before what would not apply', and(exists(skipped), gt(skipped, 5)), false],
  ['or of one that holds', or(eq(input.country, 'BE'), eq(input.euros, 30)), true],
  ['or of none', or(eq(input.country, 'BE'), eq(input.euros, 31)), false],
  ['or stops before what would not apply', or(not(exists(skipped)), gt(skipped, 5)), true],
];

const inapplicable: readonly (readonly [string, Condition, RegExp])[] = [
  ['a missing value', eq(input.address, { city: 'x' }), /reads `input\.address`, which is missing/],
  ['a skipped step', gt(skipped, 5), /reads `skipped`, which is missing\. Check it with exists/],
  ['the opposite of one about a missing value', not(eq(skipped, 5)), /is missing/],
  ['an order of number and text', gt(input.euros, '5'), /cannot compare a number with a string/],
  ['an order of null', lt(input.note as Ref<string>, 'a'), /cannot compare null with a string/],
  [
    'a part of a number',
    contains(input.euros as never, 3),
    /contains on `input\.euros` cannot be evaluated/,
  ],
  ['in something that is no list', oneOf(input.euros, input.euros as never), /is not an array/],
];

describe('a condition', () => {
  it.each(cases)('%s', (_title, { expression }, expected) => {
    expect(holds(expression, values)).toBe(expected);
    // It is frozen into the run as JSON.
    expect(holds(JSON.parse(JSON.stringify(expression)), values)).toBe(expected);
  });

  it.each(inapplicable)('%s is a failure, never a silent false', (_title, condition, message) => {
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
