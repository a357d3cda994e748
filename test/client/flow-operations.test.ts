import { expect, it } from 'vitest';
import { flowEventOf, stepOfActivity } from '../../src/client/explaining/flow-operations.ts';
import { activityNames, itemsEvent, signalEvent } from '../../src/flows/definition/graph.ts';

it('stepOfActivity() finds the step in every name that the interpreter of flows uses', () => {
  const { onFail, ...ofSteps } = activityNames;
  for (const name of Object.values(ofSteps)) {
    expect(stepOfActivity('a/b$map', name('a/b$map', 'ship it'))).toBe('ship it');
  }
  expect(stepOfActivity('order', onFail('order'))).toBeUndefined();
  expect(stepOfActivity('order', 'orders/ship')).toBeUndefined();
  expect(stepOfActivity('order', 'charge')).toBeUndefined();
});

it('flowEventOf() finds the signal or the step in the name of an event', () => {
  expect(flowEventOf(signalEvent('approved/late\n'))).toEqual({ signal: 'approved/late\n' });
  expect(flowEventOf(itemsEvent('pages'))).toEqual({ step: 'pages' });
  expect(flowEventOf('approved')).toEqual({});
});
