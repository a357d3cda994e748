import assert from 'node:assert/strict';
import type { AppendChunks, AppendResult } from '../../../../providers/contract/streams.ts';
import type { OrchestrationItem } from '../../../../providers/contract/orchestration-queue.ts';
import type { Turn } from '../../../../providers/contract/turn.ts';
import type { Capability } from '../../conformance-case.ts';
import { completed } from '../../deletion-helpers.ts';
import { expectCommitted, only } from '../../expectations.ts';
import { openSession, orchestrationJob, submitAll } from '../../job-helpers.ts';
import { event, newTurn, workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';

const mebibyte = 1024 * 1024;
const guard = { operation: 0, fireAt: 0 };

/** A request of a step, which has claimed its instance. */
function toRequest(lockToken: string, chunks: readonly string[], firstPlace = 1): AppendChunks {
  const record = { source: 'step', firstPlace, isRepeated: false, maxBytes: mebibyte };
  return { lockToken, claim: 'instance', chunks, maxChunks: 256, maxBytes: mebibyte, record };
}

async function emit(
  { provider }: StoreUnderTest,
  lockToken: string,
  chunks: readonly string[],
  firstPlace = 1,
): Promise<AppendResult> {
  return only(await provider.appendChunks([toRequest(lockToken, chunks, firstPlace)]), 'result');
}

async function keep(
  store: StoreUnderTest,
  { lockToken, historyLength, messages }: OrchestrationItem,
  parts: Partial<Turn> = {},
): Promise<void> {
  const messageKeys = messages.map(({ messageKey }) => messageKey);
  const turn = newTurn({ firstEventId: historyLength + 1, events: [event('one')], ...parts });
  const acks = [{ lockToken, messageKeys, turn, keep: true }];
  expectCommitted(only(await store.provider.ackOrchestrationItems(acks), 'result'));
}

/** Creates an instance whose claim is kept, as while its steps run. */
async function hold(
  store: StoreUnderTest,
  id = 'a',
  parts: Partial<Turn> = {},
): Promise<OrchestrationItem> {
  await store.create(id);
  const item = await store.claimOne();
  await keep(store, item, { timers: [guard], ...parts });
  return { ...item, historyLength: 1, messages: [] };
}

async function payloadsOf({ provider }: StoreUnderTest, instanceId = 'a') {
  const params = { instanceId, after: 0, limit: 100, maxBytes: mebibyte };
  return (await provider.readStream(params))?.chunks.map(({ payload }) => payload);
}

export const streamsOfSteps: Capability = {
  title: 'streams of steps',
  cases: [
    {
      id: 'record/steps-emit-under-the-claim-of-their-instance',
      title: 'steps, handlers and turns share one stream, and an emit keeps the claim as it is',
      async run(store) {
        const { provider } = store;
        const item = await hold(store, 'a', { workItems: [workItem(1)] });
        const { lockToken: ofItem } = await store.claimWorkOne();
        assert.equal(await emit(store, item.lockToken, ['1', '2']), 'recorded');
        const { claim: _, ...request } = toRequest(ofItem, ['3']);
        const mixed = [request, toRequest(item.lockToken, ['4'], 3), { ...request, chunks: ['5'] }];
        assert.deepEqual(await provider.appendChunks(mixed), ['recorded', 'recorded', 'recorded']);
        assert.deepEqual((await payloadsOf(store))?.toSorted(), ['1', '2', '3', '4', '5']);
        const emitted = { chunks: ['6'], source: 'turn', maxBytes: mebibyte };
        await keep(store, item, { emitted });
        assert.equal(await emit(store, item.lockToken, ['7'], 4), 'recorded');
        assert.deepEqual((await payloadsOf(store))?.slice(5), ['6', '7']);
        await store.clock.advance(lockMs - 1);
        await store.expectIdle();
        await store.clock.advance(1);
        assert.equal((await store.claimOne()).claims, 1);
      },
    },
    {
      id: 'record/steps-need-a-held-instance',
      title: 'a claim that is unknown, expired, lost, ended or of a work item records no chunks',
      async run(store) {
        const item = await hold(store);
        assert.equal(await emit(store, item.lockToken, ['1']), 'recorded');
        assert.equal(await emit(store, 'unknown', ['2']), 'lost');
        assert.equal(await emit(store, '1.unknown', ['2']), 'lost');
        const { claim: _, ...ofItem } = toRequest(item.lockToken, ['2']);
        assert.deepEqual(await store.provider.appendChunks([ofItem]), ['lost']);
        await store.clock.advance(lockMs);
        assert.equal(await emit(store, item.lockToken, ['3']), 'lost');
        const next = await store.claimOne();
        assert.equal(await emit(store, item.lockToken, ['4']), 'lost');
        assert.equal(await emit(store, next.lockToken, ['5']), 'recorded');
        await store.commit(next, { outcome: completed });
        assert.equal(await emit(store, next.lockToken, ['6']), 'lost');
        assert.deepEqual(await payloadsOf(store), ['1', '5']);
      },
    },
    {
      id: 'stream/a-step-of-a-job-emits',
      title: 'chunks of a step of a job go to its caller only, within its bounds',
      async run(store) {
        await openSession(store);
        const key = only(await submitAll(store, [orchestrationJob('a')]), 'key');
        const item = await store.claimOne();
        await keep(store, item, { timers: [guard] });
        assert.equal(await emit(store, item.lockToken, ['1', '2']), 'appended');
        const full = { ...toRequest(item.lockToken, ['3']), maxChunks: 2 };
        assert.deepEqual(await store.provider.appendChunks([full]), ['full']);
        const { chunks } = await store.provider.readChunks({ ...key, after: 0, limit: 9 });
        assert.deepEqual(
          chunks.map(({ payload }) => payload),
          ['1', '2'],
        );
        assert.deepEqual(await payloadsOf(store), []);
      },
    },
  ],
};
