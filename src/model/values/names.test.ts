import { describe, expect, test } from 'vitest';
import { checkInstanceId, checkName } from './names.ts';

describe('a name', () => {
  test.each([
    'a',
    'send email',
    'billing/charge:v2',
    'größe',
    '注文',
    '🚚',
    'x'.repeat(256),
    '%_*?[]',
  ])('checkName returns %j unchanged', (name) => {
    expect(checkName(name, 'Name')).toBe(name);
  });

  test.each<[unknown, string]>([
    ['', 'is empty'],
    ['x'.repeat(257), 'is longer than 256 bytes'],
    ['é'.repeat(129), 'is longer than 256 bytes'],
    ['🚚'.repeat(65), 'is longer than 256 bytes'],
    ['a\u0000b', 'contains a control character'],
    ['a\nb', 'contains a control character'],
    ['a\u007f', 'contains a control character'],
    ['a\u0085', 'contains a control character'],
    ['a\u2028', 'contains a control character'],
    ["o'clock", 'contains a quote'],
    ['a"b', 'contains a quote'],
    ['a`b', 'contains a quote'],
    ['\ud83d', 'contains half of a surrogate pair'],
    [undefined, 'must be a string, not undefined'],
    [null, 'must be a string, not null'],
    [7, 'must be a string, not number'],
    [{ toString: () => 'a' }, 'must be a string, not object'],
  ])('%j throws INVALID_NAME', (name, problem) => {
    expect(() => checkName(name, 'Activity name')).toThrow(
      expect.objectContaining({
        code: 'INVALID_NAME',
        message: expect.stringContaining(`Activity name ${problem}. Use 1 to 256 bytes`) as string,
      }),
    );
  });

  test('counts bytes, not characters, up to the limit', () => {
    expect(checkName('é'.repeat(128), 'Name')).toHaveLength(128);
    expect(checkName('🚚'.repeat(64), 'Name')).toHaveLength(128);
  });
});

describe('an instance id', () => {
  test('accepts up to 1,000 bytes', () => {
    expect(checkInstanceId('x'.repeat(1_000))).toHaveLength(1_000);
    expect(() => checkInstanceId('x'.repeat(1_001))).toThrow(
      expect.objectContaining({
        code: 'INVALID_ID',
        message: expect.stringContaining('Use 1 to 1000 bytes') as string,
      }),
    );
  });

  test.each([undefined, '', 'a\tb', "a'b", 5])('%j throws INVALID_ID', (id) => {
    expect(() => checkInstanceId(id)).toThrow(expect.objectContaining({ code: 'INVALID_ID' }));
  });
});
