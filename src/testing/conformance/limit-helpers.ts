import assert from 'node:assert/strict';
import type {
  LaneRecord,
  LimitOverride,
  Limits,
  LimitsRecord,
  RateLimit,
} from '../../providers/contract/limits.ts';
import type { NewTask } from '../../providers/contract/tasks.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import { expectCommitted, only } from './expectations.ts';
import type { StoreUnderTest } from './store-under-test.ts';
import { createTasks, newTask } from './task-helpers.ts';

/** The definition of the runs that the cases create. */
export const limitedTask = { kind: 'task', name: 'task' } as const;

/** A rate of the whole definition. */
export function rateOf(limit: number, perMs: number, parts: Partial<RateLimit> = {}): RateLimit {
  return { limit, perMs, burst: 0, perKey: false, ...parts };
}

/** Declares the limits of `task`, and returns the result. */
export async function declare({ provider }: StoreUnderTest, limits: Limits, buildId = 'build') {
  const definitions = [{ ...limitedTask, limits }];
  return only(await provider.declareLimits({ buildId, definitions }), 'declaration');
}

/** Sets limits of `task` as an operator. */
export function setLimits(
  { provider }: StoreUnderTest,
  override: LimitOverride | null,
): Promise<LimitsRecord> {
  return provider.setLimits({ ...limitedTask, override });
}

/** The limits of `task`, or `undefined`. */
export async function limitsOf({ provider }: StoreUnderTest): Promise<LimitsRecord | undefined> {
  const { records } = await provider.listLimits({ limit: 10, only: limitedTask });
  return records[0];
}

/** The places in use of `task`. */
export async function runningOf(store: StoreUnderTest): Promise<number> {
  return (await limitsOf(store))?.running ?? 0;
}

/** The lanes of `task` by key. */
export async function lanesOf({ provider }: StoreUnderTest): Promise<readonly LaneRecord[]> {
  const page = { limit: 100, order: 'key' } as const;
  return (await provider.listLanes({ ...limitedTask, ...page })).records;
}

/** A run with a key. Its id begins with the key. */
export function keyed(key: string, number: number, parts: Partial<NewTask> = {}): NewTask {
  return newTask(`${key}${number}`, { lane: { key, weight: 1 }, ...parts });
}

/** Creates runs of one key, numbered from 1. */
export function createKeyed(
  store: StoreUnderTest,
  key: string,
  count: number,
  parts: Partial<NewTask> = {},
): Promise<void> {
  const tasks = Array.from({ length: count }, (_, index) => keyed(key, index + 1, parts));
  return createTasks(store, tasks);
}

/** Creates runs without a key, numbered from 1. */
export function createPlain(
  store: StoreUnderTest,
  count: number,
  parts: Partial<NewTask> = {},
): Promise<void> {
  const tasks = Array.from({ length: count }, (_, index) => newTask(`run${index + 1}`, parts));
  return createTasks(store, tasks);
}

/** Acks items as completed. */
export async function complete(store: StoreUnderTest, items: readonly WorkItem[]): Promise<void> {
  for (const { lockToken } of items) expectCommitted(await store.ackWork(lockToken));
}

/** How many claimed items each key has, by the first letter of their ids. */
export function countByKey(items: readonly WorkItem[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { instanceId } of items) {
    const key = instanceId.slice(0, 1);
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}

/** Claims, and expects this many items. */
export async function claimExactly(
  store: StoreUnderTest,
  count: number,
  max = 1_000,
): Promise<readonly WorkItem[]> {
  const items = await store.claimWork({ max });
  assert.equal(items.length, count, `expected ${count} claimed items, got ${items.length}`);
  return items;
}
