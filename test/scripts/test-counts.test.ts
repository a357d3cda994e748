import { expect, test } from 'vitest';
import { countTests, type VitestReport } from '../../scripts/test-counts.ts';

const green: VitestReport = {
  numPassedTests: 5,
  numFailedTests: 0,
  numPendingTests: 1,
  numTodoTests: 1,
  testResults: [{ status: 'passed', assertionResults: [{ status: 'passed' }] }],
};

test('countTests() counts pending and todo tests as skipped', () => {
  expect(countTests(green, 0)).toEqual({ passed: 5, failed: 0, skipped: 2 });
});

test('countTests() counts a failed test once, not also its file', () => {
  const testResults = [{ status: 'failed', assertionResults: [{ status: 'failed' }] }];
  expect(countTests({ ...green, numFailedTests: 1, testResults }, 1).failed).toBe(1);
});

test('countTests() counts a file that could not be loaded as one failure', () => {
  const testResults = [{ status: 'failed', assertionResults: [] }];
  expect(countTests({ ...green, testResults }, 1).failed).toBe(1);
});

test('countTests() never returns 0 failed for a run that failed outside its tests', () => {
  expect(countTests(green, 1).failed).toBe(1);
  expect(countTests(undefined, 0).failed).toBe(1);
});
