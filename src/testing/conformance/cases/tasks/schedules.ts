import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { newInstance } from '../../sample-data.ts';
import { only } from '../../expectations.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';
import { createTask, newTask, putSchedule, tickOf } from '../../task-helpers.ts';

async function read(store: StoreUnderTest, name: string) {
  return only(await store.provider.listSchedules({ limit: 1, names: [name] }), 'schedule');
}

async function ids(store: StoreUnderTest): Promise<readonly string[]> {
  const { instances: records } = await store.provider.listInstances({ filter: {}, limit: 100 });
  return records.map(({ instanceId }) => instanceId).toSorted();
}

export const schedules: Capability = {
  title: 'schedules',
  cases: [
    {
      id: 'schedule/comes-as-it-was-put',
      title: 'putSchedule() creates a schedule with its given values and a revision',
      async run(store) {
        const now = store.clock.now();
        const record = await putSchedule(store, 'a', 5);
        assert.ok(record.revision > 0);
        assert.deepEqual(record, {
          name: 'a',
          definition: '{"of":"a"}',
          revision: record.revision,
          paused: false,
          nextAt: 5,
          lastTickAt: null,
          lastInstanceId: null,
          lastError: null,
          runIds: [],
          bufferedTicks: [],
          skippedTicks: 0,
          createdAt: now,
          updatedAt: now,
        });
        assert.deepEqual(await read(store, 'a'), record);
      },
    },
    {
      id: 'schedule/a-change-keeps-its-past',
      title: 'putSchedule() on an existing schedule keeps pause, last tick and creation time',
      async run(store) {
        const { provider } = store;
        const first = await putSchedule(store, 'a');
        const tasks = [newTask('t')];
        assert.deepEqual(await provider.tickSchedules([tickOf(first, { tasks })]), [true]);
        await provider.setSchedulePaused('a', true);
        const before = await read(store, 'a');
        await store.clock.advance(5);
        const write = { name: 'a', definition: '"new"', nextAt: null };
        const changed = await provider.putSchedule(write);
        assert.ok(changed !== undefined && changed.revision !== before.revision);
        assert.deepEqual(changed, {
          ...before,
          definition: '"new"',
          nextAt: null,
          revision: changed.revision,
          updatedAt: store.clock.now(),
        });
        assert.deepEqual([changed.paused, changed.lastInstanceId], [true, 't']);
      },
    },
    {
      id: 'schedule/a-write-can-be-fenced',
      title: 'putSchedule() with an outdated ifRevision changes nothing',
      async run(store) {
        const { provider } = store;
        const write = { name: 'a', definition: '1', nextAt: 1 };
        assert.equal(await provider.putSchedule({ ...write, ifRevision: 7 }), undefined);
        assert.deepEqual(await provider.listSchedules({ limit: 9 }), []);
        const first = await provider.putSchedule({ ...write, ifRevision: 0 });
        assert.ok(first);
        const { revision } = first;
        for (const ifRevision of [0, revision + 1]) {
          assert.equal(await provider.putSchedule({ ...write, nextAt: 2, ifRevision }), undefined);
        }
        assert.deepEqual(await read(store, 'a'), first);
        const second = await provider.putSchedule({ ...write, nextAt: 3, ifRevision: revision });
        assert.equal(second?.nextAt, 3);
      },
    },
    {
      id: 'schedule/is-planned-by-the-stores-clock',
      title: 'putSchedule() calls plan with the store clock and writes nothing for undefined',
      async run(store) {
        const { provider, clock } = store;
        await clock.advance(77);
        const plan = (nowMs: number) => ({ definition: `from ${nowMs}`, nextAt: nowMs + 5 });
        const record = await provider.putSchedule({ name: 'a', plan });
        const now = clock.now();
        assert.deepEqual([record?.definition, record?.nextAt], [`from ${now}`, now + 5]);
        const nothing = { name: 'a', plan: () => undefined };
        assert.equal(await store.expectNoChange(() => provider.putSchedule(nothing)), undefined);
        const stale = { name: 'a', plan, ifRevision: (record?.revision ?? 0) + 1 };
        assert.equal(await store.expectNoChange(() => provider.putSchedule(stale)), undefined);
      },
    },
    {
      id: 'schedule/a-resume-is-planned-by-the-stores-clock',
      title: 'a resume computes nextAt from the store clock',
      async run(store) {
        const { provider, clock } = store;
        await putSchedule(store, 'a', clock.now() + 1);
        await provider.setSchedulePaused('a', true);
        await clock.advance(77);
        const nextAt = (nowMs: number): number => nowMs + 9;
        assert.equal(await provider.setSchedulePaused('a', false, { nextAt }), true);
        const [record] = await provider.listSchedules({ limit: 1, names: ['a'] });
        assert.equal(record?.nextAt, clock.now() + 9);
      },
    },
    {
      id: 'schedule/can-be-paused',
      title: 'a paused schedule is not due; a resumed one is due at its new time',
      async run(store) {
        const { provider } = store;
        const now = store.clock.now();
        const { revision } = await putSchedule(store, 'a', now);
        assert.equal(await provider.setSchedulePaused('a', true), true);
        const paused = await read(store, 'a');
        assert.deepEqual([paused.paused, paused.nextAt], [true, now]);
        assert.notEqual(paused.revision, revision);
        assert.deepEqual(await provider.dueSchedules(9), {
          due: [],
          nowMs: now,
          nextAt: null,
          waitsFor: [],
        });
        assert.equal(await provider.setSchedulePaused('a', false, { nextAt: now + 10 }), true);
        assert.deepEqual(await provider.dueSchedules(9), {
          due: [],
          nowMs: now,
          nextAt: now + 10,
          waitsFor: [],
        });
        assert.equal(await provider.setSchedulePaused('a', false, { nextAt: null }), true);
        assert.equal((await read(store, 'a')).nextAt, null);
        assert.equal(await provider.setSchedulePaused('nobody', true), false);
      },
    },
    {
      id: 'schedule/a-resume-can-be-fenced',
      title: 'a resume with an outdated ifRevision changes nothing',
      async run(store) {
        const { provider } = store;
        const now = store.clock.now();
        await putSchedule(store, 'a', now + 5);
        await provider.setSchedulePaused('a', true);
        const { revision: old } = await read(store, 'a');
        await provider.putSchedule({ name: 'a', definition: 'another', nextAt: now + 7 });
        const resume = { nextAt: now + 6, ifRevision: old };
        assert.equal(await provider.setSchedulePaused('a', false, resume), false);
        const { paused, nextAt, revision } = await read(store, 'a');
        assert.deepEqual([paused, nextAt], [true, now + 7]);
        const again = { nextAt: now + 8, ifRevision: revision };
        assert.equal(await provider.setSchedulePaused('a', false, again), true);
        const resumed = await read(store, 'a');
        assert.deepEqual([resumed.paused, resumed.nextAt], [false, now + 8]);
        assert.equal(await provider.setSchedulePaused('b', false, again), false);
      },
    },
    {
      id: 'schedule/can-be-deleted',
      title: 'deleteSchedule() deletes the schedule and keeps the runs it started',
      async run(store) {
        const { provider } = store;
        const record = await putSchedule(store, 'a');
        await provider.tickSchedules([tickOf(record, { tasks: [newTask('t')] })]);
        assert.equal(await provider.deleteSchedule('a'), true);
        assert.equal(await provider.deleteSchedule('a'), false);
        assert.deepEqual(await provider.listSchedules({ limit: 9 }), []);
        assert.equal((await store.claimWorkOne()).instanceId, 't');
      },
    },
    {
      id: 'schedule/lists-by-name',
      title: 'listSchedules() returns schedules by name, in pages or filtered by names',
      async run(store) {
        const { provider } = store;
        for (const name of ['b', 'a', 'd', 'c', `'%`]) await putSchedule(store, name);
        const list = async (params: Parameters<typeof provider.listSchedules>[0]) =>
          (await provider.listSchedules(params)).map(({ name }) => name);
        assert.deepEqual(await list({ limit: 3 }), [`'%`, 'a', 'b']);
        assert.deepEqual(await list({ limit: 3, afterName: 'b' }), ['c', 'd']);
        assert.deepEqual(await list({ limit: 9, names: ['d', 'x', 'a', 'd'] }), ['a', 'd']);
        assert.deepEqual(await list({ limit: 1, names: ['d', 'a', 'c'], afterName: 'a' }), ['c']);
        assert.deepEqual(await list({ limit: 9, names: [] }), []);
      },
    },
    {
      id: 'schedule/list-ends-at-its-bytes',
      title: 'listSchedules() with maxBytes ends with the first oversized schedule, withheld',
      async run({ provider }) {
        const definition = 'x'.repeat(100);
        for (const name of ['a', 'b', 'c']) {
          await provider.putSchedule({ name, definition, nextAt: null });
        }
        const list = async (maxBytes: number, afterName?: string) => {
          const page = { limit: 9, maxBytes, ...(afterName !== undefined && { afterName }) };
          const records = await provider.listSchedules(page);
          return records.map((record) => [record.name, record.definition, record.withheld]);
        };
        assert.deepEqual(await list(250), [
          ['a', definition, undefined],
          ['b', definition, undefined],
          ['c', '', true],
        ]);
        assert.deepEqual(await list(250, 'b'), [['c', definition, undefined]]);
        assert.deepEqual(await list(1), [
          ['a', definition, undefined],
          ['b', '', true],
        ]);
      },
    },
    {
      id: 'schedule/the-longest-due-is-first',
      title: 'dueSchedules() returns the longest due first, and the next due time',
      async run(store) {
        const { provider } = store;
        const now = store.clock.now();
        await putSchedule(store, 'later', now + 50);
        await putSchedule(store, 'b', now - 1);
        await putSchedule(store, 'a', now);
        await putSchedule(store, 'c', now - 9);
        await putSchedule(store, 'never', null);
        const due = async (max: number) => {
          const result = await provider.dueSchedules(max);
          return [result.due.map(({ name }) => name), result.nowMs, result.nextAt];
        };
        assert.deepEqual(await due(9), [['c', 'b', 'a'], now, now + 50]);
        assert.deepEqual(await due(2), [['c', 'b'], now, now]);
        await store.clock.advance(50);
        assert.deepEqual(await due(9), [['c', 'b', 'a', 'later'], now + 50, null]);
      },
    },
    {
      id: 'schedule/a-tick-starts-and-moves-on',
      title: 'tickSchedules() creates the instances and tasks and advances the schedule',
      async run(store) {
        const { provider } = store;
        const record = await putSchedule(store, 'a');
        await store.clock.advance(5);
        const tick = tickOf(record, {
          nextAt: 3_000,
          lastTickAt: 2_000,
          instances: [newInstance('i')],
          tasks: [newTask('t', { priority: 3 }), newTask('u')],
        });
        assert.deepEqual(await provider.tickSchedules([tick]), [true]);
        const moved = await read(store, 'a');
        assert.notEqual(moved.revision, record.revision);
        assert.deepEqual(moved, {
          ...record,
          revision: moved.revision,
          nextAt: 3_000,
          lastTickAt: 2_000,
          lastInstanceId: 'u',
          runIds: ['i', 't', 'u'],
          updatedAt: store.clock.now(),
        });
        assert.equal((await store.claimOne()).instanceId, 'i');
        assert.equal((await store.claimWork()).length, 2);
      },
    },
    {
      id: 'schedule/a-tick-happens-once',
      title: 'only one of several ticks for one revision takes effect',
      async run(store) {
        const { provider } = store;
        const first = await putSchedule(store, 'a');
        const tick = (id: string) => tickOf(first, { tasks: [newTask(id)] });
        const batch = await provider.tickSchedules([tick('one'), tick('two')]);
        assert.deepEqual(batch, [true, false]);
        const second = await read(store, 'a');
        const calls = await Promise.all(
          ['three', 'four', 'five'].map((id) =>
            provider.tickSchedules([tickOf(second, { tasks: [newTask(id)] })]),
          ),
        );
        assert.deepEqual(calls.flat().filter(Boolean), [true]);
        assert.equal((await ids(store)).length, 2);
      },
    },
    {
      id: 'schedule/needs-its-revision',
      title: 'a tick of a changed, paused, deleted or recreated schedule starts nothing',
      async run(store) {
        const { provider } = store;
        const tick = async (record: Parameters<typeof tickOf>[0]) =>
          provider.tickSchedules([tickOf(record, { tasks: [newTask('t')] })]);
        const old = await putSchedule(store, 'a');
        await putSchedule(store, 'a');
        assert.deepEqual(await tick(old), [false]);
        await provider.setSchedulePaused('a', true);
        const paused = await read(store, 'a');
        assert.deepEqual(await tick(paused), [false]);
        assert.deepEqual(await read(store, 'a'), paused);
        await provider.deleteSchedule('a');
        assert.deepEqual(await tick(paused), [false]);
        for (let round = 0; round < 5; round += 1) {
          await putSchedule(store, 'a');
          for (const record of [old, paused]) assert.deepEqual(await tick(record), [false]);
        }
        assert.deepEqual(await ids(store), []);
      },
    },
    {
      id: 'schedule/what-is-there-counts-as-started',
      title: 'a tick whose id or dedupe key is taken advances and changes no run',
      async run(store) {
        const { provider } = store;
        const record = await putSchedule(store, 'a');
        await store.create('i');
        await createTask(store, 't');
        await createTask(store, 'holder', { dedupeKey: 'k' });
        const taken = tickOf(record, {
          instances: [newInstance('i', { inputHash: 'other' })],
          tasks: [newTask('t'), newTask('new', { dedupeKey: 'k' })],
        });
        assert.deepEqual(await store.expectNoChange(() => provider.tickSchedules([taken])), [true]);
        const { lastInstanceId, nextAt, lastError } = await read(store, 'a');
        assert.deepEqual([lastInstanceId, nextAt, lastError], ['holder', taken.nextAt, null]);
      },
    },
    {
      id: 'schedule/an-error-is-on-record',
      title: 'a tick with an error advances and records it; the next tick clears it',
      async run(store) {
        const { provider } = store;
        const first = await putSchedule(store, 'a');
        await provider.tickSchedules([tickOf(first, { tasks: [newTask('t')] })]);
        await provider.tickSchedules([tickOf(await read(store, 'a'), { error: 'no such task' })]);
        const failed = await read(store, 'a');
        assert.deepEqual([failed.lastError, failed.lastInstanceId], ['no such task', 't']);
        await provider.tickSchedules([tickOf(failed, { tasks: [newTask('u')] })]);
        assert.equal((await read(store, 'a')).lastError, null);
      },
    },
    {
      id: 'schedule/a-bad-tick-spares-its-neighbours',
      title: 'an invalid tick starts nothing, records an error and affects no other tick',
      async run(store) {
        const { provider } = store;
        const [bad, good] = [await putSchedule(store, 'bad'), await putSchedule(store, 'good')];
        const results = await provider.tickSchedules([
          tickOf(bad, { tasks: [newTask('half'), newTask('x', { priority: 1_000 })] }),
          tickOf(good, { tasks: [newTask('t')] }),
        ]);
        assert.deepEqual(results, [true, true]);
        assert.deepEqual(await ids(store), ['t']);
        const record = await read(store, 'bad');
        assert.ok(record.lastError !== null && record.nextAt === 2_000);
        assert.equal(record.lastInstanceId, null);
      },
    },
    {
      id: 'shared/a-tick-happens-once',
      title: 'concurrent ticks of one revision by two processes take effect once',
      async run(store) {
        const other = await store.reopen();
        let record = await putSchedule(store, 'a');
        for (let round = 0; round < 10; round += 1) {
          const [mine, theirs] = [`mine ${round}`, `theirs ${round}`];
          const results = await Promise.all([
            store.provider.tickSchedules([tickOf(record, { tasks: [newTask(mine)] })]),
            other.tickSchedules([tickOf(record, { tasks: [newTask(theirs)] })]),
          ]);
          assert.deepEqual(results.flat().filter(Boolean), [true]);
          record = await read(store, 'a');
        }
        assert.equal((await ids(store)).length, 10);
      },
    },
  ],
};
