import { expect, it } from 'vitest';
import { isSampled } from './trace-context.ts';

it('a context is sampled if the last bit of its flags is set', () => {
  const sampled = Array.from('0123456789abcdef', (digit) =>
    isSampled({ traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-0${digit}`, at: 0 }),
  );
  expect(sampled).toEqual(Array.from({ length: 16 }, (_, digit) => digit % 2 === 1));
});
