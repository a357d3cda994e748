import assert from 'node:assert/strict';
import type { Provider } from '../../../../providers/contract/provider.ts';
import type { NewWorker, WorkerRecord } from '../../../../providers/contract/workers.ts';
import { isLiveWorker } from '../../../../providers/rules/workers.ts';
import type { Capability } from '../../conformance-case.ts';
import { only } from '../../expectations.ts';
import { newProcess, newWorker } from '../../sample-data.ts';

const host = 'host-1';
const dayMs = 86_400_000;
const heartbeatMs = 10_000;

async function listed(provider: Provider): Promise<readonly WorkerRecord[]> {
  return (await provider.listWorkers()).workers;
}

/** Returns each worker as `id status`, in the order of the list. */
async function statuses(provider: Provider): Promise<readonly string[]> {
  const { nowMs, workers } = await provider.listWorkers();
  return workers.map(
    (worker) => `${worker.workerId} ${isLiveWorker(worker, nowMs) ? 'live' : 'stale'}`,
  );
}

function renew(provider: Provider, workerId: string, hostId: string | null = null) {
  return provider.renewWorkers({ workers: [{ workerId, inUse: 0, leaked: 0 }], hostId });
}

export const workers: Capability = {
  title: 'registry of workers',
  cases: [
    {
      id: 'worker/is-listed-with-its-values',
      title: 'listWorkers() returns a registered worker with all its values',
      async run(store) {
        const other = await store.reopen();
        const worker: NewWorker = {
          workerId: 'w1',
          name: 'mailer',
          host: 'web-1',
          pid: 4_711,
          buildId: 'build-7',
          orchestrations: [
            { name: 'order', version: '1' },
            { name: 'order', version: '2' },
          ],
          activities: ['ship'],
          tasks: ['mail', 'sms'],
          slots: { activities: 100, orchestrations: 256, inUse: 3 },
          leaked: 1,
          heartbeatMs,
          attemptLimits: [
            { kind: 'activity', name: 'ship', maxAttempts: 8 },
            { kind: 'onFail', name: 'mail', maxAttempts: 3 },
          ],
          runningMs: 5_000,
        };
        await store.provider.registerWorkers([worker]);
        const now = store.clock.now();
        const { processId, ...record } = only(await listed(other), 'worker');
        assert.equal(typeof processId, 'string');
        const { runningMs, ...values } = worker;
        assert.deepEqual(record, {
          ...values,
          startedAt: now - runningMs,
          lastSeenAt: now,
          diedAt: null,
        });
        await store.provider.registerWorkers([{ ...worker, tasks: [], leaked: 0 }]);
        const { tasks, leaked } = only(await listed(other), 'worker');
        assert.deepEqual([tasks, leaked], [[], 0]);
      },
    },
    {
      id: 'worker/times-are-those-of-the-store',
      title: 'a registration and a heartbeat are timed by the store, not by the worker',
      async run(store) {
        await store.provider.registerWorkers([newWorker('a', { runningMs: 0 })]);
        const registeredAt = store.clock.now();
        await store.clock.advance(1_234);
        await renew(store.provider, 'a');
        const { startedAt, lastSeenAt } = only(await listed(store.provider), 'worker');
        assert.deepEqual([startedAt, lastSeenAt], [registeredAt, registeredAt + 1_234]);
      },
    },
    {
      id: 'worker/equal-names-are-two-workers',
      title: 'workers with the same name, host and pid are listed separately',
      async run(store) {
        const other = await store.reopen();
        const same = { name: 'mailer', host: 'web', pid: 1 };
        await store.provider.registerWorkers([newWorker('a', same)]);
        await other.registerWorkers([newWorker('b', same)]);
        const [a, b, ...others] = await listed(store.provider);
        assert.deepEqual([a?.workerId, b?.workerId, others], ['a', 'b', []]);
        assert.notEqual(a?.processId, b?.processId);
        await store.provider.unregisterWorkers(['a']);
        assert.equal(only(await listed(other), 'worker').workerId, 'b');
      },
    },
    {
      id: 'worker/names-are-only-text',
      title: 'names, hosts and definitions of workers are returned unchanged',
      async run(store) {
        const texts = [
          `'; DROP TABLE workers; --`,
          '<script>alert("\u202e")</script>',
          '{"a":1}\u0000\u0001\t\\',
          '\u{1f4be} ä ß',
        ];
        await store.provider.registerWorkers(
          texts.map((text, index) =>
            newWorker(`w${index}`, {
              name: text,
              host: text,
              buildId: text,
              orchestrations: [{ name: text, version: text }],
              activities: [text],
              tasks: [text],
            }),
          ),
        );
        const records = await listed(store.provider);
        for (const [index, text] of texts.entries()) {
          const found = records.find(({ workerId }) => workerId === `w${index}`);
          assert.deepEqual(
            [found?.name, found?.host, found?.buildId, found?.activities, found?.tasks],
            [text, text, text, [text], [text]],
          );
          assert.deepEqual(found?.orchestrations, [{ name: text, version: text }]);
        }
      },
    },
    {
      id: 'worker/is-listed-in-order',
      title: 'listWorkers() orders 200 workers by name and id',
      async run(store) {
        const ids = Array.from({ length: 200 }, (_, index) => `w${String(index).padStart(3, '0')}`);
        const all = ids.map((id, index) => newWorker(id, { name: `name-${index % 7}` }));
        await store.provider.registerWorkers(all.toReversed());
        assert.deepEqual(
          (await listed(store.provider)).map(({ name, workerId }) => `${name} ${workerId}`),
          all.map(({ name, workerId }) => `${name} ${workerId}`).toSorted(),
        );
      },
    },
    {
      id: 'worker/is-forgotten-after-a-day',
      title: 'a worker that was not seen for over a day is neither listed nor kept',
      async run(store) {
        await store.provider.registerWorkers([newWorker('old'), newWorker('seen')]);
        await store.clock.advance(dayMs);
        assert.equal((await listed(store.provider)).length, 2);
        await renew(store.provider, 'seen');
        await store.clock.advance(1);
        assert.equal(only(await listed(store.provider), 'worker').workerId, 'seen');
        await store.provider.registerWorkers([newWorker('new')]);
        assert.deepEqual((await renew(store.provider, 'old')).unknown, ['old']);
        assert.deepEqual((await renew(store.provider, 'seen')).unknown, []);
      },
    },
    {
      id: 'worker/stale-workers-are-bounded',
      title: 'registerWorkers() keeps 1,000 stale workers, the last seen ones, and all live ones',
      async run(store) {
        const { provider, clock } = store;
        const many = (prefix: string, count: number) =>
          Array.from({ length: count }, (_, index) => newWorker(`${prefix}${index}`));
        await provider.registerWorkers(many('first', 3));
        await clock.advance(1_000);
        await provider.registerWorkers(many('stale', 1_000));
        await clock.advance(4 * heartbeatMs);
        await provider.registerWorkers(many('live', 1_001));
        const ids = (await listed(provider)).map(({ workerId }) => workerId);
        assert.equal(ids.filter((id) => id.startsWith('live')).length, 1_001);
        assert.equal(ids.filter((id) => id.startsWith('stale')).length, 1_000);
        assert.equal(ids.filter((id) => id.startsWith('first')).length, 0);
      },
    },
    {
      id: 'worker/a-heartbeat-is-recorded',
      title: 'renewWorkers() records the time and numbers of the given workers only',
      async run(store) {
        const { provider, clock } = store;
        await provider.registerWorkers([newWorker('a'), newWorker('b'), newWorker('c')]);
        const before = await listed(provider);
        await clock.advance(5_000);
        const beats = [
          { workerId: 'a', inUse: 7, leaked: 2 },
          { workerId: 'b', inUse: 0, leaked: 0 },
        ];
        const result = await provider.renewWorkers({ workers: beats, hostId: null });
        assert.deepEqual(result, { unknown: [], processes: [] });
        const [a, b, c] = await listed(provider);
        assert.ok(a && b && before[0] && before[1]);
        const lastSeenAt = clock.now();
        const slots = { ...before[0].slots, inUse: 7 };
        assert.deepEqual(a, { ...before[0], lastSeenAt, slots, leaked: 2 });
        assert.deepEqual(b, { ...before[1], lastSeenAt });
        assert.deepEqual(c, before[2]);
      },
    },
    {
      id: 'worker/unknown-workers-are-returned',
      title: 'renewWorkers() returns workers that are not registered and does not register them',
      async run(store) {
        await store.provider.registerWorkers([newWorker('a')]);
        const beats = ['a', 'gone'].map((workerId) => ({ workerId, inUse: 0, leaked: 0 }));
        const { unknown } = await store.provider.renewWorkers({ workers: beats, hostId: null });
        assert.deepEqual(unknown, ['gone']);
        assert.equal((await listed(store.provider)).length, 1);
      },
    },
    {
      id: 'worker/a-lost-process-is-returned',
      title: 'renewWorkers() returns all workers if their process is not registered',
      async run(store) {
        await store.provider.registerWorkers([newWorker('a')]);
        assert.deepEqual((await renew(store.provider, 'a', host)).unknown, ['a']);
        await store.provider.registerProcess(newProcess(host));
        assert.deepEqual((await renew(store.provider, 'a', host)).unknown, []);
        await store.provider.unregisterProcess();
        assert.deepEqual((await renew(store.provider, 'a', host)).unknown, ['a']);
        assert.deepEqual((await renew(store.provider, 'a')).unknown, []);
      },
    },
    {
      id: 'worker/a-heartbeat-lists-processes',
      title: 'renewWorkers() returns the other processes of the host',
      async run(store) {
        const other = await store.reopen();
        const elsewhere = await store.reopen();
        await store.provider.registerProcess(newProcess(host));
        await other.registerProcess(newProcess(host, { pid: 8, startTime: '42' }));
        await elsewhere.registerProcess(newProcess('host-2', { pid: 9 }));
        await store.provider.registerWorkers([newWorker('a')]);
        const { processes } = await renew(store.provider, 'a', host);
        assert.deepEqual(processes, await store.provider.listProcesses(host));
        assert.deepEqual([only(processes, 'process').pid, processes[0]?.startTime], [8, '42']);
        assert.deepEqual((await renew(store.provider, 'a')).processes, []);
      },
    },
    {
      id: 'worker/leaves-at-once',
      title: 'unregisterWorkers() removes a worker immediately and can be repeated',
      async run(store) {
        await store.provider.registerWorkers([newWorker('a'), newWorker('b')]);
        await store.provider.unregisterWorkers(['a']);
        await store.provider.unregisterWorkers(['a', 'unknown']);
        await store.provider.unregisterWorkers([]);
        assert.deepEqual(await statuses(store.provider), ['b live']);
        assert.deepEqual((await renew(store.provider, 'a')).unknown, ['a']);
      },
    },
    {
      id: 'worker/removes-only-its-own',
      title: 'unregisterWorkers() keeps workers of other processes',
      async run(store) {
        const other = await store.reopen();
        await store.provider.registerWorkers([newWorker('a')]);
        await other.registerWorkers([newWorker('b')]);
        await other.unregisterWorkers(['a', 'b']);
        assert.deepEqual(await statuses(other), ['a live']);
      },
    },
    {
      id: 'worker/a-silent-worker-becomes-stale',
      title: 'a worker is live for three of its heartbeats, then listed as stale',
      async run(store) {
        const { provider, clock } = store;
        const slow = newWorker('slow', { heartbeatMs: 6 * heartbeatMs });
        await provider.registerWorkers([newWorker('a'), newWorker('b'), slow]);
        await clock.advance(heartbeatMs);
        await renew(provider, 'b');
        await clock.advance(2 * heartbeatMs);
        assert.deepEqual(await statuses(provider), ['a live', 'b live', 'slow live']);
        await clock.advance(1);
        assert.deepEqual(await statuses(provider), ['a stale', 'b live', 'slow live']);
        await clock.advance(heartbeatMs);
        assert.deepEqual(await statuses(provider), ['a stale', 'b stale', 'slow live']);
        await renew(provider, 'a');
        assert.deepEqual(await statuses(provider), ['a live', 'b stale', 'slow live']);
      },
    },
    {
      id: 'worker/age-is-that-of-the-store',
      title: 'listWorkers() returns the time of the store with the workers',
      async run(store) {
        assert.deepEqual(await store.provider.listWorkers(), {
          nowMs: store.clock.now(),
          workers: [],
        });
        await store.provider.registerWorkers([newWorker('a')]);
        const seenAt = store.clock.now();
        await store.clock.advance(1_000);
        const { nowMs, workers: list } = await store.provider.listWorkers();
        assert.equal(nowMs, seenAt + 1_000);
        assert.equal(nowMs - (list[0]?.lastSeenAt ?? 0), 1_000);
      },
    },
    {
      id: 'worker/a-takeover-marks-the-dead',
      title: 'takeOverClaims() makes the workers of the dead process stale, and no others',
      async run(store) {
        const survivor = await store.reopen();
        const elsewhere = await store.reopen();
        await store.provider.registerProcess(newProcess(host));
        await survivor.registerProcess(newProcess(host, { pid: 2 }));
        await elsewhere.registerProcess(newProcess('host-2'));
        await store.provider.registerWorkers([newWorker('a1'), newWorker('a2')]);
        await survivor.registerWorkers([newWorker('b')]);
        await elsewhere.registerWorkers([newWorker('c')]);
        const [dead] = await survivor.listProcesses(host);
        await store.clock.advance(1_000);
        await survivor.takeOverClaims([dead?.processId ?? '']);
        assert.deepEqual(await statuses(survivor), ['a1 stale', 'a2 stale', 'b live', 'c live']);
        const [a1] = await listed(survivor);
        assert.deepEqual(
          [a1?.diedAt, a1?.lastSeenAt],
          [store.clock.now(), store.clock.now() - 1_000],
        );
      },
    },
    {
      id: 'worker/a-heartbeat-revives',
      title: 'a heartbeat makes a worker live whose process was taken over by mistake',
      async run(store) {
        const survivor = await store.reopen();
        await store.provider.registerProcess(newProcess(host));
        await store.provider.registerWorkers([newWorker('a')]);
        const [alive] = await survivor.listProcesses(host);
        await survivor.takeOverClaims([alive?.processId ?? '']);
        assert.deepEqual(await statuses(survivor), ['a stale']);
        assert.deepEqual((await renew(store.provider, 'a', host)).unknown, ['a']);
        assert.deepEqual(await statuses(survivor), ['a live']);
      },
    },
    {
      id: 'process/is-kept-by-its-workers',
      title: 'heartbeats of its workers keep a process registered',
      async run(store) {
        const other = await store.reopen();
        await store.provider.registerProcess(newProcess(host));
        await store.provider.registerWorkers([newWorker('a')]);
        await store.clock.advance(dayMs);
        await renew(store.provider, 'a', host);
        await store.clock.advance(1_000);
        await other.registerProcess(newProcess(host, { pid: 2 }));
        assert.equal((await other.listProcesses(host)).length, 1);
        await store.clock.advance(dayMs);
        await other.registerProcess(newProcess(host, { pid: 2 }));
        assert.deepEqual(await other.listProcesses(host), []);
      },
    },
  ],
};
