import assert from 'node:assert/strict';
import { randomToken } from '../../../../model/values/random-id.ts';
import type { EmittedChunks } from '../../../../providers/contract/turn.ts';
import type {
  AppendResult,
  StreamPage,
  StreamRecord,
} from '../../../../providers/contract/streams.ts';
import { collectHints } from '../../collect-hints.ts';
import type { Capability } from '../../conformance-case.ts';
import { completed, continued, forceDelete, prune } from '../../deletion-helpers.ts';
import { expectCommitted, only } from '../../expectations.ts';
import { openSession, startJob, startOrchestration } from '../../job-helpers.ts';
import { event, newInstance, newTurn, startMessage, workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { failure, startTask } from '../../task-helpers.ts';

const mebibyte = 1024 * 1024;

async function append(
  { provider }: StoreUnderTest,
  lockToken: string,
  chunks: readonly string[],
  parts: Partial<StreamRecord> = {},
): Promise<AppendResult> {
  const record = { source: 's', firstPlace: 1, isRepeated: false, maxBytes: mebibyte, ...parts };
  const request = { lockToken, chunks, maxChunks: 256, maxBytes: mebibyte, record };
  return only(await provider.appendChunks([request]), 'result');
}

async function read(
  { provider }: StoreUnderTest,
  instanceId = 'a',
  parts: { readonly after?: number; readonly limit?: number; readonly maxBytes?: number } = {},
): Promise<StreamPage> {
  const all = { after: 0, limit: 100_000, maxBytes: 64 * mebibyte };
  const page = await provider.readStream({ instanceId, ...all, ...parts });
  assert.ok(page, `${instanceId} should have a stream`);
  return page;
}

const numbers = ({ chunks }: StreamPage) => chunks.map(({ seq }) => seq);
const payloads = ({ chunks }: StreamPage) => chunks.map(({ payload }) => payload);

function emitted(...chunks: readonly string[]): { readonly emitted: EmittedChunks } {
  return { emitted: { chunks, source: 't', maxBytes: mebibyte } };
}

/** Begins an instance with a claimed activity. */
async function startActivity(store: StoreUnderTest, instanceId = 'a'): Promise<string> {
  const { claimed } = await store.begin(instanceId, {
    workItems: [workItem(1, { claimMs: lockMs })],
  });
  return only(claimed, 'claimed item').lockToken;
}

const range = (count: number) => Array.from({ length: count }, (_, index) => String(index + 1));

export const recordedStreams: Capability = {
  title: 'recorded streams',
  cases: [
    {
      id: 'record/keeps-chunks-with-their-source',
      title: 'readStream() returns chunks of an activity in order, with time, source and payload',
      async run(store) {
        const token = await startActivity(store);
        const { instanceKey } = await store.record('a');
        const state = { instanceKey, hasEnded: false, isJob: false };
        assert.deepEqual(await read(store), { ...state, chunks: [], lastSeq: 0 });
        const at = store.clock.now();
        assert.equal(await append(store, token, ['"one"', '{"two": 2}']), 'recorded');
        await store.clock.advance(5);
        assert.equal(
          await append(store, token, ['"\u{1F600}"'], { source: 'x', firstPlace: 3 }),
          'recorded',
        );
        assert.deepEqual(await read(store), {
          ...state,
          chunks: [
            { seq: 1, at, source: 's', payload: '"one"' },
            { seq: 2, at, source: 's', payload: '{"two": 2}' },
            { seq: 3, at: at + 5, source: 'x', payload: '"\u{1F600}"' },
          ],
          lastSeq: 3,
        });
        const unknown = { instanceId: 'missing', after: 0, limit: 1, maxBytes: 1 };
        assert.equal(await store.provider.readStream(unknown), undefined);
      },
    },
    {
      id: 'record/a-task-run-has-a-stream',
      title: 'a task run that is not a job has a recorded stream',
      async run(store) {
        const { lockToken } = await startTask(store, 'a');
        assert.equal(await append(store, lockToken, ['1', '2']), 'recorded');
        assert.deepEqual(payloads(await read(store)), ['1', '2']);
        expectCommitted(await store.ackWork(lockToken));
        const { hasEnded, lastSeq } = await read(store);
        assert.deepEqual({ hasEnded, lastSeq }, { hasEnded: true, lastSeq: 2 });
      },
    },
    {
      id: 'record/needs-a-held-claim',
      title: 'appendChunks() with an unknown, expired or settled token records nothing',
      async run(store) {
        const token = await startActivity(store);
        assert.equal(await append(store, token, ['1']), 'recorded');
        assert.equal(await append(store, 'unknown', ['2']), 'lost');
        await store.clock.advance(lockMs);
        assert.equal(await append(store, token, ['3']), 'lost');
        const { lockToken } = await store.claimWorkOne();
        assert.equal(await append(store, token, ['4']), 'lost');
        assert.equal(await append(store, lockToken, ['5'], { source: 'next' }), 'recorded');
        expectCommitted(await store.ackWork(lockToken));
        assert.equal(await append(store, lockToken, ['6']), 'lost');
        assert.deepEqual(payloads(await read(store)), ['1', '5']);
      },
    },
    {
      id: 'record/ends-with-its-run',
      title: 'appendChunks() of an abandoned activity returns unread after its run has ended',
      async run(store) {
        const item = workItem(1, { claimMs: lockMs, cancellation: 'abandon' });
        const { claimed } = await store.begin('a', { workItems: [item] });
        const { lockToken } = only(claimed, 'claimed item');
        assert.equal(await append(store, lockToken, ['1']), 'recorded');
        await store.raise('a', 'go');
        await store.commit(await store.claimOne(), { outcome: completed });
        assert.equal(await append(store, lockToken, ['2'], { firstPlace: 2 }), 'unread');
        const page = await read(store);
        assert.deepEqual(payloads(page), ['1']);
        assert.equal(page.hasEnded, true);
      },
    },
    {
      id: 'record/a-job-has-no-recorded-stream',
      title: 'chunks of a job, of its handler or of its turns, go to its caller only',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        assert.equal(await append(store, item.lockToken, ['1']), 'appended');
        const page = await read(store);
        assert.deepEqual([page.isJob, page.lastSeq, page.chunks], [true, 0, []]);
        assert.deepEqual((await store.provider.readChunks({ ...key, after: 0, limit: 9 })).chunks, [
          { seq: 1, payload: '1' },
        ]);
        const flow = await startOrchestration(store, 'b', emitted('"turn"', '"again"'));
        assert.deepEqual(
          (await store.provider.readChunks({ ...flow, after: 0, limit: 9 })).chunks,
          [
            { seq: 1, payload: '"turn"' },
            { seq: 2, payload: '"again"' },
          ],
        );
        assert.deepEqual((await read(store, 'b')).chunks, []);
      },
    },
    {
      id: 'record/a-repeat-is-not-written-twice',
      title: 'a repeated appendChunks() writes only chunks that the stream does not have',
      async run(store) {
        const token = await startActivity(store);
        await append(store, token, ['1', '2']);
        const repeat = { firstPlace: 3, isRepeated: true };
        assert.equal(await append(store, token, ['3', '4'], { firstPlace: 3 }), 'recorded');
        assert.equal(await append(store, token, ['3', '4'], repeat), 'recorded');
        assert.equal(await append(store, token, ['3', '4', '5'], repeat), 'recorded');
        const fresh = { source: 'another', firstPlace: 1, isRepeated: true };
        assert.equal(await append(store, token, ['6'], fresh), 'recorded');
        assert.deepEqual(payloads(await read(store)), ['1', '2', '3', '4', '5', '6']);
        assert.equal((await read(store)).lastSeq, 6);
      },
    },
    {
      id: 'record/drops-the-oldest',
      title: 'a stream above maxBytes loses its oldest chunks, and stays bounded',
      async run(store) {
        const token = await startActivity(store);
        const chunk = JSON.stringify('x'.repeat(934));
        const maxBytes = 16_000;
        for (let sent = 0; sent < 100; sent += 10) {
          const chunks = Array.from({ length: 10 }, () => chunk);
          await append(store, token, chunks, { firstPlace: sent + 1, maxBytes });
          const { lastSeq, chunks: kept } = await read(store);
          assert.equal(lastSeq, sent + 10);
          assert.ok(kept.length <= 16, `${kept.length} chunks of 1,000 bytes are kept`);
          assert.ok(kept.length >= Math.min(sent + 10, 13), `only ${kept.length} chunks are kept`);
          assert.equal(kept.at(-1)?.seq, lastSeq);
          assert.equal((kept[0]?.seq ?? 0) + kept.length - 1, lastSeq);
        }
      },
    },
    {
      id: 'record/keeps-the-newest-chunk',
      title: 'a chunk larger than maxBytes replaces the stream',
      async run(store) {
        const token = await startActivity(store);
        await append(store, token, ['1', '2'], { maxBytes: 1_000 });
        const large = JSON.stringify('x'.repeat(5_000));
        await append(store, token, [large], { firstPlace: 3, maxBytes: 1_000 });
        assert.deepEqual(numbers(await read(store)), [3]);
        await append(store, token, ['4'], { firstPlace: 4, maxBytes: 1_000 });
        assert.deepEqual(numbers(await read(store)), [4]);
        await append(store, token, ['5'], { firstPlace: 5, maxBytes: 1_000 });
        assert.deepEqual(numbers(await read(store)), [4, 5]);
      },
    },
    {
      id: 'record/reads-by-number',
      title: 'readStream() returns at most `limit` chunks after a number',
      async run(store) {
        const token = await startActivity(store);
        await append(store, token, range(10));
        assert.deepEqual(numbers(await read(store, 'a', { limit: 4 })), [1, 2, 3, 4]);
        assert.deepEqual(numbers(await read(store, 'a', { after: 4, limit: 4 })), [5, 6, 7, 8]);
        assert.deepEqual(numbers(await read(store, 'a', { after: 8 })), [9, 10]);
        assert.deepEqual(numbers(await read(store, 'a', { after: 10 })), []);
        assert.deepEqual(numbers(await read(store, 'a', { after: 999 })), []);
        assert.deepEqual(numbers(await read(store, 'a', { limit: 0 })), []);
        assert.equal((await read(store, 'a', { limit: 0 })).lastSeq, 10);
      },
    },
    {
      id: 'record/reads-by-bytes',
      title: 'readStream() ends a page after about `maxBytes`, and returns at least one chunk',
      async run(store) {
        const token = await startActivity(store);
        const chunk = JSON.stringify('x'.repeat(1_000));
        await append(store, token, [chunk, chunk, chunk, chunk, chunk, chunk]);
        assert.deepEqual(numbers(await read(store, 'a', { maxBytes: 10 })), [1]);
        const part = numbers(await read(store, 'a', { after: 1, maxBytes: 2_500 }));
        assert.ok(part.length === 2 || part.length === 3, `${part.length} chunks`);
        assert.equal(part[0], 2);
      },
    },
    {
      id: 'record/has-several-readers',
      title: 'reading a recorded stream does not change it',
      async run(store) {
        const token = await startActivity(store);
        await append(store, token, range(5));
        const first = await read(store);
        await read(store, 'a', { after: 5 });
        assert.deepEqual(await read(store), first);
      },
    },
    {
      id: 'record/turns-emit-once',
      title: 'chunks of turns and of handlers share one sequence, in commit order',
      async run(store) {
        const token = await startActivity(store);
        await append(store, token, ['1']);
        await store.raise('a', 'go');
        await store.commit(await store.claimOne(), { events: [event('x')], ...emitted('2', '3') });
        await append(store, token, ['4'], { firstPlace: 2 });
        const { turnId } = newTurn();
        const { incarnation, executionId } = await store.record('a');
        await store.raise('a', 'last');
        const item = await store.claimOne();
        await store.commit(item, { turnId, events: [event('y')], ...emitted('5') });
        const { instanceKey } = item;
        const turn = newTurn({
          firstEventId: item.historyLength + 2,
          events: [event('end')],
          ...emitted('6'),
          outcome: completed,
        });
        const acked = { instanceKey, incarnation, executionId, lastTurn: turnId, turn };
        const acks = [{ ...acked, lockTokens: [token], outcomes: [] }];
        expectCommitted(only(await store.provider.ackTurns(acks), 'result'));
        const page = await read(store);
        assert.deepEqual(payloads(page), ['1', '2', '3', '4', '5', '6']);
        assert.deepEqual(
          page.chunks.map(({ source }) => source),
          ['s', 't', 't', 's', 't', 't'],
        );
        assert.equal(page.hasEnded, true);
      },
    },
    {
      id: 'record/a-first-turn-emits',
      title: 'chunks of a first turn are written with the creation of the instance',
      async run(store) {
        await store.create('a', { firstTurn: newTurn({ ...emitted('1', '2') }) });
        assert.deepEqual(payloads(await read(store)), ['1', '2']);
        const ended = newTurn({ ...emitted('3'), outcome: completed });
        await store.create('b', { firstTurn: ended });
        assert.deepEqual(payloads(await read(store, 'b')), ['3']);
      },
    },
    {
      id: 'record/a-rejected-turn-emits-nothing',
      title: 'a turn whose claim was lost writes no chunks',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne();
        await store.clock.advance(lockMs);
        const again = await store.claimOne();
        assert.equal((await store.ack(item, emitted('"lost"'))).ok, false);
        assert.deepEqual((await read(store)).chunks, []);
        await store.commit(again, emitted('"kept"'));
        assert.deepEqual(payloads(await read(store)), ['"kept"']);
      },
    },
    {
      id: 'record/goes-on-with-the-next-execution',
      title: 'a stream continues over a continue-as-new and a retry',
      async run(store) {
        await store.begin('a', { ...emitted('1'), outcome: continued });
        await store.commit(await store.claimOne(), {
          events: [event('one')],
          ...emitted('2'),
          outcome: { status: 'failed', failure },
        });
        assert.equal((await read(store)).hasEnded, true);
        const { incarnation, executionId } = await store.record('a');
        const source = { instanceId: 'a', incarnation, executionId, historyLength: 1 };
        const start = { messages: [startMessage()] };
        const [retried] = await store.provider.retryInstances([{ source, version: '1', start }]);
        assert.equal(retried?.kind, 'retried');
        assert.equal((await read(store)).hasEnded, false);
        await store.commit(await store.claimOne(), { events: [event('x')], ...emitted('3') });
        assert.deepEqual(payloads(await read(store)), ['1', '2', '3']);
      },
    },
    {
      id: 'record/goes-on-after-a-replacement',
      title: 'a stream continues with its key and numbers when a start replaces its instance',
      async run(store) {
        await store.begin('a', emitted('1', '2'));
        const { instanceKey } = await read(store);
        const instance = newInstance('a', { inputHash: 'other', onConflict: 'terminateExisting' });
        const [result] = await store.provider.createInstances([instance]);
        assert.equal(result?.kind, 'created');
        const before = await read(store);
        assert.deepEqual([before.instanceKey, before.hasEnded], [instanceKey, false]);
        await store.commit(await store.claimOne(), { events: [event('x')], ...emitted('3') });
        const page = await read(store, 'a', { after: 1 });
        assert.deepEqual([page.instanceKey, numbers(page)], [instanceKey, [2, 3]]);
        await forceDelete(store, 'a');
        await store.begin('a', emitted('4'));
        assert.notEqual((await read(store)).instanceKey, instanceKey);
      },
    },
    {
      id: 'record/outlives-a-prune',
      title: 'pruning executions keeps the stream of the instance',
      async run(store) {
        await store.begin('a', { ...emitted('1'), outcome: continued });
        await store.commit(await store.claimOne(), { events: [event('x')], ...emitted('2') });
        assert.equal((await prune(store, 'a', { keepLast: 1 })).executionsDeleted, 1);
        assert.deepEqual(payloads(await read(store)), ['1', '2']);
      },
    },
    {
      id: 'record/a-fork-has-its-own',
      title: 'a fork starts with an empty stream and does not change that of its source',
      async run(store) {
        await store.begin('a', { events: [event('one'), event('two')], ...emitted('1') });
        const { incarnation, executionId } = await store.record('a');
        const source = { instanceId: 'a', incarnation, executionId, historyLength: 2 };
        const turn = newTurn({ firstEventId: 3, events: [], bufferedEvents: 0 });
        const start = { kept: { first: event('first'), length: 2 }, messages: [], turn };
        const fork = {
          source,
          instanceId: 'fork',
          incarnation: randomToken(),
          name: 'sample',
          version: '1',
          inputHash: 'hash',
          forkedFrom: '{"from":2}',
          start,
        };
        const [forked] = await store.provider.forkInstances([fork]);
        assert.equal(forked?.kind, 'forked');
        const page = await read(store, 'fork');
        assert.deepEqual([page.lastSeq, page.chunks], [0, []]);
        assert.deepEqual(payloads(await read(store)), ['1']);
      },
    },
    {
      id: 'record/is-deleted-with-its-instance',
      title: 'a deletion removes the stream, and an instance with the same id starts an empty one',
      async run(store) {
        const token = await startActivity(store);
        const other = await startActivity(store, 'other');
        await append(store, token, range(5));
        await append(store, other, range(3));
        await forceDelete(store, 'a');
        const params = { instanceId: 'a', after: 0, limit: 10, maxBytes: mebibyte };
        assert.equal(await store.provider.readStream(params), undefined);
        assert.equal(await append(store, token, ['6']), 'lost');
        await store.create('a');
        const page = await read(store);
        assert.deepEqual([page.lastSeq, page.chunks], [0, []]);
        assert.deepEqual(numbers(await read(store, 'other')), [1, 2, 3]);
        assert.equal((await store.provider.systemMetrics()).pendingReclaims, 0);
      },
    },
    {
      id: 'record/a-long-stream-is-reclaimed',
      title: 'a long stream is hidden by the deletion, and reclaimed in steps',
      async run(store) {
        const token = await startActivity(store);
        const other = await startActivity(store, 'other');
        await append(store, other, range(3));
        const size = 9_000;
        const parts = { maxBytes: 64 * mebibyte };
        await append(store, token, range(size), parts);
        await forceDelete(store, 'a');
        const params = { instanceId: 'a', after: 0, limit: 10, maxBytes: mebibyte };
        assert.equal(await store.provider.readStream(params), undefined);
        assert.equal((await store.provider.systemMetrics()).pendingReclaims, size);
        let rows = 0;
        for (let left = true; left;) {
          const step = await store.provider.reclaimDeleted(2_000);
          assert.ok(step.rows <= 4_000, `${step.rows} rows in a step of 2,000`);
          rows += step.rows;
          ({ left } = step);
        }
        assert.equal(rows, size);
        assert.equal((await store.provider.systemMetrics()).pendingReclaims, 0);
        assert.deepEqual(numbers(await read(store, 'other')), [1, 2, 3]);
      },
    },
    {
      id: 'record/sends-emitted-hints',
      title: 'recorded chunks of handlers and turns send `emitted`',
      async run(store) {
        const token = await startActivity(store);
        const received = collectHints(store.provider);
        await append(store, token, ['1']);
        const hint = await received.next('emitted');
        assert.deepEqual(hint, { kind: 'emitted', instanceIds: ['a'] });
        received.stop();
        await store.raise('a', 'go');
        const again = collectHints(store.provider);
        await store.commit(await store.claimOne(), { events: [event('x')], ...emitted('2') });
        assert.deepEqual(await again.next('emitted'), { kind: 'emitted', instanceIds: ['a'] });
        again.stop();
      },
    },
    {
      id: 'record/spares-its-neighbours',
      title: 'appendChunks() of several runs, one of them lost, records the others',
      async run(store) {
        const first = await startActivity(store, 'a');
        const second = await startActivity(store, 'b');
        const record = { source: 's', firstPlace: 1, isRepeated: false, maxBytes: mebibyte };
        const limits = { maxChunks: 9, maxBytes: 999, record };
        const results = await store.provider.appendChunks([
          { lockToken: first, chunks: ['1'], ...limits },
          { lockToken: 'unknown', chunks: ['2'], ...limits },
          { lockToken: second, chunks: ['3'], ...limits },
          { lockToken: first, chunks: ['4', '5'], ...limits },
        ]);
        assert.deepEqual(results, ['recorded', 'lost', 'recorded', 'recorded']);
        assert.deepEqual(payloads(await read(store, 'a')), ['1', '4', '5']);
        assert.deepEqual(payloads(await read(store, 'b')), ['3']);
      },
    },
  ],
};
