import { expect, test } from 'vitest';
import { hostProcesses } from '../../src/runtime/leases/host-processes.ts';
import { findViolations, runCrashLoop } from './helpers/crash-loop.ts';

// `npm run crash` runs longer loops.
test('killing and stopping workers while an operator acts under load loses, repeats and blocks nothing', async () => {
  const report = await runCrashLoop({ kills: 22, pauses: 4, actions: 8, instances: 500 });
  expect(report.violations).toEqual([]);
  expect(report.kills).toBeGreaterThanOrEqual(22);
  expect(report.instances).toBeGreaterThanOrEqual(500);
  expect(report.killsOfOpenClaims / report.kills).toBeGreaterThanOrEqual(0.8);
  // Guards against a loop that never hit the cases it tests.
  expect(report.extra.killed).toBeGreaterThan(0);
  expect(Object.values(report.operated).every((changed) => changed > 0)).toBe(true);
  expect(report.takenOver > 0).toBe(hostProcesses() !== undefined);
  expect(report.pauses).toBe(4);
}, 300_000);

test('the crash loop detects a store that does not fence writes', async () => {
  const options = { kills: 2, pauses: 4, instances: 100, fencing: false };
  const violations = await findViolations(/was acked twice|whose lease was lost/, () =>
    runCrashLoop(options),
  );
  expect(violations).not.toEqual([]);
}, 300_000);
