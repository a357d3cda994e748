import { expect, test } from 'vitest';
import { hostProcesses } from '../../src/runtime/leases/host-processes.ts';
import { findViolations, runCrashLoop } from './helpers/crash-loop.ts';
import { createPostgresLoopStore } from './helpers/loop-store.ts';

// `npm run crash` runs longer loops. Two cores run a server and five processes here: a shorter lease would expire without a fault.
const shared = { workers: 4, leaseMs: 3_000, createStore: createPostgresLoopStore } as const;

test('killing and stopping workers while an operator acts on PostgreSQL loses, repeats and blocks nothing', async () => {
  const report = await runCrashLoop({
    ...shared,
    kills: 22,
    pauses: 3,
    actions: 8,
    instances: 500,
  });
  expect(report.violations).toEqual([]);
  expect(report.kills).toBeGreaterThanOrEqual(22);
  expect(report.instances).toBeGreaterThanOrEqual(500);
  expect(report.killsOfOpenClaims / report.kills).toBeGreaterThanOrEqual(0.8);
  // Guards against a loop that never hit the cases it tests.
  expect(report.extra.killed).toBeGreaterThan(0);
  expect(Object.values(report.operated).every((changed) => changed > 0)).toBe(true);
  expect(report.takenOver > 0).toBe(hostProcesses() !== undefined);
  expect(report.pauses).toBe(3);
}, 300_000);

test('restarting PostgreSQL under load loses nothing, and work resumes within 2 s (median)', async () => {
  const report = await runCrashLoop({
    ...shared,
    kills: 0,
    pauses: 0,
    restarts: 3,
    instances: 200,
  });
  expect(report.violations).toEqual([]);
  expect(report.outages).toBe(3);
  expect(report.medianRecoveryMs).toBeLessThan(2_000);
}, 300_000);

test('cutting PostgreSQL connections under load loses, repeats and blocks nothing', async () => {
  const report = await runCrashLoop({
    ...shared,
    kills: 0,
    pauses: 0,
    cuts: 25,
    disturbEveryMs: 150,
    instances: 200,
  });
  expect(report.violations).toEqual([]);
  expect(report.outages).toBe(25);
  // A cut may or may not cause an extra execution, but cuts must hit statements.
  expect(report.cutAnswers).toBeGreaterThan(13);
}, 300_000);

test('the crash loop detects a PostgreSQL store that does not fence writes', async () => {
  const options = {
    ...shared,
    leaseMs: 1_000,
    kills: 2,
    pauses: 4,
    instances: 100,
    fencing: false,
  };
  const violations = await findViolations(/was acked twice|whose lease was lost/, () =>
    runCrashLoop(options),
  );
  expect(violations).not.toEqual([]);
}, 300_000);
