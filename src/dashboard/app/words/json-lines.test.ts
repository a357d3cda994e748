import { expect, test } from 'vitest';
import { jsonLines, type JsonLine } from './json-lines.ts';

const textOf = (lines: readonly JsonLine[]): string[] =>
  lines.map(({ indent, parts }) => '  '.repeat(indent) + parts.map(([, text]) => text).join(''));

test('an object has a line per member, indented by depth', () => {
  const { lines, isComplete } = jsonLines('{"a":1,"b":{"c":[true,null]}}', 100);
  expect(isComplete).toBe(true);
  expect(textOf(lines)).toEqual([
    '{',
    '  "a": 1,',
    '  "b": {',
    '    "c": [',
    '      true,',
    '      null',
    '    ]',
    '  }',
    '}',
  ]);
});

test('numbers keep all their digits', () => {
  const numbers = ['12990071992547409912345', '0.10000000000000000001', '-1e400', '1.0'];
  const { lines } = jsonLines(`[${numbers.join(',')}]`, 100);
  const shown = lines.flatMap(({ parts }) =>
    parts.filter(([kind]) => kind === 'n').map(([, text]) => text),
  );
  expect(shown).toEqual(numbers);
});

test('keys and strings are told apart, also with colons and escaped quotes inside', () => {
  const { lines } = jsonLines(String.raw`{"a:\"b":"c: \"d"}`, 100);
  expect(lines[1]?.parts).toEqual([
    ['k', String.raw`"a:\"b"`],
    ['p', ': '],
    ['s', String.raw`"c: \"d"`],
  ]);
});

test('an empty object, an empty array and a single value have one line each', () => {
  for (const text of ['{}', '[]', '"text"', '1', 'null']) {
    expect(textOf(jsonLines(text, 10).lines)).toEqual([text]);
  }
});

test('a text that is not JSON is one line', () => {
  expect(textOf(jsonLines('<script>alert(1)</script>', 10).lines)).toEqual([
    '<script>alert(1)</script>',
  ]);
});

test('lines end at the limit, and the result says so', () => {
  const { lines, isComplete } = jsonLines(JSON.stringify([...Array(50).keys()]), 10);
  expect(lines).toHaveLength(10);
  expect(isComplete).toBe(false);
});

test('a string of more than 20,000 characters is shortened', () => {
  const { lines } = jsonLines(JSON.stringify('x'.repeat(30_000)), 10);
  expect(lines[0]?.parts[0]?.[1]).toMatch(/… \(10002 more characters\)$/);
});

test('the first 1,000 lines of a payload of 2 MiB take less than 100 ms', () => {
  const text = JSON.stringify(
    Array.from({ length: 40_000 }, (_, id) => ({ id, name: `item ${id}`, price: 12.5 })),
  );
  expect(text.length).toBeGreaterThan(1.7 * 1024 * 1024);
  const start = performance.now();
  expect(jsonLines(text, 1_000).lines).toHaveLength(1_000);
  expect(performance.now() - start).toBeLessThan(100);
});

test('one string of 2 MiB is read in less than 300 ms', () => {
  const text = JSON.stringify({ text: 'x'.repeat(2 * 1024 * 1024) });
  const start = performance.now();
  expect(jsonLines(text, 1_000).lines).toHaveLength(3);
  expect(performance.now() - start).toBeLessThan(300);
});
