import { expect, test } from 'vitest';
import { runCrashLoop } from './helpers/crash-loop.ts';

test('killing and pausing workers under load loses, repeats and blocks nothing', async () => {
  const report = await runCrashLoop({ kills: 42, pauses: 6, instances: 1_000 });
  expect(report.violations).toEqual([]);
  expect(report.kills).toBeGreaterThanOrEqual(40);
  expect(report.instances).toBeGreaterThanOrEqual(1_000);
  expect(report.killsOfOpenClaims / report.kills).toBeGreaterThanOrEqual(0.8);
  // Guards against a loop that never hit the cases it tests.
  expect(report.extra.killed).toBeGreaterThan(0);
  expect(report.pauses).toBe(6);
}, 300_000);

test('the crash loop detects a store that does not fence writes', async () => {
  const report = await runCrashLoop({ kills: 2, pauses: 4, instances: 100, fencing: false });
  expect(report.violations.join('\n')).toMatch(/was acked twice|whose lease was lost/);
}, 300_000);
