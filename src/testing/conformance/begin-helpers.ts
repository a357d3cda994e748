import type { Limits } from '../../providers/contract/limits.ts';
import type { OrchestrationItem } from '../../providers/contract/orchestration-queue.ts';
import { only } from './expectations.ts';
import { event } from './sample-data.ts';
import type { StoreUnderTest } from './store-under-test.ts';

export const sample = { kind: 'orchestration', name: 'sample' } as const;

export async function limit({ provider }: StoreUnderTest, limits: Limits): Promise<void> {
  await provider.declareLimits({ buildId: 'b1', definitions: [{ ...sample, limits }] });
}

export const ofKey = (key: string, weight = 1) => ({ lane: { key, weight } });

export async function createAll(store: StoreUnderTest, ids: readonly string[], key?: string) {
  for (const id of ids) await store.create(id, key === undefined ? {} : ofKey(key));
}

/** Claims, and commits a first turn of each, after which the instances wait for events. */
export async function beginAll(store: StoreUnderTest): Promise<readonly string[]> {
  const items = await store.claim();
  for (const item of items) await store.commit(item, { events: [event('begun')] });
  return ids(items);
}

export function ids(items: readonly OrchestrationItem[]): readonly string[] {
  return items.map(({ instanceId }) => instanceId);
}

/** Ends a begun instance by its next turn. */
export async function end(store: StoreUnderTest, instanceId: string): Promise<void> {
  await store.raise(instanceId, 'end');
  const items = await store.claim();
  const item = only(
    items.filter((one) => one.instanceId === instanceId),
    'claim of the instance to end',
  );
  await store.commit(item, { outcome: { status: 'completed', payload: null } });
  for (const other of items) {
    if (other !== item) await store.commit(other, { events: [event('begun')] });
  }
}

export async function running({ provider }: StoreUnderTest): Promise<number> {
  const { records } = await provider.listLimits({ limit: 10, only: sample });
  return only(records, 'limited definition').running;
}
