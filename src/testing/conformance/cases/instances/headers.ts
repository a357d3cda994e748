import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { awaitedDetached, child, event, newTurn, workItem } from '../../sample-data.ts';

const headers = '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}';

export const headersCases: Capability = {
  title: 'headers',
  cases: [
    {
      id: 'headers/are-kept-with-the-instance',
      title: 'readHeaders() returns the headers of starts, with and without a first turn, in order',
      async run(store) {
        const { provider } = store;
        const firstTurn = newTurn({ events: [event('begun')] });
        const pending = await store.create('pending', { headers: `${headers} ` });
        const started = await store.create('started', { headers, firstTurn });
        // The store knows the definition now, so it may use another path.
        const next = newTurn({ events: [event('begun')] });
        const again = await store.create('again', { headers: `${headers}  `, firstTurn: next });
        const without = await store.create('without', {
          firstTurn: newTurn({ events: [event('begun')] }),
        });
        assert.deepEqual(await provider.readHeaders([started, 987_654, without, pending, again]), [
          headers,
          null,
          null,
          `${headers} `,
          `${headers}  `,
        ]);
        assert.deepEqual(await provider.readHeaders([]), []);
      },
    },
    {
      id: 'headers/of-children-and-detached-starts',
      title: 'readHeaders() returns the headers of children and detached instances of a turn',
      async run(store) {
        await store.begin('parent', {
          children: [
            child('child', 1, { headers }),
            awaitedDetached('detached', 2, { headers: `${headers} ` }),
            child('plain', 3),
          ],
        });
        const claimed = await store.claim();
        const byId = new Map(claimed.map((item) => [item.instanceId, item.instanceKey]));
        const keys = ['child', 'detached', 'plain'].map((id) => byId.get(id) ?? -1);
        assert.deepEqual(await store.provider.readHeaders(keys), [headers, `${headers} `, null]);
      },
    },
    {
      id: 'headers/come-with-claimed-activities',
      title: 'fetchWorkItems() returns the headers of the instance with each activity',
      async run(store) {
        const firstTurn = () => newTurn({ events: [event('begun')], workItems: [workItem(1)] });
        await store.create('with', { headers, firstTurn: firstTurn() });
        await store.create('without', { firstTurn: firstTurn() });
        const claimed = await store.claimWork();
        const byId = new Map(claimed.map((item) => [item.instanceId, item.headers]));
        assert.equal(byId.get('with'), headers);
        assert.equal(byId.get('without'), undefined);
      },
    },
  ],
};
