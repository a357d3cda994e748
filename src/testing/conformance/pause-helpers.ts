import assert from 'node:assert/strict';
import type { PauseResult } from '../../providers/contract/pausing.ts';
import { only } from './expectations.ts';
import type { StoreUnderTest } from './store-under-test.ts';

/** The reason and the actor of the pauses. */
export const by = { reason: 'maintenance', actor: 'ops' };

/** Pauses one instance. */
export async function pause(
  { provider }: StoreUnderTest,
  instanceId: string,
  parts: { readonly tree?: boolean; readonly reason?: string } = {},
): Promise<PauseResult> {
  return only(
    await provider.pauseInstances([{ instanceId, ...by, tree: false, ...parts }]),
    'result',
  );
}

/** Resumes one instance. */
export async function resume(
  { provider }: StoreUnderTest,
  instanceId: string,
  tree = false,
): Promise<PauseResult> {
  return only(await provider.resumeInstances([{ instanceId, tree }]), 'result');
}

/** Expects that no instance and no work item can be claimed now. */
export async function expectNothingClaimable(store: StoreUnderTest): Promise<void> {
  assert.deepEqual([await store.claim(), await store.claimWork()], [[], []]);
}

/** The pause of an instance, or `null`. */
export async function pausedOf(store: StoreUnderTest, instanceId: string) {
  return (await store.record(instanceId)).paused;
}
