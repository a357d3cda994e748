import { expect, it } from 'vitest';
import {
  createTrace,
  decodeTrace,
  encodeTrace,
  encodeTraceJson,
  isSampled,
  toLink,
  toTrace,
  traceOfOptions,
  type TraceContext,
} from './trace-context.ts';

it('a context is sampled if the last bit of its flags is set', () => {
  const sampled = Array.from('0123456789abcdef', (digit) =>
    isSampled({ traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-0${digit}`, at: 0 }),
  );
  expect(sampled).toEqual(Array.from({ length: 16 }, (_, digit) => digit % 2 === 1));
});

const span = { traceId: '1'.repeat(32), spanId: '2'.repeat(16), traceFlags: 1 };

/** The context as messages carry it. */
function plain(trace: TraceContext | undefined): unknown {
  return trace && JSON.parse(JSON.stringify(trace));
}

const ids = `00-${'1'.repeat(32)}-${'2'.repeat(16)}`;

it('a stored trace context is read back unchanged, but of an unsampled one only its trace id', () => {
  const sampled = { traceparent: `${ids}-01`, at: 5 };
  const unsampled = { traceparent: `${ids}-00`, at: 5 };
  const contexts = [
    sampled,
    { ...sampled, link: true as const },
    { ...unsampled, tracestate: 'a=1' },
    unsampled,
  ];
  const stored = contexts.map(encodeTrace);
  expect(decodeTrace(stored[3])).toBe(unsampled);
  // The next ones are not the last one that was encoded.
  encodeTrace({ ...sampled, at: 6 });
  const reduced = { traceparent: `00-${'1'.repeat(32)}-${'1'.repeat(16)}-00`, at: 0 };
  const expected = [...contexts.slice(0, 3), reduced];
  expect(stored.map((text) => plain(decodeTrace(text)))).toEqual(expected);
  expect(stored[3]).toBe('1'.repeat(32));
  const options = contexts.map((trace) => `{"trace":${encodeTraceJson(trace)}}`);
  expect(options.map((text) => plain(traceOfOptions(text)))).toEqual(expected);
});

it('the span id of a stored unsampled context is never zero', () => {
  const traceId = `${'3'.repeat(16)}${'0'.repeat(16)}`;
  expect(toTrace(traceId)?.traceparent).toBe(`00-${traceId}-${'3'.repeat(16)}-00`);
  expect(decodeTrace('0'.repeat(32))).toBeUndefined();
});

it('a context of a span can be sent as JSON', () => {
  const trace = createTrace({ ...span, traceFlags: 0 }, 5, 'a=1');
  expect(plain(trace)).toEqual({ traceparent: `${ids}-00`, at: 5, tracestate: 'a=1' });
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
])('%j is no context', (value) => {
  expect(toTrace(value)).toBeUndefined();
  expect(toTrace({ traceparent: value, at: 1 })).toBeUndefined();
});

it('a context may have leading and trailing zeros in its ids', () => {
  const traceparent = `00-${'0'.repeat(31)}f-a${'0'.repeat(15)}-ff`;
  expect(toTrace({ traceparent, at: 0 })).toEqual({ traceparent, at: 0 });
});

it.each([0, 1, 2, 3, 0xff])(
  'the context of a span with the flags %i is stored as it is',
  (flags) => {
    const trace = createTrace({ ...span, traceFlags: flags }, 5);
    const traceparent = `${ids}-${flags.toString(16).padStart(2, '0')}`;
    expect(trace).toMatchObject({ traceparent, at: 5 });
    if (trace === undefined) return;
    expect(isSampled(trace)).toBe(isSampled({ traceparent, at: 5 }));
    expect(toTrace(trace)).toBe(trace);
    expect(plain(toLink(trace))).toEqual({ traceparent, at: 5, link: true });
    expect(encodeTrace(trace)).toBe(encodeTrace({ traceparent, at: 5 }));
  },
);

it('the context of a span has its trace state, unless it is empty or invalid', () => {
  const stored = (state: string) => {
    const trace = createTrace(span, 5, state);
    return trace && (JSON.parse(encodeTrace(trace)) as unknown);
  };
  expect(stored('a=1')).toEqual({ traceparent: `${ids}-01`, tracestate: 'a=1', at: 5 });
  for (const state of ['', 'a=\n', 'x'.repeat(513)])
    expect(stored(state)).toEqual({ traceparent: `${ids}-01`, at: 5 });
});

it.each([
  { traceId: '0'.repeat(32) },
  { traceId: '1'.repeat(31) },
  { traceId: `${'1'.repeat(31)}A` },
  { traceId: `${'1'.repeat(31)}"` },
  { spanId: '0'.repeat(16) },
  { spanId: '2'.repeat(17) },
  { spanId: `${'2'.repeat(15)}\n` },
])('a span with %j has no context', (invalid) => {
  expect(createTrace({ ...span, ...invalid }, 5)).toBeUndefined();
});
