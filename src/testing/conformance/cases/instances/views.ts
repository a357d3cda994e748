import assert from 'node:assert/strict';
import type { StoredEvent } from '../../../../model/event.ts';
import type { EventView, ReadEventsParams } from '../../../../providers/contract/views.ts';
import { collectHints } from '../../collect-hints.ts';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { child, event, startMessage, workItem } from '../../sample-data.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';
import { createTask } from '../../task-helpers.ts';

const whole = { order: 'asc', limit: 100, maxScanned: 1_000, maxBytes: 1_000_000 } as const;

function read(
  { provider }: StoreUnderTest,
  instanceId: string,
  params: Partial<ReadEventsParams> = {},
): Promise<EventView | undefined> {
  return provider.readEvents({ instanceId, ...whole, ...params });
}

/** Reads all pages, and returns the ids of the events of each. */
async function readPages(
  store: StoreUnderTest,
  instanceId: string,
  params: Partial<ReadEventsParams>,
): Promise<readonly (readonly number[])[]> {
  const pages: (readonly number[])[] = [];
  let { from } = params;
  for (let page = 0; page < 100; page += 1) {
    const view = await read(store, instanceId, {
      ...params,
      ...(from !== undefined && { from }),
    });
    assert.ok(view);
    pages.push(view.events.map(({ eventId }) => eventId));
    if (view.next === null) return pages;
    from = view.next;
  }
  return assert.fail('The pages do not end.');
}

function eventOf(kind: string, data: string, payload: string | null = null): StoredEvent {
  return { kind, at: 1, data, payload };
}

function events(count: number): readonly StoredEvent[] {
  return Array.from({ length: count }, (_, index) => event(`e${index + 1}`));
}

/** Creates a root with two children; the first child has two children of its own. */
async function createTree(store: StoreUnderTest): Promise<void> {
  await store.begin('root', { children: [child('one', 1), child('two', 2)] });
  for (const item of await store.claim()) {
    const children = item.instanceId === 'one' ? [child('one-1', 1), child('one-2', 2)] : [];
    await store.commit(item, { events: [event('begun')], children });
  }
}

const treePage = { limit: 100, maxDepth: 10, maxChildren: 10 };

export const views: Capability = {
  title: 'views',
  cases: [
    {
      id: 'view/events-come-from-either-end',
      title: 'readEvents() returns the first or the last events, beyond a position',
      async run(store) {
        await store.begin('a', { events: events(5) });
        const ids = async (params: Partial<ReadEventsParams>) =>
          (await read(store, 'a', params))?.events.map(({ eventId }) => eventId);
        assert.deepEqual(await ids({}), [1, 2, 3, 4, 5]);
        assert.deepEqual(await ids({ order: 'desc' }), [5, 4, 3, 2, 1]);
        assert.deepEqual(await ids({ from: 3 }), [4, 5]);
        assert.deepEqual(await ids({ order: 'desc', from: 3 }), [2, 1]);
        const view = await read(store, 'a', { order: 'desc', limit: 1 });
        const { incarnation } = await store.record('a');
        assert.deepEqual(view, {
          incarnation,
          status: 'running',
          currentExecutionId: 1,
          executionId: 1,
          exists: true,
          events: [{ ...event('e5'), eventId: 5, payloadBytes: 4 }],
          next: 5,
        });
      },
    },
    {
      id: 'view/event-pages-have-no-gaps',
      title: 'pages of readEvents() return every event once, in either order',
      async run(store) {
        await store.begin('a', { events: events(7) });
        assert.deepEqual(await readPages(store, 'a', { limit: 3 }), [[1, 2, 3], [4, 5, 6], [7]]);
        assert.deepEqual(await readPages(store, 'a', { limit: 3, order: 'desc' }), [
          [7, 6, 5],
          [4, 3, 2],
          [1],
        ]);
        assert.deepEqual(await readPages(store, 'a', { limit: 7 }), [[1, 2, 3, 4, 5, 6, 7]]);
        const scanned = await readPages(store, 'a', { maxScanned: 2 });
        assert.deepEqual(scanned.flat(), [1, 2, 3, 4, 5, 6, 7]);
      },
    },
    {
      id: 'view/events-are-filtered',
      title: 'readEvents() returns only events of the given kinds and with the given data',
      async run(store) {
        const some = [
          eventOf('one', '{"operation":1}'),
          eventOf('two', '{"operation":12}'),
          eventOf('one', '{"operation":2,"x":1}'),
          eventOf('two', '{"name":"%_"}'),
        ];
        await store.begin('a', { events: some });
        const ids = async (params: Partial<ReadEventsParams>) =>
          (await readPages(store, 'a', params)).flat();
        assert.deepEqual(await ids({ kinds: ['one'] }), [1, 3]);
        assert.deepEqual(await ids({ kinds: ['one', 'two'], order: 'desc' }), [4, 3, 2, 1]);
        assert.deepEqual(await ids({ kinds: ['none'] }), []);
        const dataIncludes = ['"operation":1}', '"operation":2,'];
        assert.deepEqual(await ids({ dataIncludes }), [1, 3]);
        assert.deepEqual(await ids({ dataIncludes: ['"%_"'] }), [4]);
        assert.deepEqual(await ids({ dataIncludes: ['"o%'] }), []);
        assert.deepEqual(await ids({ dataIncludes, kinds: ['two'] }), []);
        assert.deepEqual(await ids({ kinds: ['one'], limit: 1 }), [1, 3]);
      },
    },
    {
      id: 'view/a-filter-examines-a-bounded-number',
      title: 'a page of readEvents() ends at maxScanned events, even if none matched',
      async run(store) {
        const rare = Array.from({ length: 20 }, (_, index) =>
          eventOf(index === 13 ? 'rare' : 'often', '{}'),
        );
        await store.begin('a', { events: rare });
        const params = { kinds: ['rare'], maxScanned: 5 };
        const first = await read(store, 'a', params);
        assert.deepEqual([first?.events, first?.next], [[], 5]);
        const last = await read(store, 'a', { ...params, order: 'desc' });
        assert.deepEqual([last?.events, last?.next], [[], 16]);
        assert.deepEqual((await readPages(store, 'a', params)).flat(), [14]);
      },
    },
    {
      id: 'view/payloads-are-cut-between-characters',
      title: 'readEvents() with headBytes cuts payloads between characters and returns their size',
      async run(store) {
        const payloads = ['"aé"', '"a€€€"', '"😀😀😀"', '""', null];
        await store.begin('a', { events: payloads.map((payload) => eventOf('k', '{}', payload)) });
        const heads = async (headBytes?: number) =>
          (await read(store, 'a', headBytes === undefined ? {} : { headBytes }))?.events.map(
            ({ payload, payloadBytes }) => [payload, payloadBytes],
          );
        const sizes = [5, 12, 14, 2, null];
        const withSizes = (texts: readonly (string | null)[]) =>
          texts.map((text, index) => [text, sizes[index]]);
        assert.deepEqual(await heads(), withSizes(payloads));
        assert.deepEqual(await heads(100), withSizes(payloads));
        assert.deepEqual(await heads(0), withSizes([null, null, null, null, null]));
        assert.deepEqual(await heads(3), withSizes(['"a', '"a', '"', '""', null]));
        assert.deepEqual(await heads(4), withSizes(['"aé', '"a', '"', '""', null]));
        assert.deepEqual(await heads(5), withSizes(['"aé"', '"a€', '"😀', '""', null]));
        assert.deepEqual(await heads(8), withSizes(['"aé"', '"a€€', '"😀', '""', null]));
      },
    },
    {
      id: 'view/event-pages-end-at-their-bytes',
      title: 'a page of readEvents() ends before the event that exceeds maxBytes',
      async run(store) {
        const large = `"${'x'.repeat(998)}"`;
        await store.begin('a', { events: [1, 2, 3, 4].map(() => eventOf('k', '{}', large)) });
        assert.deepEqual(await readPages(store, 'a', { maxBytes: 2_100 }), [
          [1, 2],
          [3, 4],
        ]);
        assert.deepEqual(await readPages(store, 'a', { maxBytes: 10 }), [[1], [2], [3], [4]]);
        assert.deepEqual(await readPages(store, 'a', { maxBytes: 100, headBytes: 10 }), [
          [1, 2, 3, 4],
        ]);
      },
    },
    {
      id: 'view/events-of-the-unknown',
      title: 'readEvents() of an unknown instance is undefined; an unknown execution has no events',
      async run(store) {
        assert.equal(await read(store, 'nobody'), undefined);
        await store.begin('a', {
          outcome: { status: 'continuedAsNew', version: '1', start: startMessage() },
        });
        const view = await read(store, 'a', { executionId: 3 });
        assert.deepEqual([view?.exists, view?.events, view?.next], [false, [], null]);
        const past = await read(store, 'a', { executionId: 1 });
        assert.deepEqual([past?.exists, past?.events.length], [true, 1]);
        const current = await read(store, 'a');
        assert.deepEqual(
          [current?.executionId, current?.currentExecutionId, current?.events],
          [2, 2, []],
        );
      },
    },
    {
      id: 'view/a-tree-comes-depth-first',
      title: 'readTree() returns parents before their children, and siblings by creation',
      async run(store) {
        await createTree(store);
        await store.create('other');
        const tree = await store.provider.readTree({ instanceId: 'root', ...treePage });
        assert.deepEqual(
          tree?.nodes.map(({ instanceId, depth, children }) => [instanceId, depth, children]),
          [
            ['root', 0, 2],
            ['one', 1, 2],
            ['one-1', 2, 0],
            ['one-2', 2, 0],
            ['two', 1, 0],
          ],
        );
        assert.equal(tree.next, null);
        const [, one] = tree.nodes;
        const { instanceKey, createdAt, startedAt } = await store.record('one');
        assert.deepEqual(one, {
          instanceKey,
          instanceId: 'one',
          parentInstanceId: 'root',
          depth: 1,
          kind: 'orchestration',
          name: 'sample',
          version: '1',
          status: 'running',
          executionId: 1,
          createdAt,
          startedAt,
          endedAt: null,
          children: 2,
        });
      },
    },
    {
      id: 'view/tree-pages-have-no-gaps',
      title: 'pages of readTree() return every node once',
      async run(store) {
        await createTree(store);
        for (const limit of [1, 2, 3, 5]) {
          const seen: string[] = [];
          let after: readonly number[] | undefined;
          do {
            const page = await store.provider.readTree({
              instanceId: 'root',
              ...treePage,
              limit,
              ...(after !== undefined && { after }),
            });
            assert.ok(page && page.nodes.length <= limit);
            seen.push(...page.nodes.map(({ instanceId }) => instanceId));
            after = page.next ?? undefined;
          } while (after !== undefined);
          assert.deepEqual(seen, ['root', 'one', 'one-1', 'one-2', 'two']);
        }
      },
    },
    {
      id: 'view/a-tree-is-bounded',
      title: 'readTree() returns no node below maxDepth and counts up to maxChildren',
      async run(store) {
        await createTree(store);
        const shown = async (params: Partial<typeof treePage>) =>
          (
            await store.provider.readTree({ instanceId: 'root', ...treePage, ...params })
          )?.nodes.map(({ instanceId, children }) => [instanceId, children]);
        assert.deepEqual(await shown({ maxDepth: 0 }), [['root', 2]]);
        assert.deepEqual(await shown({ maxDepth: 1, maxChildren: 1 }), [
          ['root', 1],
          ['one', 1],
          ['two', 0],
        ]);
        assert.deepEqual(
          (await store.provider.readTree({ instanceId: 'one', ...treePage }))?.nodes.map(
            ({ instanceId, depth }) => [instanceId, depth],
          ),
          [
            ['one', 0],
            ['one-1', 1],
            ['one-2', 1],
          ],
        );
      },
    },
    {
      id: 'view/a-path-of-another-tree-is-unknown',
      title: 'readTree() rejects an unknown id and a path that is not of its tree',
      async run(store) {
        await createTree(store);
        const otherKey = await store.create('other');
        const readAfter = (instanceId: string, after?: readonly number[]) =>
          store.provider.readTree({ instanceId, ...treePage, ...(after && { after }) });
        assert.equal(await readAfter('nobody'), undefined);
        const { instanceKey: rootKey } = await store.record('root');
        const { instanceKey: twoKey } = await store.record('two');
        assert.equal(await readAfter('root', [otherKey]), undefined);
        assert.equal(await readAfter('root', [rootKey, otherKey]), undefined);
        assert.equal(await readAfter('root', [twoKey]), undefined);
        assert.deepEqual(await readAfter('root', [rootKey, twoKey]), { nodes: [], next: null });
      },
    },
    {
      id: 'view/versions-come-in-the-order-asked',
      title: 'readVersions() returns one version per id, undefined for a missing one',
      async run(store) {
        await store.begin('a', { events: events(3), customStatus: '"x"' });
        await store.create('b');
        const found = await store.provider.readVersions(['b', 'nobody', 'a']);
        assert.deepEqual(
          found.map((one) => one?.instanceId),
          ['b', undefined, 'a'],
        );
        const { version, ...state } = found[2] ?? { version: '' };
        assert.notEqual(version, '');
        assert.deepEqual(state, {
          instanceId: 'a',
          name: 'sample',
          status: 'running',
          executionId: 1,
          historyLength: 3,
          customStatusVersion: 1,
        });
        assert.deepEqual(await store.provider.readVersions([]), []);
      },
    },
    {
      id: 'view/every-change-has-a-version',
      title: 'the version of an instance changes with every visible change, and only then',
      async run(store) {
        const versions: string[] = [];
        const changed = async (): Promise<void> => {
          const [found] = await store.provider.readVersions(['a']);
          assert.ok(found && !versions.includes(found.version), 'expected a new version');
          versions.push(found.version);
          const [again] = await store.provider.readVersions(['a']);
          assert.equal(again?.version, found.version);
        };
        await store.create('a');
        await changed();
        await store.commit(await store.claimOne(), { events: [event('x')] });
        await changed();
        await store.raise('a', 'y');
        await store.commit(await store.claimOne(), { events: [event('y')] });
        await changed();
        await store.raise('a', 'z');
        await store.commit(await store.claimOne(), { customStatus: '1' });
        await changed();
        await store.raise('a', 'c');
        await store.commit(await store.claimOne(), {
          outcome: { status: 'continuedAsNew', version: '1', start: startMessage() },
        });
        await changed();
        await store.commit(await store.claimOne(), { events: [event('again')] });
        await changed();
        const pause = { instanceId: 'a', reason: null, actor: null, tree: false };
        await store.provider.pauseInstances([pause]);
        await changed();
        await store.cancel('a');
        await changed();
        await store.terminate('a');
        await changed();
        await forceDelete(store, 'a');
        assert.deepEqual(await store.provider.readVersions(['a']), [undefined]);
        await store.create('a');
        await changed();
      },
    },
    {
      id: 'view/every-change-of-a-task-has-a-version',
      title: 'the version of a task run changes with its start, its attempts and its end',
      async run(store) {
        const versions = new Set<string>();
        const changed = async (): Promise<void> => {
          const [found] = await store.provider.readVersions(['t']);
          assert.ok(found && !versions.has(found.version), 'expected a new version');
          versions.add(found.version);
        };
        await createTask(store, 't');
        await changed();
        const { lockToken } = await store.claimWorkOne();
        await changed();
        const failure = '{"name":"Error","message":"no"}';
        await store.provider.retryWorkItems([{ lockToken, delayMs: 0, failure }]);
        await changed();
        await store.ackWork((await store.claimWorkOne()).lockToken);
        await changed();
      },
    },
    {
      id: 'hint/tells-of-commits',
      title: 'every commit that changes an instance emits committed',
      async run(store) {
        const commits: Readonly<Record<string, () => Promise<unknown>>> = {
          start: () => store.create('a'),
          turn: async () =>
            store.commit(await store.claimOne(), {
              events: [event('x')],
              workItems: [workItem(1)],
            }),
          cancel: () => store.cancel('a'),
          termination: () => store.terminate('a'),
          deletion: () => forceDelete(store, 'a'),
        };
        for (const commit of Object.values(commits)) {
          const { next, stop } = collectHints(store.provider);
          await commit();
          await next('committed');
          stop();
        }
      },
    },
  ],
};
