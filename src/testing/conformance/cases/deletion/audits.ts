import assert from 'node:assert/strict';
import { randomToken } from '../../../../model/values/random-id.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  auditEntry,
  completed,
  createEnded,
  deleteTree,
  prune,
  runExecutions,
} from '../../deletion-helpers.ts';
import { newInstance, newTurn, workItem } from '../../sample-data.ts';
import { only } from '../../expectations.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';

const list = ({ provider }: StoreUnderTest, limit = 100) => provider.listAudit({ limit });

export const audits: Capability = {
  title: 'audit',
  cases: [
    {
      id: 'audit/keeps-who-what-and-how-much',
      title:
        'an audit record has actor, time, filter and counts, and outlives the deleted instance',
      async run(store) {
        const audit = auditEntry({ actor: null, filter: '{"instanceIds":1}' });
        await store.begin('a', { workItems: [workItem(1)] });
        await deleteTree(store, ['a'], { audit, force: true });
        const { auditKey, ...record } = only(await list(store), 'record');
        assert.equal(typeof auditKey, 'number');
        assert.deepEqual(record, {
          ...audit,
          reason: null,
          instanceId: null,
          at: store.clock.now(),
          instances: 1,
          instancesDeleted: 1,
          executionsDeleted: 1,
          eventsDeleted: 1,
          queueMessagesDeleted: 1,
        });
      },
    },
    {
      id: 'audit/one-operation-has-one-record',
      title: 'deletions and prunes with one audit id add up in one record',
      async run(store) {
        const audit = auditEntry({ action: 'retention' });
        await createEnded(store, 'a', 2);
        await createEnded(store, 'b', 3);
        await runExecutions(store, 'c', { count: 3 });
        const trees = ['a', 'b'].map((id) => ({ instanceIds: [id], force: false, audit }));
        await store.provider.deleteInstancesAtomic(trees);
        await store.clock.advance(1_000);
        await prune(store, 'c', { audit });
        const { auditKey: _key, at: _at, ...record } = only(await list(store), 'record');
        assert.deepEqual(record, {
          ...audit,
          reason: null,
          instanceId: null,
          instances: 3,
          instancesDeleted: 2,
          executionsDeleted: 4,
          eventsDeleted: 7,
          queueMessagesDeleted: 0,
        });
      },
    },
    {
      id: 'audit/nothing-taken-nothing-recorded',
      title: 'rejected deletions, dry runs, unknown ids and calls without an audit leave no record',
      async run(store) {
        const audit = auditEntry();
        await store.begin('running');
        await createEnded(store, 'a');
        await deleteTree(store, ['running'], { audit });
        await deleteTree(store, ['nobody'], { audit });
        await deleteTree(store, ['a'], { audit, dryRun: true });
        await prune(store, 'running', { audit });
        await prune(store, 'nobody', { audit });
        await deleteTree(store, ['a']);
        assert.deepEqual(await list(store), []);
      },
    },
    {
      id: 'audit/comes-in-pages-newest-first',
      title: 'listAudit() returns records newest first, in pages without gaps or repeats',
      async run(store) {
        for (const actor of ['1', '2', '3', '4', '5']) {
          await createEnded(store, actor);
          await deleteTree(store, [actor], { audit: auditEntry({ actor }) });
          await store.clock.advance(1);
        }
        const actors: (string | null)[] = [];
        let page = await list(store, 2);
        while (page.length > 0) {
          assert.ok(page.length <= 2);
          actors.push(...page.map(({ actor }) => actor));
          const beforeKey = page.at(-1)?.auditKey ?? 0;
          page = await store.provider.listAudit({ limit: 2, beforeKey });
        }
        assert.deepEqual(actors, ['5', '4', '3', '2', '1']);
      },
    },
    {
      id: 'audit/is-bounded',
      title: 'the audit keeps at least the newest 10,000 records and deletes the oldest',
      async run(store) {
        const size = 1_000;
        const operations = 12;
        for (let operation = 0; operation < operations; operation += 1) {
          const ids = Array.from({ length: size }, () => randomToken());
          const firstTurn = newTurn({ outcome: completed });
          await store.provider.createInstances(ids.map((id) => newInstance(id, { firstTurn })));
          await store.provider.deleteInstancesAtomic(
            ids.map((id, index) => ({
              instanceIds: [id],
              force: false,
              audit: auditEntry({ actor: `${operation * size + index}` }),
            })),
          );
        }
        const records = await list(store, 20_000);
        assert.ok(records.length >= 10_000, `only ${records.length} are left`);
        assert.ok(records.length < operations * size, 'not one was dropped');
        assert.deepEqual(
          records.map(({ actor }) => actor),
          records.map((_, index) => `${operations * size - 1 - index}`),
        );
      },
    },
  ],
};
