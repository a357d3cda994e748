import { describe, expect, test } from 'vitest';
import { decodeMessage, encodeMessage, type Message, type StoredMessage } from './message.ts';

const failure = { name: 'Error', message: 'm' };
const messages: readonly Message[] = [
  { kind: 'start', name: 'n', version: null, payload: '"in"' },
  {
    kind: 'start',
    name: 'n',
    version: '2',
    payload: null,
    parent: { instanceId: 'p', executionId: 1, operation: 2 },
    carried: [{ name: 'go', payload: '1' }],
    cancel: { reason: 'r', actor: 'jo' },
  },
  { kind: 'activityCompleted', executionId: 1, operation: 2, payload: '5' },
  { kind: 'activityFailed', executionId: 1, operation: 2, failure },
  { kind: 'timerFired', executionId: 3, operation: 4 },
  { kind: 'childCompleted', executionId: 1, operation: 2, payload: null },
  { kind: 'childFailed', executionId: 1, operation: 2, failure },
  {
    kind: 'activityCanceled',
    executionId: 1,
    operation: 2,
    trigger: 'cancel',
    reason: 'r',
    leaked: true,
  },
  { kind: 'childCanceled', executionId: 1, operation: 2, reason: 'r' },
  { kind: 'detachedConfirmed', executionId: 1, operation: 2 },
  { kind: 'detachedFailed', executionId: 1, operation: 2, failure },
  { kind: 'cancel', reason: 'r', actor: null },
  { kind: 'cleanupExpired', reason: 'r' },
  { kind: 'eventRaised', name: 'go', payload: '{"ok":true}' },
  { kind: 'wake' },
  { kind: 'wake', broken: { turnId: 't', failure } },
];

describe('a message', () => {
  test.each(messages)('of kind $kind comes back from a store as it went in', (message) => {
    expect(decodeMessage(encodeMessage(message))).toEqual({
      executionId: null,
      operation: null,
      payload: null,
      ...message,
    });
  });

  test('encodeMessage stores executionId and operation as columns', () => {
    expect(encodeMessage(messages[3]!)).toEqual({
      kind: 'activityFailed',
      executionId: 1,
      operation: 2,
      data: JSON.stringify({ failure }),
      payload: null,
    });
  });
});

describe('decodeMessage throws UNDECODABLE when', () => {
  const stored = (kind: string, data: string, executionId: number | null = 1): StoredMessage => ({
    kind,
    executionId,
    operation: 1,
    data,
    payload: null,
  });

  test.each<[string, StoredMessage]>([
    ['its kind is unknown', stored('postpone', '{}')],
    ['its reason is missing', stored('cancel', '{"actor":null}')],
    ['its trigger is missing', stored('activityCanceled', '{"reason":"x"}')],
    [
      'the cancel it carries is no object',
      stored('start', '{"name":"n","version":null,"cancel":1}'),
    ],
    ['its kind is that of every object', stored('toString', '{}')],
    ['its fields are not JSON', stored('eventRaised', 'go')],
    ['its fields are a list', stored('wake', '[]')],
    ['its event has no name', stored('eventRaised', '{}')],
    ['its orchestration has no name', stored('start', '{"version":null}')],
    ['its version is missing', stored('start', '{"name":"n"}')],
    ['its failure is missing', stored('activityFailed', '{}')],
    ['it says that code broke, but not why', stored('wake', '{"broken":{"executionId":1}}')],
    ['it answers no execution', stored('timerFired', '{}', null)],
    ['it answers no operation', { ...stored('activityCompleted', '{}'), operation: null }],
  ])('%s', (_, message) => {
    expect(() => decodeMessage(message)).toThrow(
      expect.objectContaining({
        code: 'UNDECODABLE',
        message: expect.stringContaining(JSON.stringify(message.kind)) as string,
      }),
    );
  });
});
