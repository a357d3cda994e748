import { describe, expect, it } from 'vitest';
import { readFields } from './option-fields.ts';

const read = (options: unknown, allowed: readonly string[] = ['id', 'version', 'priority']) =>
  readFields(options, 'start()', allowed);

describe('readFields', () => {
  it('returns the options, or an empty object for undefined', () => {
    expect(read({ id: 'a', version: undefined })).toEqual({ id: 'a', version: undefined });
    expect(read(undefined)).toEqual({});
  });

  it.each([
    [
      { idd: 'a' },
      'Unknown option `idd` in start(). Did you mean `id`? Valid options: id, version, priority.',
    ],
    [
      { prioriy: 1 },
      'Unknown option `prioriy` in start(). Did you mean `priority`? Valid options: id, version, priority.',
    ],
    [
      { retention: 1 },
      'Unknown option `retention` in start(). Valid options: id, version, priority.',
    ],
  ])('throws INVALID_OPTION for the unknown option in %j', (options, message) => {
    expect(() => read(options)).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION', message }),
    );
  });

  it('names no options where none are valid', () => {
    expect(() => read({ a: 1 }, [])).toThrow('Unknown option `a` in start(). Valid options: none.');
  });

  it.each([null, 'text', 1, [], new Set(), Promise.resolve()])(
    'throws INVALID_OPTION for options that are %s',
    (options) => {
      expect(() => read(options)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
    },
  );
});
