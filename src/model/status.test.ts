import { expect, test } from 'vitest';
import { instanceStatuses, isTerminal } from './status.ts';

test('isTerminal is true for six statuses of an instance', () => {
  expect(instanceStatuses.filter(isTerminal)).toEqual([
    'completed',
    'failed',
    'canceled',
    'terminated',
    'skipped',
    'expired',
  ]);
  expect(instanceStatuses).toHaveLength(9);
});

test('continuedAsNew is not a terminal status', () => {
  expect(isTerminal('continuedAsNew')).toBe(false);
});
