import assert from 'node:assert/strict';
import { encodeMessage } from '../../../../model/message.ts';
import { randomToken } from '../../../../model/values/random-id.ts';
import type {
  NewUpdate,
  RequestUpdateResult,
  UpdateReply,
  UpdateState,
} from '../../../../providers/contract/updates.ts';
import type { Capability } from '../../conformance-case.ts';
import { only } from '../../expectations.ts';
import { withTimeLimit } from '../../time-limit.ts';
import { event, newTurn, startMessage } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { failure } from '../../task-helpers.ts';

const maxOpen = 2_000;
const kept = 10_000;

function newUpdate(instanceId: string, key: string, parts: Partial<NewUpdate> = {}): NewUpdate {
  const message = encodeMessage({ kind: 'update', key, name: 'raise', payload: '1' });
  return { instanceId, key, name: 'raise', inputHash: 'hash', message, ...parts };
}

async function request(
  { provider }: StoreUnderTest,
  instanceId: string,
  key: string,
  parts: Partial<NewUpdate> = {},
): Promise<RequestUpdateResult> {
  return only(
    await provider.requestUpdates([newUpdate(instanceId, key, parts)]),
    'result of the request',
  );
}

async function stateOf(
  { provider }: StoreUnderTest,
  instanceId: string,
  key: string,
): Promise<UpdateState> {
  return only(await provider.readUpdates([{ instanceId, key }]), 'state');
}

function completed(key: string, payload: string | null = '"yes"'): UpdateReply {
  return { key, outcome: 'completed', payload, failure: null };
}

const pending = { kind: 'pending' };
const replied = { kind: 'replied', outcome: 'completed', payload: '"yes"', failure: null };

/** Fails an instance that is claimable. */
async function fail(store: StoreUnderTest): Promise<void> {
  await store.commit(await store.claimOne(), {
    events: [event('end')],
    outcome: { status: 'failed', failure },
  });
}

export const updates: Capability = {
  title: 'updates',
  cases: [
    {
      id: 'update/is-requested-once',
      title: 'a repeated request stores one update and one message',
      async run(store) {
        await store.begin('a');
        assert.deepEqual(await request(store, 'a', 'k'), pending);
        assert.deepEqual(await request(store, 'a', 'k'), pending);
        const batch = [newUpdate('a', 'k'), newUpdate('a', 'l'), newUpdate('a', 'l')];
        assert.deepEqual(await store.provider.requestUpdates(batch), [pending, pending, pending]);
        const { messages } = await store.claimOne();
        assert.deepEqual(
          messages.map(({ kind, data }) => [kind, (JSON.parse(data) as { key: string }).key]),
          [
            ['update', 'k'],
            ['update', 'l'],
          ],
        );
      },
    },
    {
      id: 'update/a-key-belongs-to-its-instance',
      title: 'the same key is another update of another instance',
      async run(store) {
        await store.begin('a', { updateReplies: [] });
        await request(store, 'a', 'k');
        await store.commit(await store.claimOne(), { updateReplies: [completed('k')] });
        await store.begin('b');
        assert.deepEqual(await request(store, 'b', 'k'), pending);
        assert.deepEqual(await request(store, 'a', 'k'), replied);
        const places = [
          { instanceId: 'b', key: 'k' },
          { instanceId: 'a', key: 'k' },
          { instanceId: 'c', key: 'k' },
        ];
        assert.deepEqual(await store.provider.readUpdates(places), [
          pending,
          replied,
          { kind: 'missing' },
        ]);
        assert.deepEqual(await store.provider.readUpdates([]), []);
      },
    },
    {
      id: 'update/a-key-is-not-reused',
      title: 'a key with another name or input hash is `reused`',
      async run(store) {
        await store.begin('a');
        await request(store, 'a', 'k');
        const reused = { kind: 'reused' };
        assert.deepEqual(await request(store, 'a', 'k', { name: 'other' }), reused);
        assert.deepEqual(await request(store, 'a', 'k', { inputHash: 'other' }), reused);
        assert.equal((await store.claimOne()).messages.length, 1);
      },
    },
    {
      id: 'update/needs-a-live-instance',
      title: 'a request to an unknown or ended instance stores nothing',
      async run(store) {
        assert.deepEqual(await request(store, 'a', 'k'), { kind: 'missing' });
        await store.begin('a', { outcome: { status: 'completed', payload: null } });
        const over = { kind: 'over', status: 'completed' };
        assert.deepEqual(await request(store, 'a', 'k'), over);
        assert.deepEqual(await request(store, 'a', 'k'), over);
        assert.deepEqual(await stateOf(store, 'a', 'k'), { kind: 'missing' });
        assert.deepEqual(await store.claim(), []);
      },
    },
    {
      id: 'update/a-reply-outlives-its-instance',
      title: 'the reply of an update is readable after the end of its instance',
      async run(store) {
        await store.begin('a');
        await request(store, 'a', 'k');
        await store.commit(await store.claimOne(), {
          updateReplies: [completed('k')],
          outcome: { status: 'completed', payload: null },
        });
        assert.deepEqual(await request(store, 'a', 'k'), replied);
        assert.deepEqual(await stateOf(store, 'a', 'k'), replied);
      },
    },
    {
      id: 'update/is-bounded',
      title: 'a request is `full` while 2,000 updates of the instance have no reply',
      async run(store) {
        await store.begin('a');
        const all = Array.from({ length: maxOpen }, (_, index) => newUpdate('a', `${index}`));
        await store.provider.requestUpdates(all);
        assert.deepEqual(await request(store, 'a', 'more'), { kind: 'full' });
        assert.deepEqual(await request(store, 'a', '0'), pending);
        await store.commit(await store.claimOne(), { updateReplies: [completed('7')] }, []);
        assert.deepEqual(await request(store, 'a', 'more'), pending);
      },
    },
    {
      id: 'update/keeps-the-last-replies',
      title: 'the last 10,000 updates keep their replies; older open updates stay',
      async run(store) {
        await store.begin('a');
        await request(store, 'a', 'open');
        for (let from = 0; from < kept; from += 1_000) {
          const keys = Array.from({ length: 1_000 }, (_, index) => `${from + index}`);
          await store.provider.requestUpdates(keys.map((key) => newUpdate('a', key)));
          const item = await store.claimOne({ maxMessages: 2_000 });
          await store.commit(item, { updateReplies: keys.map((key) => completed(key)) });
        }
        assert.deepEqual(await stateOf(store, 'a', '0'), replied);
        await request(store, 'a', 'last');
        assert.deepEqual(await stateOf(store, 'a', '0'), { kind: 'missing' });
        assert.deepEqual(await stateOf(store, 'a', '1'), replied);
        assert.deepEqual(await stateOf(store, 'a', 'open'), pending);
      },
    },
    {
      id: 'update/is-deleted-with-its-instance',
      title:
        'a deletion deletes the updates of its instance, also for a later instance with its id',
      async run(store) {
        await store.begin('a');
        await request(store, 'a', 'k');
        await store.commit(await store.claimOne(), {
          updateReplies: [completed('k')],
          outcome: { status: 'completed', payload: null },
        });
        await store.provider.deleteInstancesAtomic([{ instanceIds: ['a'], force: false }]);
        assert.deepEqual(await stateOf(store, 'a', 'k'), { kind: 'missing' });
        await store.begin('a');
        assert.deepEqual(await request(store, 'a', 'k'), pending);
      },
    },
    {
      id: 'update/a-turn-replies',
      title: 'a committed turn replies to updates, with an event or without',
      async run(store) {
        await store.begin('a');
        for (const key of ['c', 'f', 'r', 'n']) await request(store, 'a', key);
        await store.commit(await store.claimOne(), {
          events: [],
          updateReplies: [
            completed('c'),
            { key: 'f', outcome: 'failed', payload: null, failure: '{"name":"E"}' },
            { key: 'r', outcome: 'rejected', payload: null, failure: '{"name":"R"}' },
            completed('unknown'),
          ],
        });
        assert.deepEqual(await stateOf(store, 'a', 'c'), replied);
        assert.deepEqual(await stateOf(store, 'a', 'f'), {
          kind: 'replied',
          outcome: 'failed',
          payload: null,
          failure: '{"name":"E"}',
        });
        assert.deepEqual(await stateOf(store, 'a', 'r'), {
          kind: 'replied',
          outcome: 'rejected',
          payload: null,
          failure: '{"name":"R"}',
        });
        assert.deepEqual(await stateOf(store, 'a', 'n'), pending);
      },
    },
    {
      id: 'update/the-first-reply-is-final',
      title: 'a second reply to an update changes nothing',
      async run(store) {
        await store.begin('a');
        await request(store, 'a', 'k');
        await store.commit(await store.claimOne(), { updateReplies: [completed('k')] });
        await store.raise('a', 'again');
        await store.commit(await store.claimOne(), { updateReplies: [completed('k', '"no"')] });
        assert.deepEqual(await stateOf(store, 'a', 'k'), replied);
      },
    },
    {
      id: 'update/a-refused-turn-does-not-reply',
      title: 'a turn whose claim has expired does not reply',
      async run(store) {
        await store.begin('a');
        await request(store, 'a', 'k');
        const item = await store.claimOne();
        await store.clock.advance(lockMs + 1);
        const result = await store.ack(item, { updateReplies: [completed('k')] });
        assert.equal(result.ok, false);
        assert.deepEqual(await stateOf(store, 'a', 'k'), pending);
      },
    },
    {
      id: 'update/an-end-interrupts',
      title: 'the end of an instance interrupts its updates without a reply',
      async run(store) {
        await store.begin('a');
        await request(store, 'a', 'k');
        await fail(store);
        const interrupted = { kind: 'interrupted', status: 'failed' };
        assert.deepEqual(await stateOf(store, 'a', 'k'), interrupted);
        assert.deepEqual(await request(store, 'a', 'k'), interrupted);
        await store.begin('b');
        await request(store, 'b', 'k');
        const stop = { instanceId: 'b', reason: 'x', actor: null, tree: false };
        await store.provider.terminate([stop]);
        const terminated = { kind: 'interrupted', status: 'terminated' };
        assert.deepEqual(await stateOf(store, 'b', 'k'), terminated);
      },
    },
    {
      id: 'update/a-retry-does-not-revive',
      title: 'an interrupted update stays interrupted after a retry or a replacement',
      async run(store) {
        await store.begin('a');
        await request(store, 'a', 'k');
        await fail(store);
        const { incarnation, executionId } = await store.record('a');
        const source = { instanceId: 'a', incarnation, executionId, historyLength: 2 };
        const start = { messages: [startMessage()] };
        const retry = { source, version: '1', start };
        const result = only(await store.provider.retryInstances([retry]), 'result');
        assert.equal(result.kind, 'retried');
        const interrupted = { kind: 'interrupted', status: 'failed' };
        assert.deepEqual(await stateOf(store, 'a', 'k'), interrupted);
        await store.commit(await store.claimOne(), {
          events: [event('begun')],
          updateReplies: [completed('k')],
        });
        assert.deepEqual(await stateOf(store, 'a', 'k'), interrupted);
        await store.begin('b');
        await request(store, 'b', 'k');
        const next = { inputHash: 'another', onConflict: 'terminateExisting' } as const;
        await store.create('b', next);
        const terminated = { kind: 'interrupted', status: 'terminated' };
        assert.deepEqual(await stateOf(store, 'b', 'k'), terminated);
      },
    },
    {
      id: 'update/a-reply-sends-a-hint',
      title: 'a reply emits statusSet or missed in every process once it is readable',
      async run(store) {
        const other = await store.reopen();
        await store.begin('a');
        await request(store, 'a', 'k');
        const told = [store.provider, other].map((provider) => {
          const { promise, resolve } = Promise.withResolvers<void>();
          provider.hints((hint) => {
            const isNotified = hint.kind === 'statusSet' && hint.instanceIds.includes('a');
            if (isNotified || hint.kind === 'missed') resolve();
          });
          return promise;
        });
        await store.commit(await store.claimOne(), { updateReplies: [completed('k')] });
        for (const hint of told) await withTimeLimit(hint, 'a hint of the reply');
        assert.deepEqual(await stateOf(store, 'a', 'k'), replied);
      },
    },
  ],
};

const answerMessage = { kind: 'awakeableResolved', data: '{}', payload: '"yes"' };

async function answer(
  { provider }: StoreUnderTest,
  tokenHash: string,
  answerKey: string = randomToken(),
): Promise<string> {
  const answers = [{ tokenHash, answerKey, message: answerMessage }];
  return only(await provider.answerAwakeables(answers), 'result of the answer');
}

function created(...tokenHashes: readonly string[]) {
  const all = tokenHashes.map((tokenHash, index) => ({ operation: index + 1, tokenHash }));
  return { created: all, withdrawn: [], closes: false };
}

export const awakeables: Capability = {
  title: 'awakeables',
  cases: [
    {
      id: 'awakeable/is-answered-once',
      title: 'an answer enqueues one message for the operation; a second one is `already`',
      async run(store) {
        const firstTurn = newTurn({ events: [event('begun')], awakeables: created('one', 'two') });
        await store.create('a', { firstTurn });
        const answers = ['two', 'two', 'none'].map((tokenHash, index) => ({
          tokenHash,
          answerKey: `${index}`,
          message: answerMessage,
        }));
        assert.deepEqual(await store.provider.answerAwakeables(answers), [
          'answered',
          'already',
          'missing',
        ]);
        assert.equal(await answer(store, 'two'), 'already');
        const { messages } = await store.claimOne();
        assert.deepEqual(
          messages.map((message) => ({ ...message, messageKey: 0 })),
          [{ ...answerMessage, messageKey: 0, executionId: 1, operation: 2 }],
        );
      },
    },
    {
      id: 'awakeable/a-repeat-is-no-second-answer',
      title: 'a repeat with the same answer key is `answered`, also after the end',
      async run(store) {
        await store.begin('a', { awakeables: created('one') });
        assert.equal(await answer(store, 'one', 'k'), 'answered');
        assert.equal(await answer(store, 'one', 'k'), 'answered');
        const item = await store.claimOne();
        assert.equal(item.messages.length, 1);
        await store.commit(item, { outcome: { status: 'completed', payload: null } });
        assert.equal(await answer(store, 'one', 'k'), 'answered');
        assert.equal(await answer(store, 'one', 'l'), 'already');
        assert.deepEqual(await store.claim(), []);
      },
    },
    {
      id: 'awakeable/an-unknown-token-is-missing',
      title: 'an unknown hash is `missing`, also after the deletion of its instance',
      async run(store) {
        assert.equal(await answer(store, 'one'), 'missing');
        await store.begin('a', { awakeables: created('one') });
        await store.provider.deleteInstancesAtomic([{ instanceIds: ['a'], force: true }]);
        assert.equal(await answer(store, 'one'), 'missing');
        await store.begin('a', { awakeables: created('one') });
        assert.equal(await answer(store, 'one'), 'answered');
      },
    },
    {
      id: 'awakeable/a-withdrawn-one-is-missing',
      title: 'a turn that withdraws an awakeable closes it, and no other',
      async run(store) {
        await store.begin('a', { awakeables: created('one', 'two') });
        await store.raise('a', 'go');
        await store.commit(await store.claimOne(), {
          awakeables: { created: [], withdrawn: [1], closes: false },
        });
        assert.equal(await answer(store, 'one'), 'missing');
        assert.equal(await answer(store, 'two'), 'answered');
      },
    },
    {
      id: 'awakeable/continue-as-new-closes',
      title: 'continue-as-new closes the awakeables of the ended execution',
      async run(store) {
        await store.begin('a', { awakeables: created('one') });
        await store.raise('a', 'go');
        await store.commit(await store.claimOne(), {
          awakeables: { created: [], withdrawn: [], closes: true },
          outcome: { status: 'continuedAsNew', version: '1', start: startMessage() },
        });
        assert.equal(await answer(store, 'one'), 'missing');
        await store.commit(await store.claimOne(), { awakeables: created('two') });
        assert.equal(await answer(store, 'two'), 'answered');
        const { messages } = await store.claimOne();
        assert.deepEqual(
          messages.map(({ executionId }) => executionId),
          [2],
        );
      },
    },
    {
      id: 'awakeable/an-end-closes',
      title: 'the end of an instance closes its awakeables',
      async run(store) {
        await store.begin('a', {
          awakeables: created('one'),
          outcome: { status: 'completed', payload: null },
        });
        assert.equal(await answer(store, 'one'), 'missing');
        await store.begin('b', { awakeables: created('two') });
        await store.provider.terminate([
          { instanceId: 'b', reason: 'x', actor: null, tree: false },
        ]);
        assert.equal(await answer(store, 'two'), 'missing');
      },
    },
    {
      id: 'awakeable/a-retry-keeps-it',
      title: 'a retry whose turn creates an awakeable again makes it answerable',
      async run(store) {
        const source = await failedWith(store, 'one', 'two');
        assert.equal(await answer(store, 'one'), 'missing');
        const start = {
          kept: { first: event('first'), length: 1 },
          messages: [],
          turn: newTurn({ firstEventId: 2, awakeables: created('one') }),
        };
        await store.provider.retryInstances([{ source, version: '1', start }]);
        assert.equal(await answer(store, 'two'), 'missing');
        assert.equal(await answer(store, 'one'), 'answered');
        const item = await store.claimOne();
        assert.deepEqual(
          item.messages.map(({ executionId }) => executionId),
          [2],
        );
      },
    },
    {
      id: 'awakeable/a-fork-has-none',
      title: 'a fork does not take the awakeables of its original',
      async run(store) {
        const { instanceKey } = await store.begin('a', { awakeables: created('one') });
        const { incarnation } = await store.record('a');
        const source = { instanceId: 'a', incarnation, executionId: 1, historyLength: 1 };
        const start = {
          kept: { first: event('first'), length: 1 },
          messages: [],
          turn: newTurn({ firstEventId: 2, awakeables: created('one') }),
        };
        const result = await store.provider.forkInstances([
          {
            source,
            instanceId: 'fork',
            incarnation: randomToken(),
            name: 'sample',
            version: '1',
            inputHash: 'hash',
            forkedFrom: '{}',
            start,
          },
        ]);
        assert.deepEqual(result, [{ kind: 'forked' }]);
        assert.equal(await answer(store, 'one'), 'answered');
        const claimed = await store.claim();
        assert.deepEqual(
          claimed.filter(({ messages }) => messages.length > 0).map((item) => item.instanceKey),
          [instanceKey],
        );
      },
    },
  ],
};

/** Fails an instance with awakeables. */
async function failedWith(store: StoreUnderTest, ...tokenHashes: readonly string[]) {
  await store.begin('a', { awakeables: created(...tokenHashes) });
  await store.raise('a', 'go');
  await fail(store);
  const { incarnation, executionId } = await store.record('a');
  return { instanceId: 'a', incarnation, executionId, historyLength: 2 };
}
