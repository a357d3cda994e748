import assert from 'node:assert/strict';
import type { ConformanceCase } from '../../../src/testing/conformance/conformance-case.ts';
import { type StoreUnderTest, lockMs } from '../../../src/testing/conformance/store-under-test.ts';
import {
  createTasks,
  expectStatus,
  idsOf,
  newTask,
  startTask,
} from '../../../src/testing/conformance/task-helpers.ts';
import type { FencedStatement } from './fence.ts';

/** A case whose last claim follows a claim that found work, because only then the single statement is used. */
function busy(id: string, run: (store: StoreUnderTest) => Promise<void>): ConformanceCase {
  return { id, title: id, run };
}

/** Claims and acks a run, so that the next claim of the same kind uses the single statement. */
async function keepBusy(store: StoreUnderTest): Promise<void> {
  const { lockToken } = await startTask(store, 'first');
  await store.ackWork(lockToken);
}

const flagged = busy('a flagged run is claimed before all others', async (store) => {
  const held = await startTask(store, 'flagged', {}, { lockMs: 10 });
  await store.cancel('flagged');
  await createTasks(store, [newTask('other')]);
  await keepBusyBeside(store);
  await store.clock.advance(20);
  const [item] = await store.claimWork({ max: 1 });
  assert.equal(item?.instanceId, held.instanceId);
});

/** Like `keepBusy`, but while another run is due: the new run has a higher priority. */
async function keepBusyBeside(store: StoreUnderTest): Promise<void> {
  await createTasks(store, [newTask('urgent', { priority: 100 })]);
  const { lockToken, instanceId } = (await store.claimWork({ max: 1 }))[0] ?? assert.fail();
  assert.equal(instanceId, 'urgent');
  await store.ackWork(lockToken);
}

const expired = busy('a run that is not started by its deadline expires', async (store) => {
  await createTasks(store, [
    newTask('late', { expiresAt: store.clock.now() + 10 }),
    newTask('other'),
  ]);
  await keepBusyBeside(store);
  await store.clock.advance(20);
  assert.deepEqual(idsOf(await store.claimWork()), ['other']);
  await expectStatus(store, 'late', 'expired');
});

const suspect = busy('a suspect that waits for minutes is claimed first', async (store) => {
  await createTasks(store, [newTask('suspect')]);
  for (let claims = 0; claims < 2; claims += 1) {
    await store.claimWorkOne({ lockMs: 10 });
    await store.clock.advance(20);
  }
  await store.clock.advance(400_000);
  await createTasks(store, [newTask('other')]);
  assert.deepEqual(idsOf(await store.claimWork()), ['suspect']);
});

const lapsed = busy('a run is due again from the end of its expired lease', async (store) => {
  await startTask(store, 'lapsed', {}, { lockMs: 10 });
  await store.clock.advance(5);
  await createTasks(store, [newTask('older')]);
  await store.clock.advance(15);
  await createTasks(store, [newTask('newer')]);
  await keepBusyBeside(store);
  const claimed: (string | undefined)[] = [];
  for (let count = 0; count < 3; count += 1) {
    claimed.push(idsOf(await store.claimWork({ max: 1 }))[0]);
  }
  assert.deepEqual(claimed, ['older', 'lapsed', 'newer']);
});

const held = busy('a held run is not claimed again', async (store) => {
  await startTask(store, 'held');
  assert.deepEqual(await store.claimWork(), []);
});

const delayed = busy('a delayed run is not claimed early', async (store) => {
  await keepBusy(store);
  await createTasks(store, [newTask('later', { runAt: store.clock.now() + lockMs })]);
  assert.deepEqual(await store.claimWork(), []);
});

const named = busy('a claim returns only runs of the named tasks', async (store) => {
  await startTask(store, 'held', {}, { names: [], tasks: ['task'] });
  await createTasks(store, [newTask('other', { name: 'other' })]);
  assert.deepEqual(await store.claimWork({ names: [], tasks: ['task'] }), []);
});

const limited = busy('a claim returns at most max runs', async (store) => {
  await createTasks(store, [newTask('a'), newTask('b', { name: 'other' })]);
  await keepBusyBeside(store);
  assert.equal((await store.claimWork({ max: 1 })).length, 1);
});

/** Claims of work items from a busy queue. */
export const claimFences: FencedStatement = {
  name: 'perdure_claim_plainly',
  sentBy: held,
  fences: [
    {
      demands: 'no flagged item is due',
      find: /\(SELECT 1 FROM \S+ WHERE cancel_requested (?:(?!ORDER BY next_at LIMIT 1).)+ORDER BY next_at LIMIT 1\) IS NULL/,
      replace: 'TRUE',
      rejectedBy: flagged,
    },
    {
      demands: 'no run has expired',
      find: /\(SELECT 1 FROM \S+ WHERE expires_at <= (?:(?!ORDER BY expires_at LIMIT 1).)+ORDER BY expires_at LIMIT 1\) IS NULL/,
      replace: 'TRUE',
      rejectedBy: expired,
    },
    {
      demands: 'no suspect is due',
      find: /\(SELECT 1 FROM claimable AS wanted(?:(?!AS found LIMIT 1).)+AS found LIMIT 1\) IS NULL/,
      replace: 'TRUE',
      rejectedBy: suspect,
    },
    {
      demands: 'all three conditions',
      find: / WHERE holds/,
      replace: '',
      rejectedBy: expired,
    },
    {
      demands: 'no lease has expired',
      find: /\(SELECT 1 FROM due WHERE lapsed LIMIT 1\) IS NULL/,
      replace: 'TRUE',
      rejectedBy: lapsed,
    },
    {
      // An item that is held would also count as one whose lease has expired.
      demands: 'no worker holds the item',
      find: /\(SELECT 1 FROM due WHERE lapsed LIMIT 1\) IS NULL|\(locked_until > (?:(?!IS NOT TRUE).)+IS NOT TRUE(?= AND NOT cancel_requested AND lane IS NULL\s+ORDER BY next_at, item_key)/,
      times: 2,
      replace: 'TRUE',
      rejectedBy: held,
    },
    {
      demands: 'the item is due',
      find: /(?<=item\.priority = level\.priority\s+AND )next_at <= (?:(?! AND \(locked_until).)+/,
      replace: 'TRUE',
      rejectedBy: delayed,
    },
    {
      demands: 'a requested definition',
      find: /item\.definition_key = wanted_key(?= AND suspect = FALSE AND item\.priority = level\.priority\s+AND next_at <=)/,
      replace: 'TRUE',
      rejectedBy: named,
    },
    {
      demands: 'the limit',
      find: /(?<="nextAt", "itemKey") LIMIT \$5::bigint/,
      replace: '',
      rejectedBy: limited,
    },
  ],
  selections: [
    {
      find: /\(SELECT definition_key AS wanted_key(?:(?!\), clear AS).)+\), clear AS/,
      because: 'finds the definitions by their names',
    },
    {
      find: /WITH RECURSIVE level(?:(?!level\.priority IS NOT NULL\)).)+level\.priority IS NOT NULL\)/,
      times: 2,
      because: 'finds the priorities',
    },
    {
      find: /(?<=WHERE item\.definition_key = wanted_key AND )suspect = FALSE AND item\.priority = level\.priority/,
      because: 'is the range of the index; suspects that are due end the path before',
    },
    {
      find: /NOT cancel_requested AND lane IS NULL(?=\s+ORDER BY next_at, item_key)/,
      because:
        'is the predicate of the index; flagged items that are due end the path before, and definitions of items with lanes are not wanted',
    },
    { find: /"isTask"(?=\)\) THEN)/, because: 'decides which secret an item gets' },
    { find: /ctid = ANY \(ARRAY\(SELECT row_id FROM chosen\)\)/, because: 'names what was chosen' },
    {
      find: /instance_key = ANY \(ARRAY\(SELECT instance_key FROM claimed\)\)/,
      because: 'reads the instances',
    },
    { find: /owner_key = instance_key/, because: 'joins the instance' },
  ],
};
