import { describe, expect, it } from 'vitest';
import { applyTags, checkTagChanges, checkTags, decodeTags, encodeTags } from './tags.ts';

describe('tags', () => {
  it.each([
    [{ '': 'x' }],
    [{ ['k'.repeat(65)]: 'x' }],
    [{ 'a=b': 'x' }],
    [{ 'a"': 'x' }],
    [{ a: '' }],
    [{ a: 'v'.repeat(257) }],
    [{ a: 'é'.repeat(129) }],
    [{ a: 'line\nbreak' }],
    [{ a: '\ud800' }],
    [{ a: 7 }],
    [{ a: null }],
    [{ ['__proto__']: 'x' }],
    [['a']],
    ['a'],
    [null],
    [Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`t${n}`, 'x']))],
  ])('checkTags() rejects %j with INVALID_OPTION', (tags) => {
    expect(() => checkTags(tags)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
  });

  it('equal tags have equal texts, and no tags have none', () => {
    expect(encodeTags(checkTags({ b: '2', a: '1' }))).toBe('{"a":"1","b":"2"}');
    expect(encodeTags(checkTags({}))).toBeNull();
    expect(decodeTags('{"a":"1"}')).toEqual({ a: '1' });
    expect(decodeTags('not JSON')).toEqual({});
  });

  it('applyTags() sets, replaces and removes', () => {
    const changes = checkTagChanges({ a: '2', b: undefined, c: null, d: '4' }, 'tags');
    expect(applyTags({ a: '1', b: '1', c: '1', e: '5' }, changes)).toEqual({
      a: '2',
      d: '4',
      e: '5',
    });
  });
});
