import assert from 'node:assert/strict';
import { listDefinitions } from '../../../../client/reading/instance-counts.ts';
import type {
  InstanceConditions,
  ListInstancesParams,
} from '../../../../providers/contract/instances.ts';
import type { Turn } from '../../../../providers/contract/turn.ts';
import type { Capability } from '../../conformance-case.ts';
import { child, newInstance, newWorker, workItem } from '../../sample-data.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';
import { createTasks, newTask } from '../../task-helpers.ts';

const failed = (failure: object) =>
  ({ status: 'failed', failure: JSON.stringify({ name: 'Error', ...failure }) }) as const;

/** The ids of all pages. */
export async function list(
  { provider }: StoreUnderTest,
  filter: InstanceConditions,
  limit = 100,
): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let beforeKey: number | null = Number.MAX_SAFE_INTEGER; beforeKey !== null;) {
    const page = await provider.listInstances({ filter, limit, beforeKey });
    assert.ok(page.instances.length <= limit);
    ids.push(...page.instances.map(({ instanceId }) => instanceId));
    assert.ok(page.nextKey === null || page.nextKey < beforeKey, 'each page must make progress');
    beforeKey = page.nextKey;
  }
  return ids;
}

/** The ids of all pages in the order of ends. */
async function listByEnd(
  { provider }: StoreUnderTest,
  filter: InstanceConditions,
  limit = 100,
): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let before: Pick<ListInstancesParams, 'beforeKey' | 'beforeEndedAt'> = {}; ;) {
    const page = await provider.listInstances({ filter, limit, orderBy: 'ended', ...before });
    assert.ok(page.instances.length <= limit);
    ids.push(...page.instances.map(({ instanceId }) => instanceId));
    const { nextKey, nextEndedAt } = page;
    if (nextKey === null) return ids;
    assert.ok(typeof nextEndedAt === 'number', 'nextKey comes with nextEndedAt');
    const { beforeEndedAt = Infinity, beforeKey = Infinity } = before;
    const isProgress =
      nextEndedAt < beforeEndedAt || (nextEndedAt === beforeEndedAt && nextKey < beforeKey);
    assert.ok(isProgress, 'each page must make progress');
    before = { beforeKey: nextKey, beforeEndedAt: nextEndedAt };
  }
}

/** Instances of two names that differ in all conditions. */
async function storeVaried(store: StoreUnderTest): Promise<void> {
  for (let index = 0; index < 12; index += 1) {
    const outcome =
      index % 3 === 0
        ? failed({ message: `Disk ${index} full`, code: index % 2 === 0 ? 'FULL' : 'BUSY' })
        : index % 3 === 1
          ? ({ status: 'completed', payload: null } as const)
          : ({ status: 'running' } as const);
    const name = index % 2 === 0 ? 'even' : 'odd';
    const tags = { parity: name, third: String(index % 3) };
    await store.begin(`i${index}`, { outcome }, { name, tags });
    await store.clock.advance(10);
  }
  const pause = { reason: null, actor: null, tree: false };
  await store.provider.pauseInstances([
    { instanceId: 'i2', ...pause },
    { instanceId: 'i11', ...pause },
  ]);
}

export const lists: Capability = {
  title: 'lists and counts',
  cases: [
    {
      id: 'list/by-several-names',
      title: 'listInstances() filters by several names, across kinds',
      async run(store) {
        for (const name of ['a', 'b', 'c']) await store.create(name, { name });
        await createTasks(store, [newTask('t', { name: 'b' })]);
        assert.deepEqual(await list(store, { names: ['b', 'a', 'x'] }), ['t', 'b', 'a']);
        assert.deepEqual(await list(store, { names: ['x'] }), []);
      },
    },
    {
      id: 'list/roots-only',
      title: 'listInstances() with rootsOnly omits children',
      async run(store) {
        await store.begin('a', { children: [child('a1', 1)] });
        assert.deepEqual(await list(store, { rootsOnly: true }), ['a']);
        assert.deepEqual(await list(store, { rootsOnly: false }), ['a1', 'a']);
      },
    },
    {
      id: 'list/by-end-window',
      title: 'listInstances() includes endedFrom, excludes endedBefore and what has not ended',
      async run(store) {
        const start = store.clock.now();
        for (const id of ['0', '10', '20']) {
          await store.begin(id, { outcome: { status: 'completed', payload: null } });
          await store.clock.advance(10);
        }
        await store.begin('open');
        assert.deepEqual(await list(store, { endedFrom: start + 10 }), ['20', '10']);
        assert.deepEqual(await list(store, { endedBefore: start + 10 }), ['0']);
        assert.deepEqual(await list(store, { endedFrom: start + 1, endedBefore: start + 20 }), [
          '10',
        ]);
      },
    },
    {
      id: 'list/by-failure-code',
      title: 'listInstances() filters by the code of the failure, not of its cause',
      async run(store) {
        const cause = { name: 'Error', message: 'c', code: 'E1' };
        await store.begin('a', { outcome: failed({ message: 'm', code: 'E1' }) });
        await store.begin('b', {
          outcome: failed({ message: 'm "code":"E1"', code: 'E10', cause }),
        });
        await store.begin('c', { outcome: failed({ message: 'E1' }) });
        assert.deepEqual(await list(store, { failureCode: 'E1' }), ['a']);
        assert.deepEqual(await list(store, { failureCode: 'e1' }), []);
        assert.deepEqual(await list(store, { failureCode: 'E1', status: ['completed'] }), []);
      },
    },
    {
      id: 'list/by-failure-text',
      title: 'listInstances() finds literal text in the message of the failure, in any case',
      async run(store) {
        await store.begin('a', { outcome: failed({ message: 'Disk is 100% "full"\n\u00e9' }) });
        await store.begin('b', { outcome: failed({ message: 'other', stack: 'disk is 100%' }) });
        await store.begin('c', { outcome: { status: 'completed', payload: '"disk is"' } });
        for (const failureText of ['disk IS', '100% "f', '"\n\u00e9', 'Disk']) {
          assert.deepEqual(await list(store, { failureText }), ['a'], failureText);
        }
        assert.deepEqual(await list(store, { failureText: 'dis_' }), []);
      },
    },
    {
      id: 'list/by-leaked',
      title: 'listInstances() filters by leaked true or false',
      async run(store) {
        await createTasks(store, [newTask('t'), newTask('u')]);
        const [item] = await store.provider.fetchWorkItems({
          max: 1,
          lockMs: 60_000,
          waitMs: 0,
          names: [],
          tasks: ['task'],
        });
        assert.ok(item !== undefined);
        const stop = { instanceId: item.instanceId, reason: 'r', actor: null, cleanupMs: 1_000 };
        await store.provider.requestCancel([stop]);
        await store.provider.ackWorkItems([
          { lockToken: item.lockToken, outcome: { kind: 'canceled', leaked: true } },
        ]);
        const other = item.instanceId === 't' ? 'u' : 't';
        assert.deepEqual(await list(store, { leaked: true }), [item.instanceId]);
        assert.deepEqual(await list(store, { leaked: false }), [other]);
      },
    },
    {
      id: 'list/by-paused',
      title: 'listInstances() filters by paused true or false, and lists a paused run by status',
      async run(store) {
        await store.create('a');
        await store.create('b');
        await createTasks(store, [newTask('t'), newTask('u')]);
        const pause = { reason: null, actor: null, tree: false };
        await store.provider.pauseInstances([
          { instanceId: 'a', ...pause },
          { instanceId: 't', ...pause },
        ]);
        assert.deepEqual(await list(store, { paused: true }, 1), ['t', 'a']);
        assert.deepEqual(await list(store, { paused: false }, 1), ['u', 'b']);
        assert.deepEqual(await list(store, { paused: true, kind: 'task' }), ['t']);
        assert.deepEqual(await list(store, { status: ['pending'] }), ['u', 't', 'b', 'a']);
        assert.deepEqual(await list(store, { status: ['pending'], kind: 'task' }), ['u', 't']);
        const inspected = await store.provider.inspectInstance({ instanceId: 't', maxPending: 1 });
        assert.deepEqual(
          inspected?.pending.map(({ kind, name }) => ({ kind, name })),
          [{ kind: 'task', name: 'task' }],
        );
        await store.provider.resumeInstances([{ instanceId: 'a', tree: false }]);
        assert.deepEqual(await list(store, { paused: true }), ['t']);
      },
    },
    {
      id: 'list/by-tags',
      title: 'listInstances() requires all tags, literally',
      async run(store) {
        await store.create('a', { tags: { tenant: '7', region: 'eu' } });
        await store.create('b', { tags: { tenant: '7' } });
        await store.create('c', { tags: { tenant: '70', region: 'eu' } });
        await store.create('d');
        assert.deepEqual(await list(store, { tags: { tenant: '7' } }), ['b', 'a']);
        assert.deepEqual(await list(store, { tags: { region: 'eu', tenant: '7' } }), ['a']);
        assert.deepEqual(await list(store, { tags: { tenant: '%' } }), []);
      },
    },
    {
      id: 'list/pairs-of-conditions-combine',
      title: 'listInstances() requires both conditions of every pair, in any page size',
      async run(store) {
        const start = store.clock.now();
        await storeVaried(store);
        const all = await list(store, {});
        const conditions: readonly InstanceConditions[] = [
          { status: ['failed'] },
          { status: ['completed', 'running'] },
          { kind: 'orchestration' },
          { names: ['even'] },
          { version: '1' },
          { idPrefix: 'i1' },
          { rootsOnly: true },
          { createdFrom: start + 30 },
          { createdBefore: start + 60 },
          { endedFrom: start + 20 },
          { endedBefore: start + 90 },
          { failureCode: 'FULL' },
          { failureText: 'disk' },
          { blocked: false },
          { leaked: false },
          { paused: true },
          { tags: { third: '0' } },
        ];
        const alone = await Promise.all(conditions.map((filter) => list(store, filter)));
        for (const [one, first] of conditions.entries()) {
          for (const [two, second] of conditions.entries()) {
            // Two conditions on one field do not combine.
            if (Object.keys(first).some((key) => key in second)) continue;
            const expected = all.filter(
              (id) => alone[one]?.includes(id) === true && alone[two]?.includes(id) === true,
            );
            const filter = { ...first, ...second };
            assert.deepEqual(await list(store, filter, 2), expected, JSON.stringify(filter));
          }
        }
      },
    },
    {
      id: 'list/by-unregistered',
      title: 'listInstances() filters by work of definitions that no live worker has',
      async run(store) {
        const definitions = {
          orchestrations: [{ name: 'known', version: '1' }],
          activities: ['known'],
          tasks: ['known'],
        };
        await store.provider.registerWorkers([
          newWorker('w', { ...definitions, heartbeatMs: 1_000 }),
        ]);
        const begin = (id: string, turn: Partial<Turn>, name: string) =>
          store.begin(id, turn, { name });
        await begin('v', { workItems: [workItem(1, { name: 'unknown' })] }, 'known');
        await begin('w', { workItems: [workItem(1, { name: 'known' })] }, 'known');
        await begin('ended', { outcome: { status: 'completed', payload: null } }, 'unknown');
        await store.create('a', { name: 'known' });
        await store.create('b', { name: 'unknown' });
        const tasks = [newTask('t', { name: 'known' }), newTask('u', { name: 'unknown' })];
        await createTasks(store, tasks);
        await store.create('p', { name: 'unknown' });
        await store.provider.pauseInstances([
          { instanceId: 'p', reason: null, actor: null, tree: false },
        ]);
        assert.deepEqual(await list(store, { unregistered: true }, 1), ['u', 'b', 'v']);
        assert.deepEqual(await list(store, { unregistered: false }), ['p', 't', 'a', 'ended', 'w']);
        assert.deepEqual(await list(store, { unregistered: true, kind: 'task' }), ['u']);
        assert.deepEqual(await list(store, { unregistered: true, status: ['completed'] }), []);
        const counted = await store.provider.countInstances({
          filter: { unregistered: true },
          cap: 100,
        });
        assert.deepEqual(counted, { count: 3, capped: false });
        await store.clock.advance(10_000);
        const all = ['u', 't', 'b', 'a', 'w', 'v'];
        assert.deepEqual(await list(store, { unregistered: true }), all, 'a stale worker');
      },
    },
    {
      id: 'list/by-end-order',
      title: 'listInstances() by end lists only what has ended, the last end first',
      async run(store) {
        for (const id of ['a', 'b', 'c', 'open']) await store.create(id);
        for (const id of ['b', 'c', 'a']) {
          await store.clock.advance(10);
          const stop = { instanceId: id, reason: 'r', actor: null, tree: false };
          await store.provider.terminate([stop]);
        }
        assert.deepEqual(await listByEnd(store, {}), ['a', 'c', 'b']);
        assert.deepEqual(await list(store, {}), ['open', 'c', 'b', 'a']);
      },
    },
    {
      id: 'list/end-order-pages-have-no-gaps',
      title: 'pages of listInstances() by end neither skip nor repeat instances with equal ends',
      async run(store) {
        const completed = { outcome: { status: 'completed', payload: null } } as const;
        const expected: string[] = [];
        for (let index = 0; index < 9; index += 1) {
          await store.begin(`i${index}`, completed);
          expected.unshift(`i${index}`);
          if (index % 4 === 3) await store.clock.advance(10);
        }
        for (const limit of [1, 2, 4, 9, 10]) {
          assert.deepEqual(await listByEnd(store, {}, limit), expected, `pages of ${limit}`);
        }
      },
    },
    {
      id: 'list/end-order-combines',
      title: 'listInstances() by end requires all conditions',
      async run(store) {
        const start = store.clock.now();
        await storeVaried(store);
        const all = await listByEnd(store, {});
        assert.equal(all.length, 8);
        const conditions: readonly InstanceConditions[] = [
          { status: ['failed'] },
          { names: ['even'] },
          { idPrefix: 'i1' },
          { createdFrom: start + 30 },
          { createdBefore: start + 60 },
          { endedFrom: start + 20 },
          { endedFrom: start + 20, endedBefore: start + 70 },
          { endedBefore: start + 90 },
          { failureCode: 'FULL' },
          { paused: false },
          { tags: { third: '0' } },
        ];
        for (const filter of conditions) {
          const matching = await list(store, filter);
          const expected = all.filter((id) => matching.includes(id));
          assert.deepEqual(await listByEnd(store, filter, 2), expected, JSON.stringify(filter));
        }
      },
    },
    {
      id: 'list/a-window-is-found-directly',
      title: 'listInstances() finds an old window in its first page, and ends after it',
      async run(store) {
        await store.create('before');
        await store.clock.advance(60_000);
        const createdFrom = store.clock.now();
        await store.create('within');
        await store.clock.advance(60_000);
        const createdBefore = store.clock.now();
        const createMore = async (name: string, count: number): Promise<void> => {
          const ids = Array.from({ length: count }, (_, index) => `${name}${index}`);
          await store.provider.createInstances(ids.map((id) => newInstance(id)));
        };
        await createMore('just after', 100);
        await store.clock.advance(60_000);
        for (let batch = 0; batch < 12; batch += 1) await createMore(`later ${batch} `, 1_000);
        const filters: readonly InstanceConditions[] = [
          { createdFrom, createdBefore },
          { createdFrom, createdBefore, status: ['pending'] },
          { createdFrom, createdBefore, names: ['sample'] },
        ];
        for (const filter of filters) {
          const { instances, nextKey } = await store.provider.listInstances({ filter, limit: 10 });
          const ids = instances.map(({ instanceId }) => instanceId);
          assert.deepEqual({ ids, nextKey }, { ids: ['within'], nextKey: null });
        }
      },
    },
    {
      id: 'list/a-bounded-scan-leaves-no-gap',
      title: 'listInstances() finds a match beyond the rows that one page examines',
      async run(store) {
        await store.create('first');
        await store.clock.advance(1_000);
        const createdBefore = store.clock.now();
        const size = 1_000;
        for (let from = 0; from < 10_500; from += size) {
          const ids = Array.from({ length: size }, (_, index) => `n${from + index}`);
          await store.provider.createInstances(ids.map((id) => newInstance(id)));
        }
        assert.deepEqual(await list(store, { createdBefore }), ['first']);
        assert.deepEqual(await list(store, { createdBefore, rootsOnly: true }), ['first']);
        assert.deepEqual(await list(store, { createdBefore, names: ['sample'] }), ['first']);
        assert.deepEqual(await list(store, { createdBefore, idPrefix: 'f' }), ['first']);
        assert.deepEqual(await list(store, { status: ['completed'] }), []);
        const { count, capped } = await store.provider.countInstances({
          filter: { status: ['completed'] },
          cap: 1,
        });
        assert.deepEqual({ count, capped }, { count: 0, capped: true });
      },
    },
    {
      id: 'count/is-exact-below-its-cap',
      title: 'countInstances() counts all matches below its cap',
      async run(store) {
        await storeVaried(store);
        const count = (filter: InstanceConditions) =>
          store.provider.countInstances({ filter, cap: 100 });
        assert.deepEqual(await count({}), { count: 12, capped: false });
        assert.deepEqual(await count({ status: ['failed'] }), { count: 4, capped: false });
        assert.deepEqual(await count({ failureCode: 'FULL' }), { count: 2, capped: false });
        assert.deepEqual(await count({ names: ['x'] }), { count: 0, capped: false });
      },
    },
    {
      id: 'count/stops-at-its-cap',
      title: 'countInstances() returns its cap if there are more',
      async run(store) {
        for (const id of ['a', 'b', 'c']) await store.create(id);
        const count = (cap: number) => store.provider.countInstances({ filter: {}, cap });
        assert.deepEqual(await count(2), { count: 2, capped: true });
        assert.deepEqual(await count(3), { count: 3, capped: false });
      },
    },
    {
      id: 'definitions/are-counted-by-status',
      title: 'listDefinitions() counts the instances of each definition by status',
      async run(store) {
        await storeVaried(store);
        await createTasks(store, [newTask('t')]);
        const found = await store.provider.listDefinitions({ afterKey: 0, limit: 10, cap: 100 });
        const exact = (count: number) => ({ count, capped: false });
        assert.deepEqual(
          found.map(({ kind, name, version, counts }) => ({ kind, name, version, counts })),
          [
            {
              kind: 'orchestration',
              name: 'even',
              version: '1',
              counts: { failed: exact(2), completed: exact(2), running: exact(2) },
            },
            {
              kind: 'orchestration',
              name: 'odd',
              version: '1',
              counts: { failed: exact(2), completed: exact(2), running: exact(2) },
            },
            { kind: 'task', name: 'task', version: null, counts: { pending: exact(1) } },
          ],
        );
      },
    },
    {
      id: 'definitions/counts-are-capped',
      title: 'listDefinitions() marks counts of a definition with more instances than the cap',
      async run(store) {
        await storeVaried(store);
        const [even] = await store.provider.listDefinitions({ afterKey: 0, limit: 1, cap: 3 });
        assert.deepEqual(even?.counts.failed, { count: 2, capped: false });
        assert.equal(even?.counts.running?.capped, true);
      },
    },
    {
      id: 'definitions/come-in-pages',
      title: 'listDefinitions() lists each definition once over all pages',
      async run(store) {
        const names = ['a', 'b', 'c', 'd', 'e'];
        for (const name of names) await store.create(name, { name });
        const seen: string[] = [];
        for (let afterKey = 0; ;) {
          const page = await store.provider.listDefinitions({ afterKey, limit: 2, cap: 1 });
          if (page.length === 0) break;
          seen.push(...page.map(({ name }) => name));
          afterKey = page.at(-1)?.definitionKey ?? 0;
        }
        assert.deepEqual(seen, names);
      },
    },
    {
      id: 'definitions/are-listed-by-name',
      title: 'a client lists definitions by name in the order of code units, on every store',
      async run(store) {
        const names = ['\uff21', 'b', '\u{1f600}', 'B', '\u00e4', 'a'];
        await store.provider.createInstances(names.map((name) => newInstance(name, { name })));
        await createTasks(store, [newTask('t', { name: 'a' })]);
        const listed = await listDefinitions(store.provider);
        assert.deepEqual(
          listed.map(({ kind, name }) => [name, kind]),
          [
            ['B', 'orchestration'],
            ['a', 'orchestration'],
            ['a', 'task'],
            ['b', 'orchestration'],
            ['\u00e4', 'orchestration'],
            ['\u{1f600}', 'orchestration'],
            ['\uff21', 'orchestration'],
          ],
        );
      },
    },
  ],
};
