import { expect, test, vi } from 'vitest';

vi.stubGlobal('addEventListener', () => undefined);
vi.stubGlobal('localStorage', { getItem: () => null, setItem: () => undefined });
vi.stubGlobal('document', { documentElement: { dataset: {} }, baseURI: 'http://localhost/' });
vi.stubGlobal('location', new URL('http://localhost/'));
const { commandKind, commandName, describeEvent, operationOf } = await import('./event-text.ts');
type HistoryEvent = Parameters<typeof describeEvent>[0];

const event = (fields: object): HistoryEvent => ({ at: 0, ...fields }) as HistoryEvent;
const scheduled = event({ kind: 'activityScheduled', operation: 5, name: 'chargeCard' });
const failure = { name: 'HttpError', message: '503 acquirer unavailable' };

test('an activity is described by its place and name', () => {
  expect(describeEvent(scheduled)).toBe('#5 chargeCard');
});

test('a failed activity is described by its error and worker', () => {
  const failed = { kind: 'activityFailed', operation: 5, failure };
  expect(describeEvent(event(failed))).toBe('#5 HttpError: 503 acquirer unavailable');
  expect(describeEvent(event({ ...failed, worker: 'worker-eu-1' }))).toBe(
    '#5 HttpError: 503 acquirer unavailable, on worker-eu-1',
  );
});

test('a cancel names its actor, if it has one', () => {
  const request = { kind: 'cancelRequested', reason: 'changed', actor: null };
  expect(describeEvent(event(request))).toBe('changed');
  expect(describeEvent(event({ ...request, actor: 'agent-12' }))).toBe('agent-12: changed');
});

test('a cancel whose clean-up was cut off says so', () => {
  const canceled = { kind: 'executionCanceled', reason: 'changed' };
  expect(describeEvent(event(canceled))).toBe('changed');
  expect(describeEvent(event({ ...canceled, cleanupSkipped: true }))).toBe(
    'changed, clean-up not finished',
  );
});

test('a kind that a newer server records has an empty description', () => {
  expect(describeEvent(event({ kind: 'somethingNew' }))).toBe('');
  expect(commandKind('somethingNew')).toBe('somethingNew');
});

test('an event belongs to its operation, a withdrawal to its target', () => {
  expect(operationOf(scheduled)).toBe(5);
  expect(operationOf(event({ kind: 'operationWithdrawn', target: 3 }))).toBe(3);
  expect(operationOf(event({ kind: 'eventReceived', name: 'paid' }))).toBeUndefined();
});

test('commands have a kind in one word and the name that the code gave', () => {
  expect(commandKind('activityScheduled')).toBe('call');
  expect(commandName(scheduled)).toBe('chargeCard');
  expect(commandName(event({ kind: 'customStatusSet', operation: 7 }))).toBe('setCustomStatus');
  expect(commandName(event({ kind: 'chunkEmitted', operation: 7 }))).toBe('emit');
});

test('a timer of a wrong clock does not throw', () => {
  const timer = event({ kind: 'timerCreated', operation: 1, fireAt: 1e300 });
  expect(() => describeEvent(timer)).not.toThrow();
});
