import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  canonicalPayload,
  decodePayload,
  defaultPayloadLimitBytes,
  describeAsJson,
  encodePayload,
  parseJson,
} from './payload.ts';

const jsonValue = fc
  .jsonValue({ maxDepth: 5 })
  .map((value) => JSON.parse(JSON.stringify(value)) as unknown);

describe('a payload', () => {
  test('round-trips any JSON value', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        fc.pre(!JSON.stringify(value).includes('__proto__'));
        expect(decodePayload(encodePayload(value, 'input'))).toEqual(value);
      }),
    );
  });

  test('encodes undefined as no payload, and decodes no payload as undefined', () => {
    expect(encodePayload(undefined, 'input')).toBeNull();
    expect(decodePayload(null)).toBeUndefined();
  });

  test('distinguishes null from no payload', () => {
    expect(encodePayload(null, 'input')).toBe('null');
    expect(decodePayload('null')).toBeNull();
  });

  test('omits undefined properties, as JSON does', () => {
    expect(encodePayload({ a: undefined, b: [null, 1] }, 'input')).toBe('{"b":[null,1]}');
  });

  test('accepts the same object in two places', () => {
    const shared = { a: 1 };
    expect(encodePayload([shared, shared, { shared }], 'input')).toBe(
      '[{"a":1},{"a":1},{"shared":{"a":1}}]',
    );
  });

  test('accepts objects without a prototype, and plain data of another realm', () => {
    expect(encodePayload(Object.assign(Object.create(null) as object, { x: 1 }), 'input')).toBe(
      '{"x":1}',
    );
    const foreign: unknown = runInNewContext('({ list: [{ x: 1 }, []] })');
    expect(encodePayload(foreign, 'input')).toBe('{"list":[{"x":1},[]]}');
  });

  test('accepts lone surrogates and control characters', () => {
    const text = '\ud800 \u0000 \u2028 "\\';
    expect(decodePayload(encodePayload({ [text]: text }, 'input'))).toEqual({ [text]: text });
  });
});

describe('encodePayload throws NOT_SERIALIZABLE with the path for', () => {
  const cycle: Record<string, unknown> = { deep: {} };
  (cycle['deep'] as Record<string, unknown>)['back'] = cycle;
  class Point {
    x = 1;
  }
  class Money {
    toJSON(): string {
      return '5';
    }
  }
  class List extends Array<number> {}
  const hidden = Object.defineProperty({ x: 1 }, 'toJSON', { value: () => 2 });
  const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);

  test.each<[string, unknown, string]>([
    ['a BigInt', { order: { total: 1n } }, 'order.total is a BigInt'],
    ['a function', { items: [1, () => 1] }, 'items[1] is a function'],
    ['a symbol', [Symbol('x')], '[0] is a symbol'],
    ['NaN', Number.NaN, 'the value is NaN'],
    ['Infinity', { a: [-Infinity] }, 'a[0] is -Infinity'],
    ['a cycle', cycle, 'deep.back refers back to itself'],
    ['a Date', { order: { at: new Date(0) } }, 'order.at is a Date (pass its toISOString()'],
    ['a Date of another realm', [runInNewContext('new Date(0)')], '[0] is a Date'],
    ['an instance of a class', { at: [new Point()] }, 'at[0] is an instance of Point'],
    ['an instance with toJSON', { price: new Money() }, 'price is an instance of Money'],
    [
      'an instance of a class of another realm',
      runInNewContext('new (class P {})()'),
      'the value is an instance of P',
    ],
    [
      'a class without a name',
      new (class {
        x = 1;
      })(),
      'the value is an object with a prototype of its own',
    ],
    [
      'an object that inherits',
      [Object.create({ x: 1 })],
      '[0] is an object with a prototype of its own',
    ],
    ['a subclass of Array', { list: new List() }, 'list is an instance of List'],
    ['a URL', { link: new URL('http://localhost') }, 'link is an instance of URL'],
    ['a toJSON of its own', { x: { toJSON: () => 1 } }, 'x has a toJSON method'],
    ['a hidden toJSON', { x: hidden }, 'x has a toJSON method'],
    ['undefined in an array', { list: [1, undefined] }, 'list[1] is undefined (use null)'],
    ['a hole in an array', [Object.assign([], { length: 1 })], '[0][0] is undefined (use null)'],
    ['a Map', { seen: new Map() }, 'seen is a Map'],
    ['a Set', { seen: new Set() }, 'seen is a Set'],
    ['a weak collection', new WeakMap(), 'the value is a weak collection'],
    ['a promise', { user: Promise.resolve(1) }, 'user is a promise (is an await missing?)'],
    ['an error', { error: new TypeError('x') }, 'error is an Error'],
    ['a regular expression', { match: /x/ }, 'match is a RegExp'],
    ['binary data', { image: new Uint8Array(2) }, 'image is binary data'],
    ['a Buffer', { image: Buffer.from('x') }, 'image is binary data'],
    ['a boxed primitive', [Object(Number.NaN)], '[0] is a boxed primitive'],
    ['an invalid date', { when: new Date(Number.NaN) }, 'when is a Date'],
    ['a __proto__ key', { a: JSON.parse('{"__proto__":1}') }, 'a has a key named __proto__'],
    ['more than 500 levels', nested(501), 'nested more than 500 deep'],
  ])('%s', (_, value, problem) => {
    expect(() => encodePayload(value, 'Input of "order"')).toThrow(
      expect.objectContaining({
        code: 'NOT_SERIALIZABLE',
        message: expect.stringContaining(problem) as string,
      }),
    );
    expect(() => encodePayload(value, 'Input of "order"')).toThrow(/^Input of "order" cannot/);
  });

  test('a getter, a toJSON or a proxy that throws, with the error as the cause', () => {
    const boom = new Error('boom');
    const throwing = (): never => {
      throw boom;
    };
    const hostile = [
      Object.defineProperty({}, 'x', { enumerable: true, get: throwing }),
      Object.defineProperty({}, 'toJSON', { get: throwing }),
      new Proxy({}, { ownKeys: throwing }),
      new Proxy({}, { getPrototypeOf: throwing }),
    ];
    for (const value of hostile) {
      expect(() => encodePayload(value, 'Input')).toThrow(
        expect.objectContaining({ code: 'NOT_SERIALIZABLE', cause: boom }),
      );
    }
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expect(() => encodePayload(proxy, 'Input')).toThrow(
      expect.objectContaining({ code: 'NOT_SERIALIZABLE' }),
    );
  });

  test('a long path, which it cuts', () => {
    const error = catchError(() => encodePayload({ ['k'.repeat(10_000)]: 1n }, 'Input'));
    expect(error.message.length).toBeLessThan(500);
  });

  test('nothing up to 500 levels deep', () => {
    const payload = encodePayload(nested(500), 'Input');
    expect(decodePayload(payload)).toEqual(nested(500));
    expect(canonicalPayload(payload)).toBe(payload);
  });
});

describe('the payload limit', () => {
  test('counts bytes of JSON, not characters', () => {
    expect(encodePayload('aaaa', 'Input', 6)).toBe('"aaaa"');
    expect(encodePayload('éé', 'Input', 6)).toBe('"éé"');
    expect(() => encodePayload('aaaaa', 'Input', 6)).toThrow(
      expect.objectContaining({ code: 'PAYLOAD_TOO_LARGE' }),
    );
    expect(() => encodePayload('ééé', 'Input', 6)).toThrow(
      expect.objectContaining({
        code: 'PAYLOAD_TOO_LARGE',
        message: expect.stringContaining('is 8 bytes as JSON; the limit is 6') as string,
      }),
    );
  });

  test('is 2 MiB by default', () => {
    const fits = 'x'.repeat(defaultPayloadLimitBytes - 2);
    expect(encodePayload(fits, 'Input')).toHaveLength(2_097_152);
    expect(() => encodePayload(`${fits}x`, 'Input')).toThrow(
      expect.objectContaining({ code: 'PAYLOAD_TOO_LARGE' }),
    );
    expect(describeAsJson(`${fits}x`, defaultPayloadLimitBytes)).toBeUndefined();
  });
});

describe('decoding', () => {
  test.each([
    '{"a":{"__proto__":{"polluted":1}},"b":1}',
    '{"a":{"__pro\\u0074o__":{"polluted":1}},"b":1}',
    '{"a":{"\\u005F_proto__":{"polluted":1}},"b":1}',
  ])('drops a stored __proto__ key, also with escapes: %s', (text) => {
    const value = decodePayload(text) as { a: object };
    expect(Object.getOwnPropertyNames(value.a)).toEqual([]);
    expect(Object.assign({}, value.a)).not.toHaveProperty('polluted');
    expect(parseJson(text)).toEqual({ a: {}, b: 1 });
  });

  test('keeps __proto__ as a string value', () => {
    expect(decodePayload('["__proto__"]')).toEqual(['__proto__']);
  });

  test('throws UNDECODABLE for invalid JSON', () => {
    expect(() => decodePayload('{"a":')).toThrow(
      expect.objectContaining({ code: 'UNDECODABLE', cause: expect.any(SyntaxError) as unknown }),
    );
  });
});

describe('canonical text', () => {
  test('is independent of key order', () => {
    expect(canonicalPayload('{"b":[{"d":1,"c":2}],"a":null}')).toBe(
      '{"a":null,"b":[{"c":2,"d":1}]}',
    );
  });

  test('is independent of key order for numeric keys', () => {
    const text = canonicalPayload('{"10":1,"9":2,"b":3,"-1":4,"01":5,"A":6}');
    expect(canonicalPayload('{"A":6,"01":5,"-1":4,"b":3,"9":2,"10":1}')).toBe(text);
  });

  test('is equal for equal values and differs for different ones', () => {
    const shuffled = (value: unknown): unknown => {
      if (typeof value !== 'object' || value === null) return value;
      if (Array.isArray(value)) return value.map(shuffled);
      return Object.fromEntries(
        Object.entries(value)
          .map(([key, item]) => [key, shuffled(item)] as const)
          .toReversed(),
      );
    };
    fc.assert(
      fc.property(jsonValue, jsonValue, (value, other) => {
        fc.pre(!JSON.stringify([value, other]).includes('__proto__'));
        const canonicalOf = (item: unknown) => canonicalPayload(encodePayload(item, 'x'));
        expect(canonicalOf(shuffled(value))).toBe(canonicalOf(value));
        expect(JSON.parse(canonicalOf(value))).toEqual(value);
        fc.pre(canonicalOf(value) !== canonicalOf(other));
        expect(value).not.toEqual(other);
      }),
    );
  });

  test('of no payload differs from that of every payload', () => {
    expect(canonicalPayload(null)).toBe('');
    expect(canonicalPayload('null')).toBe('null');
    expect(canonicalPayload('""')).toBe('""');
  });
});

function catchError(run: () => unknown): Error {
  try {
    run();
  } catch (error) {
    return error as Error;
  }
  throw new Error('Nothing was thrown.');
}
