import { expect, test } from 'vitest';
import { runCrashLoop } from './crash-loop.ts';
import { createPostgresLoopStore } from './loop-store.ts';

// Two cores carry a server and five processes here: a shorter lease would end without anybody's fault.
const shared = { workers: 4, leaseMs: 3_000, createStore: createPostgresLoopStore } as const;

test('nothing is lost, repeated without cause, or stuck on PostgreSQL when workers are killed and paused under load', async () => {
  const report = await runCrashLoop({ ...shared, kills: 42, pauses: 4, instances: 1_000 });
  expect(report.violations).toEqual([]);
  expect(report.kills).toBeGreaterThanOrEqual(40);
  expect(report.instances).toBeGreaterThanOrEqual(1_000);
  expect(report.killsOfOpenClaims / report.kills).toBeGreaterThanOrEqual(0.8);
  // Without these the loop would not have tried what it is for.
  expect(report.extra.killed).toBeGreaterThan(0);
  expect(report.pauses).toBe(4);
}, 300_000);

test('nothing is lost, repeated without cause, or stuck when the server is restarted under load, and work goes on within 2 s of its return', async () => {
  const report = await runCrashLoop({
    ...shared,
    kills: 0,
    pauses: 0,
    restarts: 12,
    instances: 300,
  });
  expect(report.violations).toEqual([]);
  expect(report.outages).toBe(12);
  expect(report.medianRecoveryMs).toBeLessThan(2_000);
}, 300_000);

test('nothing is lost, repeated without cause, or stuck when connections are cut under load', async () => {
  const report = await runCrashLoop({
    ...shared,
    kills: 0,
    pauses: 0,
    cuts: 100,
    disturbEveryMs: 150,
    instances: 200,
  });
  expect(report.violations).toEqual([]);
  expect(report.outages).toBe(100);
  // Whether a cut leads to an extra execution is a matter of luck; that it hits a statement is what it is for.
  expect(report.cutAnswers).toBeGreaterThan(20);
}, 300_000);

test('the same loop finds violations on PostgreSQL when writes are not fenced', async () => {
  const report = await runCrashLoop({
    ...shared,
    leaseMs: 1_000,
    kills: 2,
    pauses: 4,
    instances: 100,
    fencing: false,
  });
  expect(report.violations.join('\n')).toMatch(/was acked twice|whose lease was lost/);
}, 300_000);
