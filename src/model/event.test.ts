import { describe, expect, test } from 'vitest';
import {
  decodeEvent,
  encodeEvent,
  isCommand,
  isIncoming,
  type HistoryEvent,
  type StoredEvent,
} from './event.ts';

const failure = { name: 'Error', message: 'm', cause: { name: 'E', message: 'n' } };
const parent = { instanceId: 'p', executionId: 2, operation: 7 };
const carried = [
  { name: 'go', payload: '1' },
  { name: 'go', payload: null },
];
const cancel = { reason: 'r', actor: null };
const retry = {
  maxAttempts: null,
  backoff: 'fixed',
  initialDelayMs: 1,
  maxDelayMs: 2,
  factor: 2,
  jitter: 0,
  nonRetryable: ['x'],
} as const;

const events: readonly HistoryEvent[] = [
  { kind: 'executionStarted', at: 1, name: 'n', version: '1', payload: '"in"', parent, carried },
  { kind: 'executionStarted', at: 1, name: 'n', version: '1', payload: null, cancel },
  { kind: 'activityScheduled', at: 1, operation: 1, name: 'a', payload: '{"a":1}' },
  {
    kind: 'activityScheduled',
    at: 1,
    operation: 1,
    name: 'a',
    payload: null,
    options: { retry, attemptTimeoutMs: 5 },
    cancellation: 'wait',
    shielded: true,
  },
  { kind: 'timerCreated', at: 1, operation: 2, fireAt: 99 },
  { kind: 'eventAwaited', at: 1, operation: 3, name: 'go' },
  {
    kind: 'childScheduled',
    at: 1,
    operation: 4,
    name: 'c',
    version: null,
    childId: 'i',
    payload: '1',
  },
  {
    kind: 'detachedStarted',
    at: 1,
    operation: 5,
    name: 'c',
    version: '2',
    childId: 'i',
    payload: '1',
  },
  { kind: 'customStatusSet', at: 1, operation: 6, payload: '"half"' },
  { kind: 'stateSet', at: 1, operation: 6, key: '__proto__', payload: '1' },
  { kind: 'stateSet', at: 1, operation: 6, key: 'k', payload: null },
  {
    kind: 'operationWithdrawn',
    at: 1,
    target: 3,
    targetKind: 'timer',
    trigger: 'race_lost',
    reason: 'x',
  },
  {
    kind: 'operationWithdrawn',
    at: 1,
    target: 4,
    targetKind: 'child',
    trigger: 'cancel',
    reason: 'x',
    childId: 'i',
    abandoned: true,
  },
  { kind: 'activityCompleted', at: 1, operation: 1, payload: '"out"' },
  { kind: 'activityFailed', at: 1, operation: 1, failure },
  { kind: 'timerFired', at: 1, operation: 2 },
  { kind: 'eventReceived', at: 1, name: 'go', payload: null },
  { kind: 'childCompleted', at: 1, operation: 4, payload: null },
  { kind: 'childFailed', at: 1, operation: 4, failure },
  { kind: 'activityCanceled', at: 1, operation: 1, trigger: 'timeout', reason: 'r', leaked: true },
  { kind: 'childCanceled', at: 1, operation: 4, reason: 'r' },
  { kind: 'detachedConfirmed', at: 1, operation: 5 },
  { kind: 'detachedFailed', at: 1, operation: 5, failure },
  { kind: 'cancelRequested', at: 1, reason: 'r', actor: null },
  { kind: 'executionCompleted', at: 1, payload: '5' },
  { kind: 'executionFailed', at: 1, failure },
  { kind: 'executionCanceled', at: 1, reason: 'r', cleanupSkipped: true },
  { kind: 'executionTerminated', at: 1, reason: 'r', actor: 'jo' },
  { kind: 'executionContinuedAsNew', at: 1, version: '2', payload: '1', carried, cancel },
];

describe('an event', () => {
  test.each(events)('of kind $kind comes back from a store as it went in', (event) => {
    expect(decodeEvent(encodeEvent(event))).toEqual({ payload: null, ...event });
  });

  test('encodeEvent keeps the payload as text, apart from the other fields', () => {
    expect(encodeEvent(events[2]!)).toEqual({
      kind: 'activityScheduled',
      at: 1,
      data: '{"operation":1,"name":"a"}',
      payload: '{"a":1}',
    });
  });

  test('isCommand and isIncoming classify each kind', () => {
    expect(events.filter(isCommand).map(({ kind }) => kind)).toEqual([
      'activityScheduled',
      'activityScheduled',
      'timerCreated',
      'eventAwaited',
      'childScheduled',
      'detachedStarted',
      'customStatusSet',
      'stateSet',
      'stateSet',
      'operationWithdrawn',
      'operationWithdrawn',
    ]);
    expect(events.filter(isIncoming).map(({ kind }) => kind)).toEqual([
      'activityCompleted',
      'activityFailed',
      'timerFired',
      'eventReceived',
      'childCompleted',
      'childFailed',
      'activityCanceled',
      'childCanceled',
      'detachedConfirmed',
      'detachedFailed',
      'cancelRequested',
    ]);
  });

  test('decodeEvent ignores a stored `kind` field', () => {
    const stored = {
      kind: 'timerFired',
      at: 1,
      data: '{"operation":2,"kind":"eventReceived","at":9}',
    };
    expect(decodeEvent({ ...stored, payload: null })).toMatchObject({ kind: 'timerFired', at: 1 });
  });

  test('drops a __proto__ key', () => {
    const data =
      '{"operation":1,"failure":{"name":"E","message":"m","__proto__":{"bad":1}},"__proto__":{"bad":1}}';
    const event = decodeEvent({ kind: 'activityFailed', at: 1, data, payload: null });
    expect(event).not.toHaveProperty('bad');
    expect(event).toHaveProperty('failure');
    expect((event as { failure: object }).failure).not.toHaveProperty('bad');
  });
});

describe('decodeEvent throws UNDECODABLE when', () => {
  const stored = (kind: string, data: string): StoredEvent => ({
    kind,
    at: 1,
    data,
    payload: null,
  });

  test.each<[string, StoredEvent]>([
    ['its kind is unknown', stored('activityPostponed', '{"operation":1}')],
    ['its kind is that of every object', stored('constructor', '{}')],
    ['its fields are not JSON', stored('timerFired', '{"operation":')],
    ['its fields are empty', stored('timerFired', '')],
    ['its fields are a list', stored('executionCompleted', '[]')],
    ['its fields are null', stored('executionCompleted', 'null')],
    [
      'its time is missing',
      { ...stored('executionCompleted', '{}'), at: null as unknown as number },
    ],
    ['its operation is missing', stored('timerFired', '{}')],
    ['its operation is zero', stored('activityCompleted', '{"operation":0}')],
    ['its operation is text', stored('activityCompleted', '{"operation":"1"}')],
    ['its name is missing', stored('eventReceived', '{}')],
    ['its failure is missing', stored('activityFailed', '{"operation":1}')],
    ['its failure is no failure', stored('executionFailed', '{"failure":{"name":"E"}}')],
    ['its time to fire is text', stored('timerCreated', '{"operation":1,"fireAt":"x"}')],
    ['its child has no id', stored('childScheduled', '{"operation":1,"name":"c","version":null}')],
    ['its version is missing', stored('executionStarted', '{"name":"n"}')],
    [
      'its parent is incomplete',
      stored('executionStarted', '{"name":"n","version":"1","parent":{}}'),
    ],
    [
      'what it carries is no list of events',
      stored('executionStarted', '{"name":"n","version":"1","carried":[{"name":"go"}]}'),
    ],
    [
      'its options are a list',
      stored('activityScheduled', '{"operation":1,"name":"a","options":[]}'),
    ],
    ['its target is missing', stored('operationWithdrawn', '{"reason":"x","targetKind":"timer"}')],
    [
      'it withdraws what cannot be withdrawn',
      stored(
        'operationWithdrawn',
        '{"reason":"x","trigger":"cancel","target":1,"targetKind":"scope"}',
      ),
    ],
    [
      'its trigger is unknown',
      stored('activityCanceled', '{"operation":1,"trigger":"whim","reason":"x"}'),
    ],
    ['its reason is missing', stored('executionCanceled', '{}')],
    ['the actor of a cancel is missing', stored('cancelRequested', '{"reason":"x"}')],
    [
      'its way of being canceled is unknown',
      stored('activityScheduled', '{"operation":1,"name":"a","cancellation":"kill"}'),
    ],
    [
      'the cancel it carries has no reason',
      stored('executionContinuedAsNew', '{"version":"1","cancel":{"actor":null}}'),
    ],
  ])('%s', (_, event) => {
    expect(() => decodeEvent(event)).toThrow(
      expect.objectContaining({
        code: 'UNDECODABLE',
        message: expect.stringContaining(JSON.stringify(event.kind)) as string,
      }),
    );
  });
});
