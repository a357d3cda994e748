import { describe, expect, it } from 'vitest';
import { cleanReason } from './cancel.ts';

describe('a reason', () => {
  it.each([
    ['as it is, if it is text', 'changed my mind', 'changed my mind'],
    ['without control characters and space around it', ' a\u0000\u0007b\n', 'a b'],
    ["'canceled', if there is none", undefined, 'canceled'],
    ["'canceled', if it is null", null, 'canceled'],
    ["'canceled', if it is empty", '  ', 'canceled'],
    ['the message of an error', new Error('broke'), 'broke'],
    ['JSON, if it is an object', { why: ['x'] }, '{"why":["x"]}'],
    ['JSON, if it is a number', 5, '5'],
    ['only named, if JSON cannot carry it', 10n, 'a value of type bigint'],
    ['only named, if it is a function', () => 1, 'a value of type function'],
    ['only named, if it is a symbol', Symbol('x'), 'a value of type symbol'],
  ])('is kept %s', (_, reason, kept) => {
    expect(cleanReason(reason)).toBe(kept);
  });

  it('is described by type if it is a hostile proxy', () => {
    const refuse = () => {
      throw new Error('keep out');
    };
    const hostile = new Proxy({}, { get: refuse, getPrototypeOf: refuse, ownKeys: refuse });
    expect(cleanReason(hostile)).toBe('a value of type object');
    expect(cleanReason(Object.assign(new Error('x'), { message: 5 }))).toBe('5');
  });

  it('is cut with a note if it is too long, without splitting a character', () => {
    expect(cleanReason('x'.repeat(4_096))).toBe('x'.repeat(4_096));
    expect(cleanReason('x'.repeat(1_048_576))).toBe(
      `${'x'.repeat(4_096)}… (cut from 1048576 characters)`,
    );
    const cut = cleanReason('x' + '😀'.repeat(4_000));
    expect(cut.isWellFormed()).toBe(true);
    expect(cleanReason('lone \ud800').isWellFormed()).toBe(true);
    expect(cleanReason(cut)).toBe(cut);
    expect(cleanReason(`${'x'.repeat(4_097)}… (cut from 9 characters)`)).toHaveLength(4_124);
  });
});
