import assert from 'node:assert/strict';
import type { AuditEntry, ListAuditParams } from '../../../../providers/contract/management.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  auditEntry,
  createEnded,
  deleteTree,
  prune,
  runExecutions,
} from '../../deletion-helpers.ts';
import { only } from '../../expectations.ts';
import { raised } from '../../sample-data.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';

const list = ({ provider }: StoreUnderTest, params: Partial<ListAuditParams> = {}) =>
  provider.listAudit({ limit: 100, ...params });

const cancelOf = (instanceId: string, audit?: AuditEntry) => ({
  instanceId,
  reason: 'stop',
  actor: 'me',
  cleanupMs: 60_000,
  ...(audit !== undefined && { audit }),
});

const terminationOf = (instanceId: string, audit?: AuditEntry) => ({
  instanceId,
  reason: 'stop',
  actor: 'me',
  tree: false,
  ...(audit !== undefined && { audit }),
});

async function keyOf({ provider }: StoreUnderTest, instanceId: string): Promise<number> {
  const [record] = await provider.getInstances([instanceId]);
  assert.ok(record, `${instanceId} does not exist`);
  return record.instanceKey;
}

/** Raises an event at instances, as a bulk operation does. */
async function raiseAt(store: StoreUnderTest, audit: AuditEntry, ids: readonly string[]) {
  const messages = [];
  for (const instanceId of ids) {
    const instanceKey = await keyOf(store, instanceId);
    messages.push({ instanceId, message: raised('go'), bulk: { audit, instanceKey } });
  }
  return store.provider.enqueueMessages(messages);
}

export const operatorAudits: Capability = {
  title: 'audit of operator actions',
  cases: [
    {
      id: 'audit/records-cancels',
      title: 'an audited cancel is recorded once, with its instance, and only if it changes it',
      async run(store) {
        await store.begin('a');
        await store.begin('b');
        await store.begin('c');
        await store.begin('d');
        await createEnded(store, 'ended');
        const audit = auditEntry({ action: 'cancel', reason: 'why', instanceId: 'a' });
        await store.provider.requestCancel([cancelOf('a', audit), cancelOf('b')]);
        const { auditKey: _key, ...record } = only(await list(store), 'record');
        assert.deepEqual(record, {
          ...audit,
          at: store.clock.now(),
          instances: 1,
          instancesDeleted: 0,
          executionsDeleted: 0,
          eventsDeleted: 0,
          queueMessagesDeleted: 0,
        });
        const bulk = auditEntry({ action: 'cancelBulk' });
        const all = ['a', 'b', 'c', 'ended', 'missing'];
        await store.provider.requestCancel(all.map((id) => cancelOf(id, bulk)));
        await store.provider.requestCancel([cancelOf('c', bulk), cancelOf('d', bulk)]);
        const { instances } = only(await list(store, { auditId: bulk.auditId }), 'bulk record');
        assert.equal(instances, 2);
        const refused = auditEntry({ action: 'cancel' });
        const replaced = { ...cancelOf('d', refused), incarnation: 'another' };
        await store.provider.requestCancel([cancelOf('ended', refused), replaced]);
        assert.deepEqual(await list(store, { auditId: refused.auditId }), []);
      },
    },
    {
      id: 'audit/records-terminations',
      title: 'an audited termination is recorded only if it changes the given incarnation',
      async run(store) {
        await store.begin('a');
        await createEnded(store, 'ended');
        const refused = auditEntry({ action: 'terminate' });
        const replaced = { ...terminationOf('a', refused), incarnation: 'another' };
        const [result] = await store.provider.terminate([
          replaced,
          terminationOf('ended', refused),
          terminationOf('missing', refused),
        ]);
        assert.deepEqual(result, { found: false, changed: false, status: null });
        assert.deepEqual(await list(store), []);
        const audit = auditEntry({ action: 'terminate', instanceId: 'a' });
        await store.provider.terminate([terminationOf('a', audit)]);
        await store.provider.terminate([terminationOf('a', audit)]);
        const { instances, instanceId } = only(await list(store), 'record');
        assert.deepEqual([instances, instanceId], [1, 'a']);
      },
    },
    {
      id: 'audit/commits-with-the-change',
      title: 'an audited change and its record are visible at one time',
      async run(store) {
        await store.begin('a');
        const audit = auditEntry({ action: 'cancel', instanceId: 'a' });
        const canceling = store.provider.requestCancel([cancelOf('a', audit)]);
        const progress = { isDone: false };
        const done = canceling.finally(() => {
          progress.isDone = true;
        });
        try {
          while (!progress.isDone) {
            // A read may resolve without an iteration of the event loop, which a commit needs.
            await new Promise((resolve) => setImmediate(resolve));
            const [record] = await store.provider.getInstances(['a']);
            // Read second: if the change was visible, its record must be.
            const records = await list(store);
            if (record?.status === 'canceling') assert.equal(records.length, 1, 'no record yet');
          }
        } finally {
          // The store closes when the case ends, and the request must not outlive it.
          await done;
        }
        assert.equal((await list(store)).length, 1);
      },
    },
    {
      id: 'audit/records-events',
      title: 'an event of a bulk operation is recorded if it was enqueued',
      async run(store) {
        await store.begin('a');
        await store.begin('b');
        await createEnded(store, 'ended');
        const audit = auditEntry({ action: 'raiseEventBulk' });
        assert.deepEqual(await raiseAt(store, audit, ['ended', 'b', 'a']), [
          'over',
          'enqueued',
          'enqueued',
        ]);
        assert.equal(only(await list(store), 'record').instances, 2);
        const bulk = { audit: auditEntry(), instanceKey: (await keyOf(store, 'a')) + 1_000 };
        const stray = { instanceId: 'a', message: raised('go'), bulk };
        assert.deepEqual(await store.provider.enqueueMessages([stray]), ['missing']);
        assert.equal((await list(store)).length, 1);
      },
    },
    {
      id: 'audit/a-repeated-event-is-not-raised-twice',
      title: 'a repeated part of a bulk operation enqueues no event twice, also concurrently',
      async run(store) {
        for (const id of ['a', 'b', 'c', 'd']) await store.begin(id);
        const audit = auditEntry({ action: 'raiseEventBulk' });
        await raiseAt(store, audit, ['d', 'c']);
        assert.deepEqual(await raiseAt(store, audit, ['d', 'c', 'b']), [
          'repeated',
          'repeated',
          'enqueued',
        ]);
        const both = await Promise.all([
          raiseAt(store, audit, ['a']),
          raiseAt(store, audit, ['a']),
        ]);
        assert.deepEqual(both.flat().toSorted(), ['enqueued', 'repeated']);
        assert.equal(only(await list(store), 'record').instances, 4);
        const messages = (await store.claim()).map(({ messages: { length } }) => length);
        assert.deepEqual(messages, [1, 1, 1, 1]);
        const other = auditEntry({ action: 'raiseEventBulk' });
        assert.deepEqual(await raiseAt(store, other, ['d']), ['enqueued']);
      },
    },
    {
      id: 'audit/records-schedules',
      title: 'writes of schedules are recorded exactly if they write something',
      async run({ provider, ...store }) {
        const entry = (action: AuditEntry['action']) => auditEntry({ action });
        const put = { name: 's', definition: '{}', nextAt: null };
        await provider.putSchedule({ ...put, audit: entry('schedulePut') });
        await provider.putSchedule({ ...put, ifRevision: 0, audit: entry('schedulePut') });
        await provider.putSchedule({
          name: 's',
          plan: () => undefined,
          audit: entry('schedulePut'),
        });
        await provider.setSchedulePaused('s', true, { audit: entry('schedulePause') });
        await provider.setSchedulePaused('s', true, {
          ifRevision: 0,
          audit: entry('schedulePause'),
        });
        await provider.setSchedulePaused('t', true, { audit: entry('schedulePause') });
        await provider.setSchedulePaused('s', false, { audit: entry('scheduleResume') });
        await provider.deleteSchedule('s', entry('scheduleDelete'));
        await provider.deleteSchedule('s', entry('scheduleDelete'));
        const records = await provider.listAudit({ limit: 100 });
        assert.deepEqual(
          records.map(({ action, at, instances }) => [action, at, instances]),
          ['scheduleDelete', 'scheduleResume', 'schedulePause', 'schedulePut'].map((action) => [
            action,
            store.clock.now(),
            0,
          ]),
        );
      },
    },
    {
      id: 'audit/records-shutdowns',
      title: 'a session shutdown is recorded if it is accepted',
      async run(store) {
        const { provider } = store;
        const session = {
          sessionId: 's',
          label: null,
          owner: null,
          leaseMs: 60_000,
          variables: {},
        };
        await provider.openSession(session);
        const request = { sessionId: 's', mode: 'graceful', end: 'shutdown' } as const;
        const shutDown = (parts: object = {}) =>
          provider.shutdownSession({
            ...request,
            ...parts,
            audit: auditEntry({ action: 'sessionShutdown' }),
          });
        assert.equal((await shutDown()).kind, 'accepted');
        assert.equal((await shutDown()).kind, 'repeated');
        await shutDown({ sessionId: 'missing' });
        assert.equal(only(await list(store), 'record').action, 'sessionShutdown');
      },
    },
    {
      id: 'audit/records-settings',
      title: 'writeRecord() records its audit entry if the value changes',
      async run(store) {
        const { provider } = store;
        const entry = () => auditEntry({ action: 'retentionPause' });
        await provider.writeRecord('r', 'one', entry());
        await provider.writeRecord('r', 'one', entry());
        assert.equal((await list(store)).length, 1);
        await provider.writeRecord('r', null, entry());
        await provider.writeRecord('r', null, entry());
        assert.equal((await list(store)).length, 2);
        assert.equal(await provider.readRecord('r'), null);
      },
    },
    {
      id: 'audit/a-deleted-instance-is-not-named',
      title: 'deleting a tree removes its ids from the audit, and from no other record',
      async run(store) {
        await createEnded(store, 'kept');
        await runExecutions(store, 'a', { count: 3 });
        const named = (instanceId: string) => auditEntry({ action: 'prune', instanceId });
        await prune(store, 'a', { audit: named('a') });
        await store.provider.writeRecord('r', 'x', named('kept'));
        await deleteTree(store, ['a'], { force: true, audit: auditEntry() });
        const records = await list(store);
        assert.deepEqual(
          records.map(({ action, instanceId }) => [action, instanceId]),
          [
            ['delete', null],
            ['prune', 'kept'],
            ['prune', null],
          ],
        );
        assert.deepEqual(await list(store, { instanceId: 'a' }), []);
      },
    },
    {
      id: 'audit/filters-combine',
      title: 'listAudit() returns exactly the records that match all conditions',
      async run(store) {
        const write = (n: number, parts: Partial<AuditEntry>) =>
          store.provider.writeRecord('r', `${n}`, auditEntry({ auditId: `${n}`, ...parts }));
        await write(1, { action: 'cancel', actor: 'ann', instanceId: 'x' });
        await store.clock.advance(1_000);
        const at = store.clock.now();
        await write(2, { action: 'cancel', actor: 'bob', instanceId: 'x' });
        await write(3, { action: 'terminate', actor: 'ann', instanceId: 'y' });
        await store.clock.advance(1_000);
        await write(4, { action: 'delete', actor: null });
        const ids = async (params: Partial<ListAuditParams>) =>
          (await list(store, params)).map(({ auditId }) => auditId);
        assert.deepEqual(await ids({ actions: ['cancel', 'delete'] }), ['4', '2', '1']);
        assert.deepEqual(await ids({ actor: 'ann' }), ['3', '1']);
        assert.deepEqual(await ids({ instanceId: 'x' }), ['2', '1']);
        assert.deepEqual(await ids({ from: at }), ['4', '3', '2']);
        assert.deepEqual(await ids({ before: at }), ['1']);
        assert.deepEqual(await ids({ from: at, before: at + 1, actor: 'bob' }), ['2']);
        assert.deepEqual(await ids({ instanceId: 'x', actions: ['terminate'] }), []);
        assert.deepEqual(await ids({ auditId: '3' }), ['3']);
        assert.deepEqual(await ids({ auditId: '3', instanceId: 'x' }), []);
        assert.deepEqual(await ids({ instanceId: 'x', limit: 1 }), ['2']);
      },
    },
  ],
};
