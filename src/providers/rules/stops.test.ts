import { describe, expect, it } from 'vitest';
import { instanceStatuses } from '../../model/status.ts';
import {
  planCancel,
  planItemCancel,
  planTerminate,
  type CancelableItem,
  type CancelScope,
  type ItemCancelPlan,
} from './stops.ts';

const ended = instanceStatuses.filter(
  (status) => !['pending', 'running', 'canceling'].includes(status),
);

describe('planCancel', () => {
  it('ends a pending orchestration, asks a running one, and leaves the others', () => {
    expect(planCancel({ status: 'pending', isTask: 0 })).toBe('end');
    expect(planCancel({ status: 'running', isTask: false })).toBe('request');
    expect(planCancel({ status: 'canceling', isTask: false })).toBe('none');
    for (const status of ended) expect(planCancel({ status, isTask: false })).toBe('none');
  });

  it('cancels the item of a task run, pending or running', () => {
    expect(planCancel({ status: 'pending', isTask: 1 })).toBe('cancelRun');
    expect(planCancel({ status: 'running', isTask: true })).toBe('cancelRun');
    expect(planCancel({ status: 'canceling', isTask: true })).toBe('none');
  });
});

it('planTerminate ends live instances, and cancels the items of those that are closing', () => {
  for (const status of ['pending', 'running', 'canceling'] as const) {
    expect(planTerminate({ status, closingReason: null })).toBe('end');
  }
  expect(planTerminate({ status: 'canceling', closingReason: 'why' })).toBe('cancelItems');
  for (const status of ended) expect(planTerminate({ status, closingReason: null })).toBe('none');
});

describe('planItemCancel', () => {
  const queued: CancelableItem = {
    lockToken: null,
    lockedUntil: null,
    cancellation: 'request',
    shielded: 0,
    pointOfNoReturn: 0,
    cancelRequested: 0,
    cancelRequestedAt: null,
  };
  const held = { ...queued, lockToken: 'a', lockedUntil: 101 };
  const past = { ...held, pointOfNoReturn: 1 } as const;
  const plans: readonly [string, CancelableItem, Readonly<Record<CancelScope, ItemCancelPlan>>][] =
    [
      ['queued', queued, every('remove')],
      ['with an expired lease', { ...held, lockedUntil: 100 }, every('remove')],
      ['held', held, every('flag')],
      ['abandoned', { ...held, cancellation: 'abandon' }, every('ignore')],
      ['abandoned and queued', { ...queued, cancellation: 'abandon' }, every('ignore')],
      ['shielded', { ...held, shielded: true }, { ...every('flag'), request: 'ignore' }],
      [
        'shielded and queued',
        { ...queued, shielded: 1 },
        { ...every('remove'), request: 'ignore' },
      ],
      ['flagged', { ...held, cancelRequested: 1, cancelRequestedAt: 90 }, every('keep')],
      ['past its point of no return', past, { ...every('record'), terminate: 'flag' }],
      [
        'past its point of no return, between attempts',
        { ...queued, pointOfNoReturn: true },
        { ...every('record'), terminate: 'remove' },
      ],
      [
        'past its point of no return, asked before',
        { ...past, cancelRequestedAt: 90 },
        { ...every('keep'), terminate: 'flag' },
      ],
    ];

  it.each(plans)('of an item %s', (_, item, expected) => {
    for (const scope of ['operation', 'request', 'end', 'terminate'] as const) {
      expect([scope, planItemCancel(item, scope, 100)]).toEqual([scope, expected[scope]]);
    }
  });
});

function every(plan: ItemCancelPlan): Record<CancelScope, ItemCancelPlan> {
  return { operation: plan, request: plan, end: plan, terminate: plan };
}
