import assert from 'node:assert/strict';
import type { JobKey } from '../../../../providers/contract/sessions.ts';
import type {
  AppendChunks,
  AppendResult,
  ChunkPage,
} from '../../../../providers/contract/streams.ts';
import { collectHints } from '../../collect-hints.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, only } from '../../expectations.ts';
import {
  abandon,
  openSession,
  otherIncarnation,
  startJob,
  startOrchestration,
  submitAll,
  taskJob,
} from '../../job-helpers.ts';
import { workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { startTask } from '../../task-helpers.ts';

async function append(
  { provider }: StoreUnderTest,
  lockToken: string,
  chunks: readonly string[],
  limits: Partial<AppendChunks> = {},
): Promise<AppendResult> {
  const request = { lockToken, chunks, maxChunks: 256, maxBytes: 1_000_000, ...limits };
  return only(await provider.appendChunks([request]), 'result');
}

function read(
  { provider }: StoreUnderTest,
  { instanceId, incarnation }: JobKey,
  after = 0,
  limit = 100,
): Promise<ChunkPage> {
  return provider.readChunks({ instanceId, incarnation, after, limit });
}

const numbers = ({ chunks }: ChunkPage) => chunks.map(({ seq }) => seq);

export const streams: Capability = {
  title: 'streams',
  cases: [
    {
      id: 'stream/comes-in-order',
      title: 'readChunks() returns chunks in append order, in pages, as stored',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        const requests = [['"one"', '{"two": 2}'], [], ['null', '"\u{1F600}"']].map((chunks) => ({
          lockToken: item.lockToken,
          chunks,
          maxChunks: 256,
          maxBytes: 1_000,
        }));
        const results = await store.provider.appendChunks(requests);
        assert.deepEqual(results, ['appended', 'appended', 'appended']);
        assert.deepEqual(await read(store, key, 0, 3), {
          chunks: [
            { seq: 1, payload: '"one"' },
            { seq: 2, payload: '{"two": 2}' },
            { seq: 3, payload: 'null' },
          ],
          over: false,
        });
        assert.deepEqual(await read(store, key, 3), {
          chunks: [{ seq: 4, payload: '"\u{1F600}"' }],
          over: false,
        });
        assert.deepEqual(await read(store, key, 4), { chunks: [], over: false });
      },
    },
    {
      id: 'stream/can-be-read-again',
      title: 'readChunks() returns chunks again until the reader passes a later position',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await append(store, item.lockToken, ['1', '2', '3']);
        assert.deepEqual(numbers(await read(store, key)), [1, 2, 3]);
        assert.deepEqual(numbers(await read(store, key)), [1, 2, 3]);
        assert.deepEqual(numbers(await read(store, key, 2)), [3]);
        assert.deepEqual(numbers(await read(store, key)), [3]);
      },
    },
    {
      id: 'stream/numbers-go-on-after-reading',
      title: 'chunk numbers continue without gaps after earlier chunks were read',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await append(store, item.lockToken, ['1', '2']);
        assert.deepEqual(await read(store, key, 2), { chunks: [], over: false });
        await append(store, item.lockToken, ['3']);
        assert.deepEqual(numbers(await read(store, key, 2)), [3]);
      },
    },
    {
      id: 'stream/needs-a-held-claim',
      title: 'appendChunks() with an unknown, expired or settled token returns lost',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        assert.equal(await append(store, 'unknown', ['1']), 'lost');
        await store.clock.advance(lockMs);
        assert.equal(await append(store, item.lockToken, ['1']), 'lost');
        const { lockToken } = await store.claimWorkOne();
        assert.equal(await append(store, item.lockToken, ['1']), 'lost');
        expectCommitted(await store.ackWork(lockToken));
        assert.equal(await append(store, lockToken, ['1']), 'lost');
        assert.deepEqual(await read(store, key), { chunks: [], over: true });
      },
    },
    {
      id: 'stream/without-a-reader-is-not-kept',
      title: 'appendChunks() for a plain task or an abandoned job returns unread',
      async run(store) {
        await openSession(store);
        const plain = await startTask(store, 'plain');
        assert.equal(await append(store, plain.lockToken, ['1']), 'unread');
        const { key, item } = await startJob(store, 'a');
        assert.equal(await append(store, item.lockToken, ['1']), 'appended');
        await abandon(store, key);
        assert.equal(await append(store, item.lockToken, ['2']), 'unread');
        assert.deepEqual((await read(store, key)).chunks, []);
      },
    },
    {
      id: 'stream/is-bounded-in-chunks',
      title: 'appendChunks() beyond maxChunks returns full; an empty stream accepts any number',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        const limits = { maxChunks: 3 };
        assert.equal(await append(store, item.lockToken, ['1', '2'], limits), 'appended');
        assert.equal(await append(store, item.lockToken, ['3', '4'], limits), 'full');
        assert.deepEqual(numbers(await read(store, key)), [1, 2]);
        assert.equal(await append(store, item.lockToken, ['3'], limits), 'appended');
        await read(store, key, 3);
        const many = ['4', '5', '6', '7', '8'];
        assert.equal(await append(store, item.lockToken, many, limits), 'appended');
        assert.deepEqual(numbers(await read(store, key, 3)), [4, 5, 6, 7, 8]);
      },
    },
    {
      id: 'stream/is-bounded-in-bytes',
      title: 'appendChunks() beyond maxBytes returns full; an empty stream accepts any size',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        const limits = { maxBytes: 10 };
        const wide = JSON.stringify('é'.repeat(3));
        assert.equal(await append(store, item.lockToken, [wide], limits), 'appended');
        assert.equal(await append(store, item.lockToken, ['100'], limits), 'full');
        assert.equal(await append(store, item.lockToken, ['10'], limits), 'appended');
        await read(store, key, 2);
        const long = JSON.stringify('x'.repeat(100));
        assert.equal(await append(store, item.lockToken, [long], limits), 'appended');
        assert.equal(await append(store, item.lockToken, ['1'], limits), 'full');
      },
    },
    {
      id: 'stream/reading-makes-room',
      title: 'chunks that were read no longer count toward maxChunks and maxBytes',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        const limits = { maxChunks: 4, maxBytes: 8 };
        await append(store, item.lockToken, ['11', '22', '33', '44'], limits);
        assert.equal(await append(store, item.lockToken, ['5'], limits), 'full');
        await read(store, key, 1);
        assert.equal(await append(store, item.lockToken, ['55', '6'], limits), 'full');
        assert.equal(await append(store, item.lockToken, ['55'], limits), 'appended');
        await read(store, key, 5);
        assert.equal(await append(store, item.lockToken, ['6'], limits), 'appended');
        assert.equal(await append(store, item.lockToken, ['777777'], limits), 'appended');
        assert.equal(await append(store, item.lockToken, ['88'], limits), 'full');
      },
    },
    {
      id: 'stream/is-over-with-its-run',
      title: 'readChunks() returns over with the last chunks of an ended run',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await append(store, item.lockToken, ['1', '2']);
        assert.equal((await read(store, key)).over, false);
        expectCommitted(await store.ackWork(item.lockToken));
        assert.deepEqual(await read(store, key, 0, 1), {
          chunks: [{ seq: 1, payload: '1' }],
          over: false,
        });
        assert.deepEqual(await read(store, key, 1, 1), {
          chunks: [{ seq: 2, payload: '2' }],
          over: true,
        });
        assert.deepEqual(await read(store, key, 2, 1), { chunks: [], over: true });
      },
    },
    {
      id: 'stream/outlives-its-run',
      title: 'the chunks of an ended run are kept until its reply is taken',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await append(store, item.lockToken, ['1']);
        expectCommitted(await store.ackWork(item.lockToken));
        await store.clock.advance(60_000);
        assert.deepEqual(numbers(await read(store, key)), [1]);
        await store.provider.takeJobs([key]);
        assert.deepEqual(await read(store, key), { chunks: [], over: true });
      },
    },
    {
      id: 'stream/of-another-life-is-over',
      title:
        'readChunks() with another incarnation or an unknown id returns nothing and deletes nothing',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await append(store, item.lockToken, ['1']);
        const over = { chunks: [], over: true };
        assert.deepEqual(await read(store, otherIncarnation(key), 1), over);
        assert.deepEqual(await read(store, { ...key, instanceId: 'nobody' }), over);
        assert.deepEqual(numbers(await read(store, key)), [1]);
      },
    },
    {
      id: 'stream/of-another-session-is-over',
      title: 'readChunks() with another session returns nothing and deletes nothing',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await append(store, item.lockToken, ['1']);
        const from = (sessionId: string, after: number) =>
          store.provider.readChunks({ ...key, sessionId, after, limit: 100 });
        assert.deepEqual(await from('another', 1), { chunks: [], over: true });
        assert.deepEqual(numbers(await from(key.sessionId, 0)), [1]);
      },
    },
    {
      id: 'stream/a-lost-claim-spares-its-neighbours',
      title: 'appendChunks() returns a result per request, also for activities',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await startOrchestration(store, 'b', { workItems: [workItem(1)] });
        const activity = await store.claimWorkOne();
        const limits = { maxChunks: 1, maxBytes: 100 };
        const results = await store.provider.appendChunks([
          { lockToken: item.lockToken, chunks: ['1'], ...limits },
          { lockToken: 'unknown', chunks: ['1'], ...limits },
          { lockToken: activity.lockToken, chunks: ['2'], ...limits },
          { lockToken: item.lockToken, chunks: ['3'], ...limits },
        ]);
        assert.deepEqual(results, ['appended', 'lost', 'appended', 'full']);
        const { instanceId, incarnation } = activity;
        const other = await read(store, { ...key, instanceId, incarnation });
        assert.deepEqual(other.chunks, [{ seq: 1, payload: '2' }]);
        assert.deepEqual(await store.provider.appendChunks([]), []);
      },
    },
    {
      id: 'stream/sends-emitted-hints',
      title: 'appending chunks and freeing capacity emit an emitted hint',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await submitAll(store, [taskJob('other')]);
        const added = collectHints(store.provider);
        await append(store, item.lockToken, ['1']);
        assert.deepEqual((await added.next('emitted')).instanceIds, ['a']);
        added.stop();
        const emptied = collectHints(store.provider);
        await read(store, key, 1);
        assert.deepEqual((await emptied.next('emitted')).instanceIds, ['a']);
        emptied.stop();
      },
    },
  ],
};
