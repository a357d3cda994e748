import { ROOT_CONTEXT, trace as traceApi } from '@opentelemetry/api';
import { describe, expect, it } from 'vitest';
import type { TraceContext } from '../model/trace-context.ts';
import { place, type Relation } from './span-context.ts';

const at = 1_700_000_000_000;
const spanId = '2'.repeat(16);
const cause: TraceContext = { traceparent: `00-${'1'.repeat(32)}-${spanId}-01`, at };

/** How a span that begins so long after its cause relates to it. */
function relationAfter(
  ageMs: number,
  { relation, isLater = false }: { readonly relation?: Relation; readonly isLater?: boolean } = {},
  given = cause,
): Relation {
  const { parent, links } = place(given, { relation, isLater, nowMs: at + ageMs });
  const parentId = traceApi.getSpanContext(parent)?.spanId;
  const linked = links.map(({ context }) => context.spanId);
  // Never both, and never neither.
  if (parentId === undefined) expect(linked).toEqual([spanId]);
  else expect([parentId, linked]).toEqual([spanId, []]);
  return parentId === undefined ? 'link' : 'parent';
}

describe('place()', () => {
  it.each([
    [59_999, 'parent'],
    [60_000, 'parent'],
    [60_001, 'link'],
  ] as const)('places a span %i ms after its cause as a %s', (ageMs, expected) => {
    expect(relationAfter(ageMs)).toBe(expected);
  });

  it.each([59_999, 60_000, 60_001])('relation decides instead of an age of %i ms', (ageMs) => {
    for (const isLater of [false, true]) {
      expect(relationAfter(ageMs, { relation: 'parent', isLater })).toBe('parent');
      expect(relationAfter(ageMs, { relation: 'link', isLater })).toBe('link');
    }
  });

  it('links a retry and a later execution within the minute', () => {
    expect(relationAfter(0, { isLater: true })).toBe('link');
  });

  it('links to a context that asks for a link within the minute', () => {
    expect(relationAfter(0, {}, { ...cause, link: true })).toBe('link');
  });

  it('places a span whose clock is behind that of its cause as a child', () => {
    expect(relationAfter(-3_600_000)).toBe('parent');
  });

  it('makes a span without a cause a root without links', () => {
    const placement = place(undefined, { relation: 'parent', isLater: false, nowMs: at });
    expect(placement).toEqual({ parent: ROOT_CONTEXT, links: [] });
  });
});
