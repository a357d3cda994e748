import { afterEach, expect, it, vi } from 'vitest';
import { consoleLogger } from './logger.ts';

afterEach(() => vi.restoreAllMocks());

function written(log: () => void): unknown[][] {
  const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  const error = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  log();
  return [...warn.mock.calls, ...error.mock.calls];
}

it('writes warnings and errors as one line with their fields, and drops the rest', () => {
  const lines = written(() => {
    consoleLogger.debug({}, 'no');
    consoleLogger.info({}, 'no');
    consoleLogger.warn({ instanceId: 'a "b"', attempt: 2, none: undefined, list: [1] }, 'failed');
    consoleLogger.error({}, 'broken');
  });
  expect(lines).toEqual([
    ['perdure warn: failed { instanceId: "a \\"b\\"", attempt: 2, list: [1] }'],
    ['perdure error: broken'],
  ]);
});

it('writes an error with its cause, and the stack frames of the cause below', () => {
  const cause = Object.assign(new TypeError('inner'), {
    stack: 'TypeError: inner\n    at one (file.ts:1)\n    at two (file.ts:2)',
  });
  const error = new Error('outer', { cause });
  expect(written(() => consoleLogger.error({ error }, 'failed'))).toEqual([
    [
      'perdure error: failed { error: "Error: outer" (caused by "TypeError: inner") }\n    at one (file.ts:1)\n    at two (file.ts:2)',
    ],
  ]);
});

it('escapes characters that a terminal executes or that reorder text', () => {
  const error = Object.assign(new Error('a\u009B31mb\u202E'), {
    stack: 'x\n    at \u001B[2Jf (g:1)',
  });
  expect(written(() => consoleLogger.error({ error }, 'failed'))).toEqual([
    [
      String.raw`perdure error: failed { error: "Error: a\u009b31mb\u202e" }` +
        String.raw`\n    at \u001b[2Jf (g:1)`.replace(String.raw`\n`, '\n'),
    ],
  ]);
});

it('never throws for hostile fields', () => {
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  const hostile = {
    get name(): string {
      throw new Error('no');
    },
  };
  const fields = { cycle, big: 1n, fn: () => 1, hostile, error: hostile };
  expect(written(() => consoleLogger.warn(fields, 'odd'))).toHaveLength(1);
});
