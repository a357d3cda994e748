import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { decodePayload, encodePayload } from './payload.ts';
import type { RecentPayloads } from './recent-payloads.ts';

const body = 'x'.repeat(10_000);
let seed = 0;

/** A large text that no other test has encoded. */
function newBody(): string {
  seed += 1;
  return `${body}${seed}`;
}

interface Document {
  title?: string;
  body: string;
  pages: { n: number; text: string }[];
  [key: string]: unknown;
}

function newDocument(): Document {
  return { title: 'a', body: newBody(), pages: [{ n: 0, text: newBody() }] };
}

/** Encodes a value and decodes it twice. */
function decodeTwice(value: unknown): [Document, Document] {
  const text = encodePayload(value, 'input');
  return [decodePayload(text) as Document, decodePayload(text) as Document];
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe('an unchanged value', () => {
  test('an object that is decoded and passed on is stringified once and never parsed', () => {
    const parse = vi.spyOn(JSON, 'parse');
    const stringify = vi.spyOn(JSON, 'stringify');
    const document = newDocument();
    const text = encodePayload(document, 'input');
    for (let n = 0; n < 5; n++) {
      const value = decodePayload(text);
      expect(encodePayload(value, 'input')).toBe(text);
    }
    expect(decodePayload(text)).toEqual(document);
    expect([parse.mock.calls.length, stringify.mock.calls.length]).toEqual([0, 1]);
  });

  test('a string is stringified once and never parsed', () => {
    const parse = vi.spyOn(JSON, 'parse');
    const stringify = vi.spyOn(JSON, 'stringify');
    const given = `"\ud800\n${newBody()}`;
    const text = encodePayload(given, 'input');
    expect(decodePayload(text)).toBe(given);
    expect(encodePayload(decodePayload(text), 'input')).toBe(text);
    expect([parse.mock.calls.length, stringify.mock.calls.length]).toEqual([0, 1]);
  });

  test('texts that differ in one place are stringified once each', () => {
    const bodies = Array.from({ length: 12 }, (_, n) => {
      const place = n * 250 + 17;
      return `${body.slice(0, place)}y${body.slice(place)}`;
    });
    const texts = bodies.map((text) => encodePayload({ text }, 'input'));
    const first = texts.map((text) => decodePayload(text));
    const parse = vi.spyOn(JSON, 'parse');
    const stringify = vi.spyOn(JSON, 'stringify');
    expect(texts.map((text) => decodePayload(text))).toEqual(bodies.map((text) => ({ text })));
    expect(first.map((value) => encodePayload(value, 'input'))).toEqual(texts);
    expect([parse.mock.calls.length, stringify.mock.calls.length]).toEqual([0, 0]);
  });

  test('a value of many small nodes is parsed each time', () => {
    const parse = vi.spyOn(JSON, 'parse');
    const text = encodePayload([newBody(), ...Array.from({ length: 1_000 }, (_, n) => n)], 'input');
    const first = decodePayload(text);
    expect(decodePayload(text)).toEqual(first);
    expect(parse).toHaveBeenCalledTimes(2);
  });

  test('the text is that of JSON.stringify, also of negative zero and undefined properties', () => {
    const value = { body: newBody(), a: -0, b: undefined, 2: [null, true, 1.5, -0], 1: {} };
    const text = encodePayload(value, 'input');
    expect(text).toBe(JSON.stringify(value));
    expect(decodePayload(text)).toStrictEqual(JSON.parse(text ?? ''));
  });

  test('a getter that returns another value each time is decoded as it was encoded', () => {
    let reads = 0;
    const value = {
      body: newBody(),
      get n() {
        return (reads += 1);
      },
    };
    const text = encodePayload(value, 'input') ?? '';
    expect(decodePayload(text)).toEqual(JSON.parse(text));
  });

  test('a value is subject to the limit of each call', () => {
    const [value] = decodeTwice(newDocument());
    expect(() => encodePayload(value, 'The result', 5_000)).toThrow(
      expect.objectContaining({ code: 'PAYLOAD_TOO_LARGE' }),
    );
  });

  test('a deeply nested value is parsed each time', () => {
    let nested: unknown = newBody();
    for (let depth = 0; depth < 400; depth++) nested = [nested];
    const [first, second] = decodeTwice(nested);
    expect(encodePayload(first, 'input')).toBe(encodePayload(second, 'input'));
    expect(encodePayload(first, 'input')).toBe(JSON.stringify(nested));
  });
});

describe('a changed value', () => {
  const changes: Record<string, (value: Document) => unknown> = {
    'a property': (value) => (value.title = 'b'),
    'a large text': (value) => (value.body = newBody()),
    'a text of the same length': (value) => (value.body = `y${value.body.slice(1)}`),
    'an added property': (value) => (value['more'] = 1),
    'a deleted property': (value) => delete value.title,
    'a renamed property': (value) => {
      delete value.title;
      value['name'] = 'a';
    },
    'a property set to undefined': (value) => Object.assign(value, { title: undefined }),
    'the order of properties': (value) => {
      const { title = '' } = value;
      delete value.title;
      value.title = title;
    },
    'a nested property': (value) => Object.assign(value.pages[0] ?? {}, { n: 1 }),
    'an added item': (value) => value.pages.push({ n: 1, text: '' }),
    'a deleted item': (value) => value.pages.pop(),
    'a new array of the same items': (value) => (value.pages = Array.from(value.pages)),
    'an object instead of an array': (value) =>
      Object.assign(value, { pages: Object.assign({}, value.pages) }),
    'a prototype of null': (value) => Object.setPrototypeOf(value, null) as unknown,
    'a getter': (value) => Object.defineProperty(value, 'title', { get: () => 'c' }),
    'a hidden property': (value) => Object.defineProperty(value, 'title', { enumerable: false }),
  };
  test.each(Object.entries(changes))('%s: is encoded as it is', (_, change) => {
    const [first, second] = decodeTwice(newDocument());
    const untouched = structuredClone(second);
    change(first);
    expect(encodePayload(first, 'input')).toBe(JSON.stringify(first));
    expect(second).toEqual(untouched);
    change(second);
    expect(encodePayload(second, 'input')).toBe(JSON.stringify(second));
  });

  test.each([
    ['a toJSON method', (value: Document) => Object.assign(value, { toJSON: () => 1 })],
    [
      'a hidden toJSON method',
      (value: Document) => Object.defineProperty(value, 'toJSON', { value: () => 1 }),
    ],
    ['a Date', (value: Document) => Object.assign(value, { title: new Date(0) })],
    ['a cycle', (value: Document) => Object.assign(value, { title: value })],
    [
      'a getter that throws',
      (value: Document) =>
        Object.defineProperty(value, 'title', {
          get: () => {
            throw new Error('as expected');
          },
        }),
    ],
    [
      'a prototype of its own',
      (value: Document) => Object.setPrototypeOf(value, { isShared: true }) as unknown,
    ],
  ] as const)('%s: is rejected', (_, change) => {
    for (const value of decodeTwice(newDocument())) {
      change(value);
      expect(() => encodePayload(value, 'input')).toThrow(
        expect.objectContaining({ code: 'NOT_SERIALIZABLE' }),
      );
    }
  });

  test('any value, changed in any place, has the text of JSON.stringify', () => {
    const json = fc
      .jsonValue({ maxDepth: 3 })
      .map((value) => JSON.parse(JSON.stringify(value)) as unknown);
    fc.assert(
      fc.property(json, json, fc.nat(), (value, other, place) => {
        fc.pre(!JSON.stringify([value, other]).includes('__proto__'));
        const [first, second] = decodeTwice({ body: newBody(), value });
        expect(second).toEqual(first);
        const parents = objectsIn(second);
        const parent = parents[place % parents.length] ?? {};
        const keys = Object.keys(parent);
        const key = keys[place % Math.max(keys.length, 1)] ?? '0';
        Reflect.set(parent, key, other);
        expect(encodePayload(second, 'input')).toBe(JSON.stringify(second));
        expect(encodePayload(first, 'input')).toBe(JSON.stringify(first));
      }),
    );
  });
});

function objectsIn(value: unknown): object[] {
  if (typeof value !== 'object' || value === null) return [];
  return [value, ...Object.values(value).flatMap(objectsIn)];
}

describe('memory', () => {
  let recent: RecentPayloads;

  beforeEach(async () => {
    vi.useFakeTimers();
    vi.resetModules();
    const { RecentPayloads: Class } = await import('./recent-payloads.ts');
    recent = new Class();
    return () => void vi.useRealTimers();
  });

  function add(value: unknown): string {
    const text = JSON.stringify(value);
    recent.add(text, structuredClone(value));
    return text;
  }

  test('a second without use drops all entries', () => {
    const value = newBody();
    const text = add(value);
    const decoded = recent.decode(add({ body: value })) as object;
    vi.advanceTimersByTime(900);
    expect(recent.find(value)).toBe(text);
    vi.advanceTimersByTime(900);
    expect(recent.find(value)).toBe(text);
    vi.advanceTimersByTime(2_000);
    expect(recent.totalLength).toBe(0);
    expect(recent.find(value)).toBeUndefined();
    expect(recent.find(decoded)).toBeUndefined();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('the oldest entries are dropped above 8 Mi characters', () => {
    const values = Array.from({ length: 12 }, () => 'x'.repeat(1_000_000) + newBody());
    for (const value of values) add(value);
    expect(recent.totalLength).toBeLessThanOrEqual(8 * 1_048_576);
    expect(values.filter((value) => recent.find(value) !== undefined)).toEqual(values.slice(-8));
  });

  test('texts above 1 Mi characters are not kept', () => {
    add('x'.repeat(2_000_000));
    expect(recent.totalLength).toBe(0);
  });
});
