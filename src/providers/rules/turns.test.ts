import { describe, expect, it } from 'vitest';
import type { NewWorkItem, Turn } from '../contract/turn.ts';
import type { TurnAck } from '../contract/work-queue.ts';
import {
  fenceBreach,
  fenceMessagesUntil,
  isScheduledTooLate,
  turnError,
  type FenceBreach,
  type FencedRows,
} from './turns.ts';

const ack: TurnAck = {
  instanceKey: 7,
  incarnation: 'i1',
  executionId: 2,
  lastTurn: 'turn-4',
  lockTokens: ['1.a', '2.b'],
  turn: undefined as never,
};
const instance = {
  status: 'running',
  incarnation: 'i1',
  executionId: 2,
  lastTurn: 'turn-4',
} as const;
const item = { instanceKey: 7, executionId: 2, cancelRequested: false } as const;
const rows: FencedRows = {
  instance,
  isPaused: false,
  isClaimed: false,
  hasVisible: false,
  visible: [],
  items: [item, item],
};
const timer = (operation: number, executionId = 2) =>
  ({ kind: 'timerFired', executionId, operation, data: '{}', payload: null }) as const;

const breaches: readonly [
  string,
  FenceBreach | undefined,
  Partial<FencedRows>,
  Partial<TurnAck>?,
][] = [
  ['unchanged rows', undefined, {}],
  ['a cancel flag of 0', undefined, { items: [{ ...item, cancelRequested: 0 }] }],
  ['no items', undefined, { items: [] }],
  ['fired timers', undefined, { visible: [timer(3)] }, { timers: [3] }],
  [
    'fired timers and a later message',
    undefined,
    { visible: [timer(3)], hasVisible: true },
    { timers: [3] },
  ],
  ['a paused instance or definition', 'paused', { isPaused: true }],
  ['a deleted instance', 'instance', { instance: undefined }],
  ['a canceling instance', 'instance', { instance: { ...instance, status: 'canceling' } }],
  ['an ended instance', 'instance', { instance: { ...instance, status: 'completed' } }],
  ['another incarnation', 'instance', { instance: { ...instance, incarnation: 'i2' } }],
  ['a later execution', 'instance', { instance: { ...instance, executionId: 3 } }],
  ['a later turn', 'instance', { instance: { ...instance, lastTurn: 'turn-5' } }],
  ['an instance without a turn', 'instance', { instance: { ...instance, lastTurn: null } }],
  ['a claim on the instance', 'claim', { isClaimed: true }],
  ['a visible message', 'messages', { hasVisible: true }],
  ['a timer that is not due', 'messages', { visible: [] }, { timers: [3] }],
  ['another fired timer', 'messages', { visible: [timer(4)] }, { timers: [3] }],
  ['an additional timer', 'messages', { visible: [timer(3), timer(4)] }, { timers: [3] }],
  ['a timer of another execution', 'messages', { visible: [timer(3, 1)] }, { timers: [3] }],
  ['a token that holds nothing', 'items', { items: [item, undefined] }],
  ['an item of another instance', 'items', { items: [{ ...item, instanceKey: 8 }] }],
  ['an item of another execution', 'items', { items: [{ ...item, executionId: 1 }] }],
  ['a flagged item', 'items', { items: [{ ...item, cancelRequested: true }] }],
  ['a cancel flag of 1', 'items', { items: [{ ...item, cancelRequested: 1 }] }],
];

describe('the fence of a turn', () => {
  it.each(breaches)('%s: %s', (_, breach, changed, asked = {}) => {
    expect(fenceBreach({ ...ack, ...asked }, { ...rows, ...changed })).toBe(breach);
  });

  it('checks messages until asOfMs for a turn with timers, and never ahead of the clock', () => {
    expect(fenceMessagesUntil(ack, 100)).toBe(100);
    expect(fenceMessagesUntil({ ...ack, asOfMs: 50 }, 100)).toBe(100);
    expect(fenceMessagesUntil({ ...ack, timers: [1], asOfMs: 50 }, 100)).toBe(50);
    expect(fenceMessagesUntil({ ...ack, timers: [1], asOfMs: 200 }, 100)).toBe(100);
    expect(fenceMessagesUntil({ ...ack, timers: [1] }, 100)).toBe(100);
  });
});

describe('turnError', () => {
  const turn = { events: [{}], firstEventId: 4 } as unknown as Turn;

  it('accepts a turn that continues the history of a live instance', () => {
    expect(turnError({ status: 'canceling', historyLength: 3 }, turn, 'ackTurns')).toBe(undefined);
    const empty = { ...turn, events: [], firstEventId: 9 };
    expect(turnError({ status: 'running', historyLength: 3 }, empty, 'ackTurns')).toBe(undefined);
  });

  it('rejects a turn of an ended instance, or with a gap before its events', () => {
    const ended = turnError({ status: 'failed', historyLength: 3 }, turn, 'ackTurns');
    expect(ended).toMatchObject({ code: 'PROVIDER', retryable: false });
    const gap = turnError({ status: 'running', historyLength: 2 }, turn, 'ackTurns');
    expect(gap).toMatchObject({ code: 'PROVIDER', retryable: false });
  });
});

it.each([
  ['canceling', {}, true],
  ['canceling', { shielded: true }, false],
  ['canceling', { cancellation: 'abandon' }, false],
  ['running', {}, false],
] as const)('isScheduledTooLate of a %s instance with %j: %j', (status, work, expected) => {
  const activity = { cancellation: 'request', ...work } as NewWorkItem;
  expect(isScheduledTooLate({ status }, activity)).toBe(expected);
});
