import { expect, it } from 'vitest';
import { toLoggedError } from './logged-error.ts';

it('a logged error leaves out details, which may hold payloads', () => {
  const failure = {
    name: 'E',
    message: 'no',
    details: { card: '4111' },
    cause: { name: 'C', message: 'x', details: 1 },
  };
  expect(toLoggedError(failure)).toEqual({
    name: 'E',
    message: 'no',
    cause: { name: 'C', message: 'x' },
  });
});

it('a logged disagreement of code and history quotes no payload', () => {
  const failure = {
    name: 'NondeterminismError',
    code: 'NONDETERMINISM',
    message: `history records a call of activity 'pay' with input "4111"`,
    stack: `NondeterminismError: history records a call of activity 'pay' with input "4111"`,
  };
  expect(JSON.stringify(toLoggedError(failure))).not.toContain('4111');
});
