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
