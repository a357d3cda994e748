import { expect, it } from 'vitest';
import { booleans, numbers, texts } from './arrays.ts';

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
