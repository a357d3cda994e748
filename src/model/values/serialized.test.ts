import { describe, expect, test } from 'vitest';
import { encodePayload } from './payload.ts';
import { serialized } from './serialized.ts';

class Order {
  readonly at = new Date(0);
  readonly items = [1, undefined];
  readonly note = undefined;
  total(): number {
    return this.items.length;
  }
  readonly refresh = (): void => undefined;
}

describe('serialized()', () => {
  test('converts dates, class instances and toJSON, so that the result is a payload', () => {
    const value = { order: new Order(), link: new URL('http://localhost/a'), none: null };
    const plain = serialized(value);
    expect(plain).toStrictEqual({
      order: { at: '1970-01-01T00:00:00.000Z', items: [1, null] },
      link: 'http://localhost/a',
      none: null,
    });
    expect(encodePayload(plain, 'value')).toBe(JSON.stringify(value));
  });

  test('keeps primitives, undefined and shared values', () => {
    const shared = { x: 1 };
    expect(serialized(undefined)).toBeUndefined();
    expect(serialized('text')).toBe('text');
    expect(serialized([shared, shared])).toEqual([{ x: 1 }, { x: 1 }]);
  });

  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  test.each<[string, unknown, string]>([
    ['a BigInt', { total: 1n }, 'total is a BigInt'],
    ['NaN', [Number.NaN], '[0] is NaN'],
    ['a function in an array', { list: [() => 1] }, 'list[0] is a function'],
    ['a symbol', Symbol('x'), 'the value is a symbol'],
    ['a Map', { a: { seen: new Map() } }, 'a.seen is a Map'],
    ['a Set', { seen: new Set() }, 'seen is a Set'],
    ['an invalid date', { at: new Date(Number.NaN) }, 'at is an invalid Date'],
    ['an error', { error: new RangeError('x') }, 'error is an Error'],
    ['a promise', [Promise.resolve(1)], '[0] is a promise'],
    ['binary data', { image: new Uint8Array(1) }, 'image is binary data'],
    ['a cycle', cycle, 'self refers back to itself'],
    ['a __proto__ key', JSON.parse('{"__proto__":1}'), 'the value has a key named __proto__'],
  ])('throws NOT_SERIALIZABLE with the path for %s', (_, value, problem) => {
    expect(() => serialized(value)).toThrow(
      expect.objectContaining({
        code: 'NOT_SERIALIZABLE',
        message: expect.stringContaining(problem) as string,
      }),
    );
  });
});
