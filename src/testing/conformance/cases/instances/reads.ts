import assert from 'node:assert/strict';
import type {
  InstanceConditions,
  ListInstancesResult,
} from '../../../../providers/contract/instances.ts';
import type { Capability } from '../../conformance-case.ts';
import { runExecutions } from '../../deletion-helpers.ts';
import { child, event, newInstance, workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { createTasks, newTask } from '../../task-helpers.ts';

async function list(store: StoreUnderTest, filter: InstanceConditions): Promise<readonly string[]> {
  const { instances: records } = await store.provider.listInstances({ filter, limit: 100 });
  return records.map(({ instanceId }) => instanceId);
}

const largeOutput = JSON.stringify('x'.repeat(98));

/** Creates four instances with an output of 100 bytes each. Returns their ids, oldest first. */
async function storeLarge(store: StoreUnderTest): Promise<readonly string[]> {
  const ids = ['i0', 'i1', 'i2', 'i3'];
  for (const id of ids) {
    await store.begin(id, { outcome: { status: 'completed', payload: largeOutput } });
  }
  return ids;
}

export const reads: Capability = {
  title: 'reads',
  cases: [
    {
      id: 'read/instances-come-in-the-order-asked',
      title: 'getInstances() returns records in the requested order, undefined for unknown ids',
      async run(store) {
        for (const id of ['a', 'b', 'c']) await store.create(id);
        const records = await store.provider.getInstances(['c', 'nobody', 'a', 'c']);
        assert.deepEqual(
          records.map((record) => record?.instanceId),
          ['c', undefined, 'a', 'c'],
        );
      },
    },
    {
      id: 'read/list-is-newest-first',
      title: 'listInstances() returns the records of getInstances(), newest first',
      async run(store) {
        for (const id of ['a', 'b', 'c']) {
          await store.create(id);
          await store.clock.advance(1);
        }
        const { instances: records } = await store.provider.listInstances({
          filter: {},
          limit: 100,
        });
        assert.deepEqual(
          records.map(({ instanceId }) => instanceId),
          ['c', 'b', 'a'],
        );
        assert.deepEqual(records, await store.provider.getInstances(['c', 'b', 'a']));
      },
    },
    {
      id: 'read/list-pages-have-no-gaps-or-repeats',
      title: 'listInstances() pages contain each instance once while new ones are created',
      async run(store) {
        const ids = Array.from({ length: 23 }, (_, index) => `i${index}`);
        await store.provider.createInstances(ids.map((id) => newInstance(id)));
        const seen: string[] = [];
        let beforeKey: number | undefined;
        for (let page = 0; page < 10; page++) {
          const { instances: records } = await store.provider.listInstances({
            filter: {},
            limit: 5,
            ...(beforeKey !== undefined && { beforeKey }),
          });
          seen.push(...records.map(({ instanceId }) => instanceId));
          beforeKey = records.at(-1)?.instanceKey;
          if (records.length < 5) break;
          await store.create(`new ${page}`);
        }
        assert.deepEqual(seen, ids.toReversed());
      },
    },
    {
      id: 'read/instances-end-at-their-bytes',
      title: 'getInstances() with maxBytes stops before the limit but returns at least one record',
      async run(store) {
        const ids = await storeLarge(store);
        const within = async (maxBytes: number, asked: readonly string[] = ids) =>
          (await store.provider.getInstances(asked, maxBytes)).map((record) => record?.instanceId);
        assert.deepEqual(await within(1_000_000), ids);
        assert.deepEqual(await within(250), ids.slice(0, 2));
        assert.deepEqual(await within(1), ids.slice(0, 1));
        assert.deepEqual(await within(250, ['nobody', ...ids]), [undefined, ...ids.slice(0, 2)]);
        const [record] = await store.provider.getInstances(ids, 1);
        assert.equal(record?.output, largeOutput);
      },
    },
    {
      id: 'read/list-leaves-payloads-out',
      title: 'listInstances() with payloads: false omits outputs, custom statuses and inputs',
      async run(store) {
        await storeLarge(store);
        await createTasks(store, [newTask('t')]);
        const { instances: records } = await store.provider.listInstances({
          filter: {},
          limit: 10,
          payloads: false,
        });
        assert.deepEqual(
          records.map(({ instanceId, output, customStatus, task }) => [
            instanceId,
            output,
            customStatus,
            task?.input,
          ]),
          [
            ['t', null, null, null],
            ...['i3', 'i2', 'i1', 'i0'].map((id) => [id, null, null, undefined]),
          ],
        );
      },
    },
    {
      id: 'read/list-ends-at-its-bytes',
      title: 'listInstances() with maxBytes ends before the first oversized record',
      async run(store) {
        const ids = (await storeLarge(store)).toReversed();
        const within = async (maxBytes: number, beforeKey?: number) =>
          store.provider.listInstances({
            filter: {},
            limit: 10,
            maxBytes,
            ...(beforeKey !== undefined && { beforeKey }),
          });
        const show = ({ instances, nextKey }: ListInstancesResult) => [
          instances.map(({ instanceId, output }) => [instanceId, output]),
          nextKey === null,
        ];
        const [first = '', second = '', third = '', last = ''] = ids;
        const page = await within(250);
        const head = [first, second].map((id) => [id, largeOutput]);
        assert.deepEqual(show(page), [head, false]);
        // The first record of a page is always returned, even if it alone exceeds the limit.
        assert.deepEqual(show(await within(1)), [[[first, largeOutput]], false]);
        const rest = await within(250, page.nextKey ?? 0);
        assert.deepEqual(show(rest), [[third, last].map((id) => [id, largeOutput]), true]);
        assert.equal((await within(1_000_000)).instances.length, 4);
        const summaries = { filter: {}, limit: 10, maxBytes: 1, payloads: false };
        assert.equal((await store.provider.listInstances(summaries)).instances.length, 4);
      },
    },
    {
      id: 'read/history-ends-at-its-bytes',
      title: 'readInstanceHistory() with maxBytes ends with the first oversized event, withheld',
      async run(store) {
        const events = ['one', 'two', 'three'].map((text) => ({
          ...event(text),
          payload: JSON.stringify('x'.repeat(98)),
        }));
        await store.begin('a', { events });
        const read = (after: number, maxBytes: number) =>
          store.provider.readInstanceHistory({
            instanceId: 'a',
            executionId: 1,
            after,
            limit: 10,
            maxBytes,
          });
        const [one, two, three] = await read(0, 1_000_000);
        assert.deepEqual([one, two, three], events);
        const cut = (whole: typeof two) => ({ ...whole, data: '', payload: null, withheld: true });
        assert.deepEqual(await read(0, 250), [one, two, cut(three)]);
        assert.deepEqual(await read(0, 1), [one, cut(two)]);
        assert.deepEqual(await read(2, 1), [three]);
        assert.deepEqual(await read(3, 1), []);
      },
    },
    {
      id: 'read/list-filters-by-status',
      title: 'listInstances() filters by one or several statuses',
      async run(store) {
        await store.begin('done', { outcome: { status: 'completed', payload: null } });
        await store.begin('broken', { outcome: { status: 'failed', failure: '{}' } });
        await store.begin('busy');
        await store.create('new');
        assert.deepEqual(await list(store, { status: ['pending'] }), ['new']);
        assert.deepEqual(await list(store, { status: ['running'] }), ['busy']);
        assert.deepEqual(await list(store, { status: ['completed'] }), ['done']);
        assert.deepEqual(await list(store, { status: ['failed', 'completed'] }), [
          'broken',
          'done',
        ]);
        assert.deepEqual(await list(store, { status: ['canceled', 'terminated'] }), []);
      },
    },
    {
      id: 'read/list-filters-by-name',
      title: 'listInstances() filters by exact orchestration name, across versions',
      async run(store) {
        await store.create('a', { name: 'order', version: '1' });
        await store.create('b', { name: 'orders' });
        await store.create('c', { name: 'order', version: '2' });
        assert.deepEqual(await list(store, { names: ['order'] }), ['c', 'a']);
        assert.deepEqual(await list(store, { names: ['Order'] }), []);
      },
    },
    {
      id: 'read/list-filters-by-id-prefix',
      title: 'listInstances() matches idPrefix literally: case-sensitive and without wildcards',
      async run(store) {
        const ids = ['order-1', 'order-2', 'ORDER-3', 'order', 'or%er', 'or_er-1', 'é-1', 'ord*'];
        for (const id of ids) await store.create(id);
        assert.deepEqual(await list(store, { idPrefix: 'order-' }), ['order-2', 'order-1']);
        assert.deepEqual(await list(store, { idPrefix: 'or%' }), ['or%er']);
        assert.deepEqual(await list(store, { idPrefix: 'or_' }), ['or_er-1']);
        assert.deepEqual(await list(store, { idPrefix: 'ord*' }), ['ord*']);
        assert.deepEqual(await list(store, { idPrefix: 'é' }), ['é-1']);
        assert.deepEqual(await list(store, { idPrefix: 'order-11' }), []);
        assert.equal((await list(store, { idPrefix: '' })).length, ids.length);
      },
    },
    {
      id: 'read/list-filters-by-parent',
      title: 'listInstances() filters by parentInstanceId',
      async run(store) {
        await store.begin('a', { children: [child('a1', 1), child('a2', 2)] });
        for (const item of await store.claim()) await store.commit(item);
        await store.begin('b', { children: [child('b1', 1)] });
        assert.deepEqual(await list(store, { parentInstanceId: 'a' }), ['a2', 'a1']);
        assert.deepEqual(await list(store, { parentInstanceId: 'b1' }), []);
      },
    },
    {
      id: 'read/list-filters-by-time',
      title: 'listInstances() includes createdFrom and excludes createdBefore',
      async run(store) {
        const start = store.clock.now();
        for (const id of ['0', '10', '20', '30']) {
          await store.create(id);
          await store.clock.advance(10);
        }
        assert.deepEqual(await list(store, { createdFrom: start + 10 }), ['30', '20', '10']);
        assert.deepEqual(await list(store, { createdBefore: start + 20 }), ['10', '0']);
        const between = { createdFrom: start + 10, createdBefore: start + 30 };
        assert.deepEqual(await list(store, between), ['20', '10']);
      },
    },
    {
      id: 'read/list-filters-by-hold-back',
      title: 'listInstances() filters by blocked true or false',
      async run(store) {
        await store.create('held');
        const { lockToken } = await store.claimOne();
        const blocked = { reason: 'why', buildId: 'one' };
        const abandon = { lockToken, delayMs: lockMs, giveBackClaim: true, blocked };
        await store.provider.abandonOrchestrationItems([abandon]);
        await store.create('free');
        assert.deepEqual(await list(store, { blocked: true }), ['held']);
        assert.deepEqual(await list(store, { blocked: false }), ['free']);
        assert.deepEqual(await list(store, {}), ['free', 'held']);
      },
    },
    {
      id: 'read/list-filters-by-kind',
      title: 'listInstances() filters by kind, alone and with a name or status',
      async run(store) {
        await store.create('o', { name: 'both' });
        await store.create('p');
        await createTasks(store, [newTask('t', { name: 'both' }), newTask('u')]);
        assert.deepEqual(await list(store, { kind: 'task' }), ['u', 't']);
        assert.deepEqual(await list(store, { kind: 'orchestration' }), ['p', 'o']);
        assert.deepEqual(await list(store, { kind: 'task', names: ['both'] }), ['t']);
        assert.deepEqual(await list(store, { kind: 'orchestration', names: ['both'] }), ['o']);
        assert.deepEqual(await list(store, { names: ['both'] }), ['t', 'o']);
        const filter = { kind: 'task', status: ['pending'] } as const;
        assert.deepEqual(await list(store, filter), ['u', 't']);
      },
    },
    {
      id: 'read/list-filters-by-version',
      title: 'listInstances() filters by version, across names',
      async run(store) {
        await store.create('a', { name: 'one', version: '1' });
        await store.create('b', { name: 'two', version: '2' });
        await store.create('c', { name: 'one', version: '2' });
        await store.create('d', { name: 'one', version: null });
        await createTasks(store, [newTask('t')]);
        assert.deepEqual(await list(store, { version: '2' }), ['c', 'b']);
        assert.deepEqual(await list(store, { version: '2', kind: 'orchestration' }), ['c', 'b']);
        assert.deepEqual(await list(store, { version: '2', names: ['one'] }), ['c']);
        assert.deepEqual(await list(store, { version: '2', status: ['pending'] }), ['c', 'b']);
        assert.deepEqual(await list(store, { version: '2', kind: 'task' }), []);
        assert.deepEqual(await list(store, { version: '3' }), []);
      },
    },
    {
      id: 'read/list-filters-combine',
      title: 'listInstances() requires all filter conditions, also across pages',
      async run(store) {
        const start = store.clock.now();
        for (let index = 0; index < 12; index++) {
          const name = index % 2 === 0 ? 'even' : 'odd';
          await store.create(`${index < 6 ? 'low' : 'high'}-${index}`, { name });
          await store.clock.advance(1);
        }
        const filter = {
          names: ['even'],
          idPrefix: 'low-',
          status: ['pending', 'running'],
          createdFrom: start + 1,
          blocked: false,
        } as const;
        assert.deepEqual(await list(store, filter), ['low-4', 'low-2']);
        const {
          instances: [first],
        } = await store.provider.listInstances({ filter, limit: 1 });
        assert.equal(first?.instanceId, 'low-4');
        const beforeKey = first.instanceKey;
        const { instances: rest } = await store.provider.listInstances({
          filter,
          limit: 10,
          beforeKey,
        });
        assert.deepEqual(
          rest.map(({ instanceId }) => instanceId),
          ['low-2'],
        );
      },
    },
    {
      id: 'read/executions-of-a-new-instance',
      title:
        'listExecutions() of a new instance returns one pending execution; unknown ids have none',
      async run(store) {
        await store.create('a', { version: '2' });
        assert.deepEqual(await store.executions('a'), [
          {
            executionId: 1,
            status: 'pending',
            version: '2',
            startedAt: null,
            endedAt: null,
            historyLength: 0,
            failure: null,
            reason: null,
          },
        ]);
        assert.deepEqual(await store.executions('nobody'), []);
      },
    },
    {
      id: 'read/executions-come-in-pages',
      title: 'listExecutions() pages by after and limit, oldest first',
      async run(store) {
        await runExecutions(store, 'a', { count: 5 });
        const page = async (after: number, limit: number) =>
          (await store.provider.listExecutions({ instanceId: 'a', after, limit })).map(
            ({ executionId }) => executionId,
          );
        assert.deepEqual(await page(0, 10), [1, 2, 3, 4, 5]);
        assert.deepEqual(await page(0, 2), [1, 2]);
        assert.deepEqual(await page(2, 2), [3, 4]);
        assert.deepEqual(await page(4, 2), [5]);
        assert.deepEqual(await page(3, 1), [4]);
        assert.deepEqual(await page(5, 2), []);
        assert.deepEqual(await page(0, 0), []);
      },
    },
    {
      id: 'read/history-comes-in-pages',
      title: 'readInstanceHistory() pages by after and limit',
      async run(store) {
        const events = Array.from({ length: 7 }, (_, index) => event(`e${index + 1}`));
        await store.begin('a', { events });
        const page = (after: number, limit: number) =>
          store.provider.readInstanceHistory({ instanceId: 'a', executionId: 1, after, limit });
        assert.deepEqual(await page(0, 3), events.slice(0, 3));
        assert.deepEqual(await page(3, 3), events.slice(3, 6));
        assert.deepEqual(await page(6, 3), events.slice(6));
        assert.deepEqual(await page(7, 3), []);
      },
    },
    {
      id: 'read/history-of-a-missing-instance-is-empty',
      title: 'the history of an unknown instance or execution is empty',
      async run(store) {
        const { instanceKey } = await store.begin('a');
        assert.deepEqual(await store.history('nobody'), []);
        assert.deepEqual(await store.history('a', 2), []);
        const reads = [
          { instanceKey: instanceKey + 1_000, executionId: 1, after: 0 },
          { instanceKey, executionId: 1, after: 0 },
          { instanceKey, executionId: 9, after: 0 },
        ];
        assert.deepEqual(await store.provider.readHistory(reads), [[], [event('begun')], []]);
      },
    },
    {
      id: 'read/histories-of-several-instances',
      title: 'readHistory() reads several instances in one call, each with its own range',
      async run(store) {
        const events = ['1', '2', '3'].map(event);
        const a = await store.begin('a', { events });
        const b = await store.begin('b', { events: [event('other')] });
        const from = (instanceKey: number, after: number, limit?: number) => ({
          instanceKey,
          executionId: 1,
          after,
          ...(limit !== undefined && { limit }),
        });
        const histories = await store.provider.readHistory([
          from(a.instanceKey, 1),
          from(b.instanceKey, 0),
          from(a.instanceKey, 0, 2),
          from(a.instanceKey, 3),
        ]);
        assert.deepEqual(histories, [events.slice(1), [event('other')], events.slice(0, 2), []]);
      },
    },
    {
      id: 'read/running-items',
      title: 'listRunningItems() lists held work items with worker, attempt, lease and cancel',
      async run(store) {
        const workItems = [1, 2, 3, 4].map((operation) =>
          workItem(operation, { name: `activity ${operation}` }),
        );
        await store.begin('a', { workItems });
        const beganAt = store.clock.now();
        const claimedAtInsert = workItem(1, { claimMs: lockMs, claimedBy: 'inserter' });
        await store.begin('b', { workItems: [claimedAtInsert] });
        const [held] = await store.provider.listRunningItems('b');
        assert.deepEqual([held?.worker, held?.claimedAt], ['inserter', beganAt]);
        const [one, , three] = await store.claimWorkInOrder();
        assert.ok(one && three);
        const retry = { lockToken: three.lockToken, delayMs: 0, failure: '{}' };
        await store.provider.retryWorkItems([retry]);
        await store.provider.abandonWorkItems([
          { lockToken: one.lockToken, delayMs: 60_000, giveBackClaim: true },
        ]);
        await store.clock.advance(lockMs - 1);
        await store.claimWorkOne({ worker: 'one' });
        await store.clock.advance(1);
        await store.claimWorkOne({ names: ['activity 2'] });
        const now = store.clock.now();
        const second = { worker: null, claimedAt: now, lockedUntil: now + lockMs, cancel: null };
        const third = { worker: 'one', claimedAt: now - 1, lockedUntil: now - 1 + lockMs };
        const running = [
          { operation: 2, name: 'activity 2', attempt: 1, ...second },
          { operation: 3, name: 'activity 3', attempt: 2, ...third, cancel: null },
        ];
        assert.deepEqual(await store.provider.listRunningItems('a'), running);
        await store.cancel('a', { reason: 'stop' });
        const cancel = { reason: 'stop', trigger: 'cancel' };
        assert.deepEqual(
          await store.provider.listRunningItems('a'),
          running.map((item) => ({ ...item, cancel })),
        );
        assert.deepEqual(await store.provider.listRunningItems('nobody'), []);
      },
    },
  ],
};
