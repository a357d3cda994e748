import { expect, it } from 'vitest';
import { decodeTrace, encodeTrace, isSampled, toTrace, traceOfOptions } from './trace-context.ts';

it('a context is sampled if the last bit of its flags is set', () => {
  const sampled = Array.from('0123456789abcdef', (digit) =>
    isSampled({ traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-0${digit}`, at: 0 }),
  );
  expect(sampled).toEqual(Array.from({ length: 16 }, (_, digit) => digit % 2 === 1));
});

const ids = `00-${'1'.repeat(32)}-${'2'.repeat(16)}`;

it('a stored trace context is read back unchanged, without a time if it is unsampled', () => {
  const sampled = { traceparent: `${ids}-01`, at: 5 };
  const unsampled = { traceparent: `${ids}-00`, at: 5 };
  const stored = [
    sampled,
    { ...sampled, link: true as const },
    { ...unsampled, tracestate: 'a=1' },
    unsampled,
  ].map(encodeTrace);
  // The next one is not the last one that was encoded.
  encodeTrace(sampled);
  expect(stored.map((text) => decodeTrace(`${text} `))).toEqual([
    sampled,
    { ...sampled, link: true },
    { ...unsampled, tracestate: 'a=1' },
    { ...unsampled, at: 0 },
  ]);
  expect(stored[3]).toBe(`"${ids}-00"`);
  expect(traceOfOptions(`{"trace":${stored[3]}}`)).toEqual({ ...unsampled, at: 0 });
});

it.each([
  '',
  '00-1-2-00',
  `${ids}-00x`,
  `${ids}-0g`,
  `${ids}-0A`,
  `${ids}_00`,
  ids.replace('00-', '01-') + '-00',
  `00-${'0'.repeat(32)}-${'2'.repeat(16)}-00`,
  `00-${'1'.repeat(32)}-${'0'.repeat(16)}-00`,
  `00-${'1'.repeat(31)}/-${'2'.repeat(16)}-00`,
  `00-${'1'.repeat(31)}:-${'2'.repeat(16)}-00`,
  `00-${'1'.repeat(31)}\`-${'2'.repeat(16)}-00`,
  `00-${'1'.repeat(16)}-${'2'.repeat(32)}-00`,
  7,
  null,
  { traceparent: ids, at: 1 },
])('%j is no context', (value) => expect(toTrace(value)).toBeUndefined());

it('a context may have leading and trailing zeros in its ids', () => {
  const traceparent = `00-${'0'.repeat(31)}f-a${'0'.repeat(15)}-ff`;
  expect(toTrace(traceparent)).toEqual({ traceparent, at: 0 });
});
