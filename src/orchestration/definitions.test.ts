import { describe, expect, it } from 'vitest';
import type { StandardSchema } from '../model/definition.ts';
import { activity } from './activity.ts';
import { event, orchestration } from './orchestration.ts';

const handler = async () => undefined;
const badNames: readonly unknown[] = ['', 'x'.repeat(257), 'a\nb', '\ud800', 5, null, undefined];
const schema: StandardSchema<string> = {
  '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value: String(value) }) },
};

describe('a definition', () => {
  it('is a frozen object with its name and kind', () => {
    const greet = activity('greet', handler, { timeout: '5s', retry: { maxAttempts: 2 } });
    expect(greet).toMatchObject({ kind: 'activity', name: 'greet' });
    expect(greet.defaults).toEqual({ timeout: '5s', retry: { maxAttempts: 2 } });
    expect(Object.isFrozen(greet)).toBe(true);
    expect(orchestration('hello', handler)).toMatchObject({
      kind: 'orchestration',
      name: 'hello',
      version: '1',
    });
    expect(event('approved', { schema })).toMatchObject({
      kind: 'event',
      name: 'approved',
      schema,
    });
  });

  it('keeps its version and schema', () => {
    const definition = orchestration('hello', async (_, input: string) => input, {
      version: '2.1',
      input: schema,
    });
    expect(definition).toMatchObject({ version: '2.1', inputSchema: schema });
  });

  it.each(badNames)('rejects the name %j', (name) => {
    const refusal = expect.objectContaining({ code: 'INVALID_NAME' });
    expect(() => activity(name as string, handler)).toThrow(refusal);
    expect(() => orchestration(name as string, handler)).toThrow(refusal);
    expect(() => event(name as string)).toThrow(refusal);
  });

  it('rejects a handler that is not a function', () => {
    for (const bad of [undefined, null, 'code', {}, Promise.resolve()]) {
      const refusal = expect.objectContaining({ code: 'INVALID_OPTION' });
      expect(() => activity('a', bad as never)).toThrow(refusal);
      expect(() => orchestration('o', bad as never)).toThrow(refusal);
    }
  });

  it('rejects unknown options, names the closest one and lists the valid ones', () => {
    expect(() => activity('a', handler, { retries: 3 } as never)).toThrow(
      'Unknown option `retries` in activity "a". Valid options: input, onAbandoned, retry, attemptTimeout, timeout, priority, cancellation, concurrency, rate.',
    );
    expect(() => orchestration('o', handler, { verison: '2' } as never)).toThrow(
      expect.objectContaining({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('Did you mean `version`?') as string,
      }),
    );
    expect(() => event('e', { type: 1 } as never)).toThrow('Unknown option `type` in event "e"');
    expect(() => activity('a', handler, null as never)).toThrow('must be an object');
  });

  it('rejects invalid durations and retry policies', () => {
    const bad = (options: object, code: string) =>
      expect(() => activity('a', handler, options)).toThrow(expect.objectContaining({ code }));
    bad({ timeout: '5 fortnights' }, 'INVALID_DURATION');
    bad({ attemptTimeout: -1 }, 'INVALID_DURATION');
    bad({ retry: { maxAttempts: 0 } }, 'INVALID_OPTION');
  });

  it('rejects an empty version', () => {
    expect(() => orchestration('o', handler, { version: '' })).toThrow(
      expect.objectContaining({ code: 'INVALID_NAME' }),
    );
  });

  it('rejects a schema that does not implement Standard Schema', () => {
    for (const bad of [null, {}, { parse: () => 1 }, { '~standard': {} }]) {
      expect(() => orchestration('o', handler, { input: bad as never })).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION' }),
      );
      expect(() => event('e', { schema: bad as never })).toThrow('Standard Schema');
    }
  });
});
