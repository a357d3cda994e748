import { describe, expect, it } from 'vitest';
import type { HistoryEvent } from './event.ts';
import { moveCut } from './kept-history.ts';

const issue = (at: number, operation: number) =>
  ({ kind: 'activityScheduled', at, operation, name: 'a', payload: null }) as HistoryEvent;
const answer = (at: number, operation: number) =>
  ({ kind: 'activityCompleted', at, operation, payload: null }) as HistoryEvent;
const raised = (at: number) =>
  ({ kind: 'eventReceived', at, name: 'e', payload: null }) as HistoryEvent;
const started = { kind: 'executionStarted', at: 1, name: 'x', version: '1' } as HistoryEvent;

const cutsOf = (events: readonly HistoryEvent[]) =>
  events.map((_, index) => moveCut(events, index + 1));

describe('moveCut()', () => {
  it('moves a cut before an answer of the same turn to the start of the turn', () => {
    const events = [started, issue(1, 1), issue(1, 2), answer(2, 1), issue(2, 3), answer(2, 2)];
    expect(cutsOf(events)).toEqual([1, 2, 3, 3, 3, 6]);
  });

  it('does not move a cut before an external event', () => {
    expect(cutsOf([started, issue(1, 1), answer(2, 1), raised(2)])).toEqual([1, 2, 3, 4]);
  });

  it('separates turns of the same time by the operations that they issue', () => {
    const events = [started, issue(1, 1), answer(1, 1), issue(1, 2), answer(1, 2)];
    expect(cutsOf(events)).toEqual([1, 2, 3, 4, 5]);
  });

  it('moves on if the events before belong to another turn of the same time', () => {
    const first = [started, issue(1, 1), issue(1, 2)];
    const events = [...first, answer(2, 1), issue(2, 3), answer(2, 2), answer(2, 3)];
    expect(cutsOf(events)).toEqual([1, 2, 3, 3, 3, 3, 7]);
  });
});
