import { expect, it } from 'vitest';
import { booleans, numbers, texts, fromStoredText, toStoredText } from './arrays.ts';

it('texts are quoted, so that none of them is taken for NULL, a comma or a bracket', () => {
  expect(texts(['a', null, 'NULL', '', 'a,b', '{}', 'it\'s "quoted"', '\\'])).toBe(
    '{"a",NULL,"NULL","","a,b","{}","it\'s \\"quoted\\"","\\\\"}',
  );
});

it('numbers and booleans are written as they are', () => {
  expect(numbers([1, null, -2])).toBe('{1,NULL,-2}');
  expect(booleans([true, false])).toBe('{true,false}');
  expect(numbers([])).toBe('{}');
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

it.each(nasty)('%j comes back as it was, and is stored without NUL', (text) => {
  expect(toStoredText(text)).not.toContain('\0');
  expect(fromStoredText(toStoredText(text))).toBe(text);
});

it('different texts stay different, and a prefix stays a prefix', () => {
  expect(new Set(nasty.map(toStoredText)).size).toBe(nasty.length);
  for (const text of nasty) {
    for (const prefix of nasty) {
      const isPrefix = toStoredText(text + prefix).startsWith(toStoredText(text));
      expect(isPrefix).toBe(true);
    }
  }
});

it('text that nobody here wrote is left as it is', () => {
  expect(fromStoredText('\u0001')).toBe('\u0001');
  expect(fromStoredText('\u0001x')).toBe('\u0001x');
});
