import { expect, it } from 'vitest';
import { booleans, fromStoredText, itself, numbers, texts, toStoredText } from './arrays.ts';

it('texts() quotes values that contain NULL, commas, braces, quotes or backslashes', () => {
  expect(texts(['a', null, 'NULL', '', 'a,b', '{}', 'it\'s "quoted"', '\\'], itself)).toBe(
    '{"a",NULL,"NULL","","a,b","{}","it\'s \\"quoted\\"","\\\\"}',
  );
});

it('numbers() and booleans() encode values without quotes', () => {
  expect(numbers([1, null, -2], itself)).toBe('{1,NULL,-2}');
  expect(booleans([true, false], itself)).toBe('{true,false}');
  expect(numbers([], itself)).toBe('{}');
});

const nasty = [
  '',
  'plain',
  '\0',
  '\u0001',
  '\u0001\0',
  '0\u00010',
  '\u00010',
  '\u00011',
  'a\0b\u0001c',
];

it.each(nasty)('%j survives a round trip and is stored without NUL', (text) => {
  expect(toStoredText(text)).not.toContain('\0');
  expect(fromStoredText(toStoredText(text))).toBe(text);
});

it('toStoredText() is injective and preserves prefixes', () => {
  expect(new Set(nasty.map(toStoredText)).size).toBe(nasty.length);
  for (const text of nasty) {
    for (const prefix of nasty) {
      const isPrefix = toStoredText(text + prefix).startsWith(toStoredText(text));
      expect(isPrefix).toBe(true);
    }
  }
});

it('fromStoredText() keeps escape characters that it does not recognize', () => {
  expect(fromStoredText('\u0001')).toBe('\u0001');
  expect(fromStoredText('\u0001x')).toBe('\u0001x');
});

it('texts() uses the binary format if a value is long', () => {
  const long = `"${'é'.repeat(1_001)}\0`;
  const binary = texts(['a', null, long], itself);
  if (typeof binary === 'string') throw new Error('a literal');
  const numbersAt = (...places: readonly number[]) => places.map((at) => binary.readInt32BE(at));
  // One dimension, with a NULL, of texts, three of them, from 1.
  expect(numbersAt(0, 4, 8, 12, 16)).toEqual([1, 1, 25, 3, 1]);
  expect(numbersAt(20, 25)).toEqual([1, -1]);
  expect(binary.toString('utf8', 24, 25)).toBe('a');
  expect(binary.toString('utf8', 33)).toBe(toStoredText(long));
  expect(binary.readInt32BE(29)).toBe(binary.length - 33);
});
