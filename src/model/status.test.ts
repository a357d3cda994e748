import { expect, test } from 'vitest';
import { instanceStatuses, isTerminal } from './status.ts';

test('four of the states of an instance are never left again', () => {
  expect(instanceStatuses.filter(isTerminal)).toEqual([
    'completed',
    'failed',
    'canceled',
    'terminated',
  ]);
  expect(instanceStatuses).toHaveLength(7);
});

test('an execution that continued as new is not the end of its instance', () => {
  expect(isTerminal('continuedAsNew')).toBe(false);
});
