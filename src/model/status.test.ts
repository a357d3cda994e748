import { expect, test } from 'vitest';
import { instanceStatuses, isTerminal } from './status.ts';

test('six of the states of an instance are never left again', () => {
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

test('an execution that continued as new is not the end of its instance', () => {
  expect(isTerminal('continuedAsNew')).toBe(false);
});
