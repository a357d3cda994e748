import { expect, test } from 'vitest';
import { countTests, type VitestReport } from '../../scripts/test-counts.ts';

const green: VitestReport = {
  numPassedTests: 5,
  numFailedTests: 0,
  numPendingTests: 1,
  numTodoTests: 1,
  testResults: [{ status: 'passed', assertionResults: [{ status: 'passed' }] }],
};

test('a green run counts its tests, pending and todo ones as skipped', () => {
  expect(countTests(green, 0)).toEqual({ passed: 5, failed: 0, skipped: 2 });
});

test('a failed test counts once, though its file failed too', () => {
  const testResults = [{ status: 'failed', assertionResults: [{ status: 'failed' }] }];
  expect(countTests({ ...green, numFailedTests: 1, testResults }, 1).failed).toBe(1);
});

test('a file that could not be loaded counts as a failure', () => {
  const testResults = [{ status: 'failed', assertionResults: [] }];
  expect(countTests({ ...green, testResults }, 1).failed).toBe(1);
});

test('a run that failed outside of its tests never reads as 0 failed', () => {
  expect(countTests(green, 1).failed).toBe(1);
  expect(countTests(undefined, 0).failed).toBe(1);
});
