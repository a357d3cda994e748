import { expect } from 'vitest';
import type { HistoryEvent } from '../../src/model/event.ts';
import { keepHistory } from '../../src/model/kept-history.ts';
import type { Message } from '../../src/model/message.ts';

type Scheduled = Extract<HistoryEvent, { kind: 'activityScheduled' | 'childScheduled' }>;

const isTerminal = ({ kind }: HistoryEvent) =>
  kind.startsWith('execution') && kind !== 'executionStarted';

/** Checks the invariants of every finished history. */
export function checkHistory(history: readonly HistoryEvent[], messages: readonly Message[]): void {
  checkTerminal(history);
  checkFailure(history, messages);
  checkRequests(history, messages);
  checkWithdrawals(history);
  checkEnd(history);
  checkState(history);
}

/** The last event is the only terminal one, and times never decrease. */
function checkTerminal(history: readonly HistoryEvent[]): void {
  expect(history.filter(isTerminal)).toEqual(history.slice(-1));
  const times = history.map(({ at }) => at);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
}

/** Programs fail only with a cancellation other than that of the instance. Continue-as-new carries a late cancel. */
function checkFailure(history: readonly HistoryEvent[], messages: readonly Message[]): void {
  const last = history.at(-1);
  const request = messages.find(({ kind }) => kind === 'cancel');
  if (last?.kind === 'executionFailed') {
    expect(last.failure.code).toBe('OPERATION_CANCELED');
    if (request !== undefined) expect(last.failure.message).not.toContain(reasonOf(request));
  }
  if (last?.kind === 'executionContinuedAsNew') {
    expect(last.cancel?.reason).toBe(reasonOf(request));
  }
}

/** R16 and R11: the first cancel is kept, reaches no shield, and no unshielded operation starts after it. */
function checkRequests(history: readonly HistoryEvent[], messages: readonly Message[]): void {
  const requests = history.filter(({ kind }) => kind === 'cancelRequested');
  const [started] = history;
  const carried = started?.kind === 'executionStarted' ? started.cancel : undefined;
  const first = carried ?? messages.find(({ kind }) => kind === 'cancel');
  expect(requests.length).toBeLessThanOrEqual(carried === undefined ? 1 : 0);
  for (const request of requests) expect(request).toMatchObject({ reason: reasonOf(first) });
  const last = history.at(-1);
  if (last?.kind === 'executionCanceled') expect(last.reason).toBe(reasonOf(first));
  const from =
    carried === undefined ? history.findIndex(({ kind }) => kind === 'cancelRequested') : 0;
  if (from < 0) return;
  const shielded = new Set(
    history.flatMap((event) =>
      isScheduled(event) && event.shielded === true ? [event.operation] : [],
    ),
  );
  for (const event of history) {
    if (event.kind !== 'operationWithdrawn' || event.reason !== reasonOf(first)) continue;
    expect(shielded.has(event.target)).toBe(false);
  }
  const begun = history.slice(from).filter(isScheduled);
  expect(begun.filter(({ shielded }) => shielded !== true)).toEqual([]);
}

/** R4 and R14: an operation is withdrawn and settled at most once, and settled after a withdrawal only in wait mode. */
function checkWithdrawals(history: readonly HistoryEvent[]): void {
  const scheduled = new Map<number, HistoryEvent>();
  const withdrawn = new Set<number>();
  const answered = new Set<number>();
  for (const event of history) {
    if (event.kind === 'operationWithdrawn') {
      expect(withdrawn.has(event.target) || answered.has(event.target)).toBe(false);
      withdrawn.add(event.target);
      const type = cancellationOf(scheduled.get(event.target));
      expect(event.abandoned === true).toBe(type === 'abandon');
      expect(event.childId === undefined).toBe(event.targetKind !== 'child');
    } else if (isAnswer(event)) {
      expect(answered.has(event.operation)).toBe(false);
      answered.add(event.operation);
      const type = cancellationOf(scheduled.get(event.operation));
      expect(withdrawn.has(event.operation) && type !== 'wait').toBe(false);
    } else if ('operation' in event) {
      scheduled.set(event.operation, event);
    }
  }
}

/** R17: at the end no operation in wait mode or in a shield is pending, unless clean-up was skipped. */
function checkEnd(history: readonly HistoryEvent[]): void {
  const last = history.at(-1);
  if (last?.kind === 'executionCanceled' && last.cleanupSkipped === true) return;
  const answered = new Set(history.filter(isAnswer).map(({ operation }) => operation));
  const waited = history.filter(isScheduled).filter(({ cancellation }) => cancellation === 'wait');
  expect(waited.filter(({ operation }) => !answered.has(operation))).toEqual([]);
  const withdrawn = new Set(
    history.flatMap((event) => (event.kind === 'operationWithdrawn' ? [event.target] : [])),
  );
  const shielded = history.filter(isScheduled).filter((event) => event.shielded === true);
  expect(
    shielded.filter(({ operation }) => !answered.has(operation) && !withdrawn.has(operation)),
  ).toEqual([]);
}

/** R21: the next execution starts with the state that the events describe, and no recorded deletion is without effect. */
function checkState(history: readonly HistoryEvent[]): void {
  const [started] = history;
  if (started?.kind !== 'executionStarted') return;
  const state = new Map(started.state?.map(({ key, payload }) => [key, payload]));
  for (const event of history) {
    if (event.kind !== 'stateSet') continue;
    if (event.payload === null) expect(state.delete(event.key)).toBe(true);
    else state.set(event.key, event.payload);
  }
  const values = [...state].map(([key, payload]) => ({ key, payload }));
  const last = history.at(-1);
  if (last?.kind === 'executionContinuedAsNew') expect(last.state ?? []).toEqual(values);
  expect(keepHistory(history, history.length - 1).state).toEqual(values);
}

function isScheduled(event: HistoryEvent): event is Scheduled {
  return event.kind === 'activityScheduled' || event.kind === 'childScheduled';
}

function isAnswer(event: HistoryEvent): event is Extract<HistoryEvent, { kind: 'timerFired' }> {
  return /^(?:activity|step|child|detached|awakeable)(?:Completed|Confirmed|Resolved|Failed|Rejected|Canceled)$|^timerFired$/.test(
    event.kind,
  );
}

function cancellationOf(event: HistoryEvent | undefined): string | undefined {
  if (event?.kind === 'detachedStarted') return 'abandon';
  return event !== undefined && isScheduled(event) ? event.cancellation : undefined;
}

function reasonOf(request: unknown): string | undefined {
  return (request as { reason: string } | undefined)?.reason;
}
