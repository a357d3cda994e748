import { newWorker, workItem } from '../../src/testing/conformance/sample-data.ts';
import {
  type State,
  begin,
  charge,
  definition,
  fail,
  liveWorker,
  pause,
  scheduled,
} from './why-arrangements.ts';

/** The states of the instance `a` that depend on workers and pauses. */
export const workerStates: readonly State[] = [
  {
    state: 'pending, without a live worker',
    workers: [],
    arrange: async (store) => {
      await store.create('a');
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'worker', reason: 'noWorker', name: 'sample' }],
    short: 'No live worker has `sample`',
    text: 'No live worker has orchestration `sample`, due for 5 s. Start a worker that registers it.',
  },
  {
    state: 'pending, with a stale worker',
    workers: [{ ...liveWorker, heartbeatMs: 1_000 }],
    arrange: async (store) => {
      await store.create('a');
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'worker', reason: 'noWorker' }],
    short: 'No live worker has `sample`',
    text: 'No live worker has orchestration `sample`, due for 5 s. Start a worker that registers it.',
  },
  {
    state: 'due, with workers of other versions',
    workers: ['1', '9', '11', '12'].map((version) =>
      newWorker(version, { orchestrations: [{ name: 'sample', version }] }),
    ),
    arrange: (store) => store.create('a', { version: '10' }),
    waits: [{ kind: 'worker', reason: 'noWorker', version: '10', nearestVersion: '9' }],
    short: 'No live worker has `sample` version `10`',
    text: 'No live worker has orchestration `sample` version `10`, due for 0 ms. The nearest version that a live worker has is `9`. Start a worker that registers it.',
  },
  {
    state: 'a turn whose lease expired, without a live worker',
    workers: [],
    arrange: async (store) => {
      await store.create('a');
      await store.claim({ worker: 'w1' });
      await store.clock.advance(14_000);
    },
    waits: [{ kind: 'worker', reason: 'noWorker', expired: { worker: 'w1' } }],
    short: 'No live worker has `sample`',
    text: 'The lease of worker `w1` expired 4 s ago during a turn (claim 1). No live worker has orchestration `sample`, due for 4 s. Start a worker that registers it.',
  },
  {
    state: 'a queued activity that no live worker has',
    workers: [{ ...liveWorker, activities: ['other'] }],
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'activity', state: 'queued', unclaimed: 'noWorker' }],
    short: 'No live worker has `charge`',
    text: 'Waiting for activity `charge`: attempt 1 of 10 has been due for 3 s, and no live worker has its code. Start a worker that registers activity `charge`.',
  },
  {
    state: 'a retrying activity that no live worker has',
    workers: [],
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await fail(store, 12_000);
    },
    waits: [{ kind: 'activity', state: 'retrying', unclaimed: 'noWorker' }],
    short: 'No live worker has `charge`',
    text: 'Retrying `charge`: attempt 2 of 10 starts in 12 s, and no live worker has its code. Last error: card declined (CARD_DECLINED). Start a worker that registers activity `charge`.',
  },
  {
    state: 'a queued activity while all workers are busy',
    workers: [{ ...liveWorker, slots: { activities: 2, orchestrations: 1, inUse: 2 } }],
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'activity', state: 'queued', unclaimed: 'busy' }],
    short: 'Waits for a free worker to run `charge`, due for 3 s',
    text: 'Waiting for activity `charge`: attempt 1 of 10 has been due for 3 s, and all live workers that have its code are busy.',
  },
  {
    state: 'paused',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await pause(store, 'bad deploy');
      await store.raise('a', 'x');
      await store.clock.advance(5_000);
    },
    waits: [
      { kind: 'paused', target: 'instance', reason: 'bad deploy', actor: 'ada' },
      { kind: 'activity', unclaimed: 'paused' },
    ],
    short: 'Paused by `ada`: bad deploy',
    text: 'Paused by `ada` 5 s ago: bad deploy. Resume it with `client.resume(id)`. Waiting for activity `charge`: attempt 1 of 10 is paused.',
  },
  {
    state: 'pending, with a paused definition',
    workers: [],
    arrange: async (store) => {
      await store.provider.pauseDefinitions([definition('orchestration', 'sample')]);
      await store.create('a');
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'paused', target: 'orchestration', name: 'sample' }],
    short: 'Paused with orchestration `sample`',
    text: 'Orchestration `sample` was paused 5 s ago. Resume it with `client.resume({ kind: "orchestration", name: "sample" })`.',
  },
  {
    state: 'a queued activity with a paused definition',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.provider.pauseDefinitions([
        definition('activity', 'charge'),
        definition('activity', 'other'),
        definition('task', 'charge'),
      ]);
    },
    waits: [
      { kind: 'paused', target: 'activity', name: 'charge' },
      { kind: 'activity', unclaimed: 'paused' },
    ],
    short: 'Paused with activity `charge`',
    text: 'Activity `charge` was paused now. Resume it with `client.resume({ kind: "activity", name: "charge" })`. Waiting for activity `charge`: attempt 1 of 10 is paused.',
  },
  {
    state: 'activities of 5 paused definitions',
    arrange: async (store) => {
      const names = ['a1', 'a2', 'a3', 'a4', 'a5'];
      await begin(
        store,
        names.map((name, index) => scheduled(index + 1, name)),
        { workItems: names.map((name, index) => workItem(index + 1, { name })) },
      );
      await store.provider.pauseDefinitions(names.map((name) => definition('activity', name)));
    },
    waits: [
      ...Array.from({ length: 5 }, () => ({ kind: 'paused', target: 'activity' })),
      ...Array.from({ length: 5 }, () => ({ kind: 'activity', unclaimed: 'paused' })),
    ],
    short: 'Paused with activity `a1`',
    text: [
      ...['a1', 'a2', 'a3'].map(
        (name) =>
          `Activity \`${name}\` was paused now. Resume it with \`client.resume({ kind: "activity", name: "${name}" })\`.`,
      ),
      '2 more of its definitions are paused.',
      'Waiting for 5 operations: activity `a1` (attempt 1 is paused); activity `a2` (attempt 1 is paused); activity `a3` (attempt 1 is paused); and 2 more.',
    ].join(' '),
  },
];
