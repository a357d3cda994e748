import { describe, expect, it } from 'vitest';
import type { HistoryEvent } from './event.ts';
import { findFailurePoint, keepHistory, redeliver, toInheritedStart } from './kept-history.ts';

const started: HistoryEvent = {
  kind: 'executionStarted',
  at: 1,
  name: 'sample',
  version: '1',
  payload: null,
};
const activity = (operation: number, parts: object = {}): HistoryEvent => ({
  kind: 'activityScheduled',
  at: 1,
  operation,
  name: 'work',
  payload: null,
  ...parts,
});
const completed = (operation: number): HistoryEvent => ({
  kind: 'activityCompleted',
  at: 2,
  operation,
  payload: '1',
});
const failure = { name: 'Error', message: 'no' };
const failed = (operation: number): HistoryEvent => ({
  kind: 'activityFailed',
  at: 2,
  operation,
  failure,
});
const ended: HistoryEvent = { kind: 'executionFailed', at: 3, failure };
const requested: HistoryEvent = { kind: 'cancelRequested', at: 2, reason: 'no', actor: null };
const received = (name: string): HistoryEvent => ({
  kind: 'eventReceived',
  at: 2,
  name,
  payload: null,
});

describe('findFailurePoint()', () => {
  it('keeps the events before the last incoming one', () => {
    const events = [started, activity(1), completed(1), activity(2), failed(2), ended];
    expect(findFailurePoint(events)).toEqual({ keep: 4, takenBack: [failed(2)] });
  });

  it('keeps the events before a cancel request', () => {
    const canceled: HistoryEvent = { kind: 'executionCanceled', at: 3, reason: 'no' };
    const events = [started, activity(1), requested, completed(1), canceled];
    expect(findFailurePoint(events)).toEqual({ keep: 2, takenBack: [requested, completed(1)] });
  });

  it('keeps all events of a terminated execution', () => {
    const end: HistoryEvent = { kind: 'executionTerminated', at: 3, reason: 'no', actor: null };
    expect(findFailurePoint([started, activity(1), end]).keep).toBe(2);
  });

  it('keeps nothing of an execution that failed in its first turn', () => {
    expect(findFailurePoint([started, ended]).keep).toBe(0);
    expect(findFailurePoint([ended]).keep).toBe(0);
  });
});

describe('keepHistory()', () => {
  it('finds the operations without an answer', () => {
    const events = [started, activity(1), activity(2), completed(1)];
    expect(keepHistory(events, 4).open).toEqual([activity(2)]);
    expect(keepHistory(events, 3).open).toEqual([activity(1), activity(2)]);
  });

  it('excludes withdrawn operations, except those that the code awaits', () => {
    const withdrawn = (target: number): HistoryEvent => ({
      kind: 'operationWithdrawn',
      at: 2,
      target,
      targetKind: 'activity',
      trigger: 'race_lost',
      reason: 'lost',
    });
    const waits = activity(2, { cancellation: 'wait' });
    const kept = keepHistory([started, activity(1), waits, withdrawn(1), withdrawn(2)], 5);
    expect(kept.open).toEqual([waits]);
    expect(kept.withdrawn.get(2)).toEqual(withdrawn(2));
  });

  it('counts received events that no wait has consumed', () => {
    const awaited: HistoryEvent = { kind: 'eventAwaited', at: 2, operation: 1, name: 'a' };
    const events = [started, received('a'), received('b'), awaited, received('a')];
    expect(keepHistory(events, 5).bufferedEvents).toBe(2);
    expect(keepHistory([started, awaited, received('a')], 3).bufferedEvents).toBe(0);
  });
});

describe('redeliver()', () => {
  it('returns external events and completed results of open operations', () => {
    const takenBack = [received('a'), completed(1), completed(9), failed(2)];
    const { messages, answered } = redeliver(takenBack, keepHistory([started, activity(1)], 2), 2);
    expect(messages.map(({ kind }) => kind)).toEqual(['eventRaised', 'activityCompleted']);
    expect(messages[1]).toMatchObject({ executionId: 2, operation: 1 });
    expect([...answered]).toEqual([1]);
  });
});

describe('toInheritedStart()', () => {
  it('keeps the writers of earlier copies up to the cut', () => {
    const source = (executionId: number) => ({ instanceId: 'a', incarnation: 'x', executionId });
    const kept = keepHistory([started], 1);
    const second = toInheritedStart({ ...kept, events: 5 }, source(1));
    const third = toInheritedStart({ started: second, events: 8 }, source(2));
    expect(third.inherited).toMatchObject([
      { executionId: 1, events: 5 },
      { executionId: 2, events: 8 },
    ]);
    const earlier = toInheritedStart({ started: third, events: 4 }, source(3));
    expect(earlier.inherited).toMatchObject([{ executionId: 1, events: 4 }]);
  });
});
