import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { child, event, newInstance, raised, workItem } from '../../sample-data.ts';
import { expectCommitted } from '../../expectations.ts';

const hostile: readonly string[] = [
  `'; DROP TABLE instances; --`,
  `" OR ""="`,
  `it's "quoted" \`thrice\``,
  '%_*?[a-z]',
  '$1 :name @name ?1',
  '\\ \\\\ \\n %00 &amp; <b>',
  '__proto__',
  'constructor',
  'NULL',
  ' leading and trailing ',
  'Ünïcödé 日本語 مرحبا',
  '👩‍👩‍👧‍👦🏴‍☠️',
  'e\u0301 is not é',
  '0',
  '-1e999',
  'x'.repeat(1_000),
  '\u{1f600}'.repeat(250),
];

export const hostileStrings: Capability = {
  title: 'hostile strings',
  cases: [
    {
      id: 'hostile/ids-are-only-text',
      title: 'any text up to 1,000 bytes can be an instance id',
      async run(store) {
        const results = await store.provider.createInstances(hostile.map((id) => newInstance(id)));
        assert.deepEqual(new Set(results.map(({ kind }) => kind)), new Set(['created']));
        const records = await store.provider.getInstances(hostile);
        assert.deepEqual(
          records.map((record) => record?.instanceId),
          hostile,
        );
        for (const id of hostile) {
          const {
            instances: [only],
          } = await store.provider.listInstances({
            filter: { idPrefix: id },
            limit: 1_000,
          });
          assert.ok(only?.instanceId.startsWith(id));
          await store.raise(id, id);
        }
        const claimed = (await store.claim()).map(({ instanceId }) => instanceId);
        assert.deepEqual(new Set(claimed), new Set(hostile));
      },
    },
    {
      id: 'hostile/names-and-versions-are-only-text',
      title: 'any text can be the name or version of an orchestration or activity',
      async run(store) {
        for (const [index, text] of hostile.entries()) {
          const id = String(index);
          const parts = { name: text, version: text };
          const runnable = [{ name: text, version: text }];
          await store.create(id, parts);
          const item = await store.claimOne({ runnable });
          assert.deepEqual([item.instanceId, item.name, item.version], [id, text, text]);
          await store.commit(item, { version: text, workItems: [workItem(1, { name: text })] });
          const work = await store.claimWorkOne({ names: [text] });
          assert.deepEqual([work.name, work.orchestration], [text, text]);
          const { instances: listed } = await store.provider.listInstances({
            filter: { names: [text] },
            limit: 10,
          });
          assert.deepEqual(
            listed.map(({ instanceId }) => instanceId),
            [id],
          );
        }
      },
    },
    {
      id: 'hostile/stored-text-is-not-touched',
      title: 'payloads, data, statuses, reasons and turn ids are stored unchanged',
      async run(store) {
        for (const [index, text] of hostile.entries()) {
          const id = String(index);
          const events = [{ ...event('x'), kind: text, data: text, payload: text }];
          await store.begin(id, {
            events,
            customStatus: text,
            turnId: text,
            workItems: [workItem(1, { payload: text, options: text })],
          });
          assert.deepEqual(await store.history(id), events);
          const work = await store.claimWorkOne();
          assert.deepEqual([work.payload, work.options], [text, text]);
          expectCommitted(
            await store.ackWork(work.lockToken, { kind: 'completed', payload: text }),
          );
          const item = await store.claimOne();
          assert.deepEqual([item.lastTurn, item.messages[0]?.payload], [text, text]);
          const blocked = { reason: text, buildId: text };
          await store.provider.abandonOrchestrationItems([
            { lockToken: item.lockToken, delayMs: 1_000, giveBackClaim: true, blocked },
          ]);
          const record = await store.record(id);
          assert.deepEqual([record.customStatus, record.blocked?.reason], [text, text]);
        }
      },
    },
    {
      id: 'hostile/look-alikes-are-different-ids',
      title: 'ids that differ by case, Unicode composition or spaces are different instances',
      async run(store) {
        const ids = ['a', 'A', 'a ', ' a', 'é', 'e\u0301', 'ß', 'ss', '01', '1', '1.0'];
        const results = await store.provider.createInstances(ids.map((id) => newInstance(id)));
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ids.map(() => 'created'),
        );
        const records = await store.provider.getInstances(ids);
        assert.deepEqual(
          records.map((record) => record?.instanceId),
          ids,
        );
      },
    },
    {
      id: 'hostile/tokens-are-only-text',
      title: 'arbitrary text as a lock token counts as not held',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'x');
        await store.claimOne();
        await store.claimWorkOne();
        const { provider } = store;
        const tokens = [...hostile, '', '1.', '.1', '1.1', `1.' OR 1=1 --`];
        const idle = tokens.map((lockToken) => ({ lockToken, delayMs: 0, giveBackClaim: true }));
        await store.expectNoChange(async () => {
          const no = tokens.map(() => false);
          assert.deepEqual(await provider.renewOrchestrationLocks(tokens, 1), no);
          assert.deepEqual(await provider.abandonOrchestrationItems(idle), no);
          assert.deepEqual(await provider.abandonWorkItems(idle), no);
          const retries = tokens.map((lockToken) => ({ lockToken, delayMs: 0, failure: '{}' }));
          assert.deepEqual(await provider.retryWorkItems(retries), no);
          const renewed = await provider.renewWorkItemLocks(
            tokens.map((lockToken) => ({ lockToken })),
            1,
          );
          assert.deepEqual(
            renewed,
            tokens.map(() => ({ held: false })),
          );
        });
        await store.expectIdle();
      },
    },
    {
      id: 'hostile/children-and-messages-find-their-ids',
      title: 'children and messages reach instance ids of any text',
      async run(store) {
        await store.begin('a', {
          children: hostile.map((id, index) => child(id, index)),
          messages: hostile.map((id) => ({ instanceId: id, message: raised(id) })),
        });
        for (const item of await store.claim()) {
          assert.deepEqual(
            item.messages.map(({ kind }) => kind),
            ['start', 'eventRaised'],
          );
          assert.equal(item.messages[1]?.payload, JSON.stringify(item.instanceId));
        }
        const { instances: children } = await store.provider.listInstances({
          filter: { parentInstanceId: 'a' },
          limit: 100,
        });
        assert.equal(children.length, hostile.length);
      },
    },
  ],
};
