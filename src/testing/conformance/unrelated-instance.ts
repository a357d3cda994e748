import assert from 'node:assert/strict';
import { event, version, workItem } from './sample-data.ts';
import { expectCommitted, only } from './expectations.ts';
import { labels, type StoreUnderTest } from './store-under-test.ts';

const name = 'unrelated instance';
const yearMs = 365 * 86_400_000;

/**
 * Creates an unrelated instance with a history, a claimed work item and a timer in a year. A case cannot claim them.
 * Returns a check for the end of the case: the instance must not have changed.
 */
export async function createUnrelatedInstance(store: StoreUnderTest): Promise<() => Promise<void>> {
  const fireAt = store.clock.now() + yearMs;
  const begun = await store.begin(
    name,
    {
      events: [event('kept'), event('kept too')],
      workItems: [workItem(1, { claimMs: 2 * yearMs })],
      timers: [{ operation: 2, fireAt }],
      customStatus: '"kept"',
    },
    { name },
  );
  const { lockToken } = only(begun.claimed, 'held work item');
  const before = await store.snapshotOf(await store.record(name));
  return async () => {
    assert.deepEqual(
      await store.snapshotOf(await store.record(name)),
      before,
      'unrelated instance changed',
    );
    const renewed = await store.provider.renewWorkItemLocks([{ lockToken }], 2 * yearMs);
    assert.deepEqual(
      renewed,
      [{ held: true, cancel: null }],
      'unrelated instance lost its work item',
    );
    await store.clock.advanceTo(fireAt);
    // The claim also returns instances that the case left canceling, because their clean-up limit has passed.
    const items = await store.claim({ runnable: [{ name, version }] });
    const item = only(
      items.filter(({ instanceId }) => instanceId === name),
      'claim of the unrelated instance',
    );
    assert.deepEqual(labels(item), ['timerFired 2']);
    expectCommitted(await store.ackWork(lockToken));
  };
}
