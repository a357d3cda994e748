import assert from 'node:assert/strict';
import { encodeEvent } from '../../../../model/event.ts';
import { encodeMessage } from '../../../../model/message.ts';
import {
  maxListedLength,
  maxShownLength,
  type InstanceDetails,
} from '../../../../providers/contract/inspection.ts';
import type { Capability } from '../../conformance-case.ts';
import { continued, prune } from '../../deletion-helpers.ts';
import { expectCommitted } from '../../expectations.ts';
import { event, startMessage, workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { abandon, leaseMs, openSession, startJob } from '../../job-helpers.ts';
import { createTask, startTask } from '../../task-helpers.ts';

function inspect(
  { provider }: StoreUnderTest,
  instanceId: string,
  maxPending = 100,
): Promise<InstanceDetails | undefined> {
  return provider.inspectInstance({ instanceId, maxPending });
}

function inspectMany(
  { provider }: StoreUnderTest,
  instanceIds: readonly string[],
  maxPending = 10,
  maxEvents = 10,
) {
  return provider.inspectInstances({ instanceIds, maxPending, maxEvents });
}

/** Returns the first event of an execution, with an input. */
function started(payload: string) {
  return encodeEvent({ kind: 'executionStarted', at: 1, name: 'sample', version: '1', payload });
}

export const inspection: Capability = {
  title: 'inspection',
  cases: [
    {
      id: 'inspect/an-unknown-id-is-undefined',
      title: 'inspectInstance() of an unknown id returns undefined',
      async run(store) {
        await store.create('a');
        assert.equal(await inspect(store, 'nobody'), undefined);
        assert.equal(await store.provider.inspectTurn('nobody'), undefined);
      },
    },
    {
      id: 'inspect/finds-stored-texts',
      title:
        'findStoredTexts() returns payloads, failures, messages, work, replies and state as stored',
      async run(store) {
        const mark = '~mark/';
        const found = async (id: string) =>
          (await store.provider.findStoredTexts({ instanceId: id, text: mark })).toSorted();
        const failed = (text: string) => `{"name":"E","message":"${text}"}`;
        await store.create('a', { start: { ...startMessage(), payload: `"${mark}start"` } });
        assert.deepEqual(await found('a'), [`"${mark}start"`]);
        const long = `"${mark}${'x'.repeat(5_000)}"`;
        await store.commit(await store.claimOne(), {
          events: [
            { ...event('one'), payload: long },
            { ...event('two'), data: `{"label":"${mark}data"}` },
          ],
          workItems: [{ ...workItem(1), payload: `"${mark}item"` }],
          customStatus: `"${mark}status"`,
          state: [{ key: 'k', payload: `"${mark}state"` }],
        });
        const item = await store.claimWorkOne();
        await store.provider.retryWorkItems([
          { lockToken: item.lockToken, delayMs: 1e6, failure: failed(`${mark}attempt`) },
        ]);
        await store.raise('a', 'queued');
        assert.deepEqual(
          await found('a'),
          [
            `"${mark}item"`,
            `"${mark}state"`,
            `"${mark}status"`,
            long,
            failed(`${mark}attempt`),
            `{"label":"${mark}data"}`,
          ].toSorted(),
        );
        await createTask(store, 't', { payload: `"${mark}input"` });
        const run = await store.claimWorkOne();
        expectCommitted(
          await store.ackWork(run.lockToken, { kind: 'completed', payload: `"${mark}output"` }),
        );
        assert.deepEqual(await found('t'), [`"${mark}input"`, `"${mark}output"`]);
      },
    },
    {
      id: 'inspect/finds-texts-of-one-instance',
      title:
        'findStoredTexts() compares literally, and ignores other instances and pruned executions',
      async run(store) {
        const found = (id: string, text: string) =>
          store.provider.findStoredTexts({ instanceId: id, text });
        const payload = (text: string) => ({ ...event('x'), payload: text });
        await store.begin('a', { events: [payload('"1%a_B"')], outcome: continued });
        await store.commit(await store.claimOne(), { events: [payload('"2%a_B"')] });
        await store.begin('b', { events: [payload('"3%a_B"')] });
        assert.deepEqual(await found('a', '%a_'), ['"1%a_B"', '"2%a_B"']);
        assert.deepEqual(await found('a', '%a_b'), []);
        assert.deepEqual(await found('a', '%_'), []);
        assert.deepEqual(await found('missing', 'a'), []);
        await prune(store, 'a', { keepLast: 1 });
        assert.deepEqual(await found('a', '%a_'), ['"2%a_B"']);
      },
    },
    {
      id: 'inspect/shows-the-input',
      title: 'inspectInstance() returns the input of the current execution, and of a task',
      async run(store) {
        const inputOf = async (id: string) => (await inspect(store, id))?.input;
        await store.create('a');
        assert.equal(await inputOf('a'), '"input"');
        await store.commit(await store.claimOne(), { events: [started('"first"')] });
        assert.equal(await inputOf('a'), '"first"');
        await store.raise('a', 'x');
        const start = encodeMessage({
          kind: 'start',
          name: 'sample',
          version: '1',
          payload: '"second"',
        });
        await store.commit(await store.claimOne(), {
          outcome: { status: 'continuedAsNew', version: '1', start },
        });
        assert.equal(await inputOf('a'), '"second"');
        await store.commit(await store.claimOne(), {
          events: [started('"second"')],
          outcome: { status: 'completed', payload: '"done"' },
        });
        assert.equal(await inputOf('a'), '"second"');
        await createTask(store, 'run', { payload: '"of a task"' });
        assert.equal(await inputOf('run'), '"of a task"');
      },
    },
    {
      id: 'inspect/lists-pending-work',
      title: 'inspectInstance() lists pending work with attempts, failure, heartbeat and holder',
      async run(store) {
        const options = '{"priority":0}';
        await store.begin('a', {
          workItems: [workItem(1), workItem(2, { options }), workItem(3, { name: 'other' })],
        });
        const beganAt = store.clock.now();
        const [, two] = await store.claimWorkInOrder();
        await store.claimWork();
        assert.ok(two);
        const renewal = { lockToken: two.lockToken, heartbeat: '{"done":7}' };
        await store.provider.renewWorkItemLocks([renewal], lockMs);
        const failure = '{"name":"Error","message":"no"}';
        await store.provider.retryWorkItems([
          { lockToken: two.lockToken, delayMs: 5_000, failure },
        ]);
        await store.begin('b', { workItems: [workItem(1)] });
        const details = await inspect(store, 'a');
        const lane = { lane: null, limitHold: null };
        const common = { kind: 'activity', executionId: 1, cancel: null, ...lane } as const;
        const fresh = {
          options: null,
          failures: 0,
          maxAttempts: null,
          lastFailure: null,
          heartbeat: null,
          heartbeatAt: null,
          expired: null,
          pointOfNoReturn: false,
        };
        const held = { worker: null, claimedAt: beganAt, lockedUntil: beganAt + lockMs };
        const [first, second, third, ...others] = details?.pending ?? [];
        assert.ok(first && third);
        assert.deepEqual(others, []);
        const { dueAt: _first, ...one } = first;
        const { dueAt: _third, ...three } = third;
        assert.deepEqual(one, { ...common, ...fresh, operation: 1, name: 'activity', held });
        assert.deepEqual(three, { ...common, ...fresh, operation: 3, name: 'other', held });
        assert.deepEqual(second, {
          ...common,
          operation: 2,
          name: 'activity',
          options,
          failures: 1,
          maxAttempts: null,
          lastFailure: failure,
          heartbeat: '{"done":7}',
          heartbeatAt: beganAt,
          expired: null,
          pointOfNoReturn: false,
          dueAt: beganAt + 5_000,
          held: null,
        });
        assert.deepEqual(
          (await inspect(store, 'b'))?.pending.map(({ held: holder, dueAt }) => [holder, dueAt]),
          [[null, beganAt]],
        );
        await createTask(store, 'run', { name: 'mail' });
        assert.deepEqual(
          (await inspect(store, 'run'))?.pending.map(({ kind, name }) => [kind, name]),
          [['task', 'mail']],
        );
      },
    },
    {
      id: 'inspect/shows-the-limit-of-attempts',
      title: 'inspectInstance() returns the maximum of attempts of the last retry',
      async run(store) {
        const failure = '{"name":"Error","message":"no"}';
        await store.begin('a', { workItems: [workItem(1)] });
        await createTask(store, 'run');
        await createTask(store, 'other');
        const limits = async () => {
          const ids = ['a', 'run', 'other'];
          const details = await Promise.all(ids.map((id) => inspect(store, id)));
          return details.map((one) => one?.pending[0]?.maxAttempts);
        };
        assert.deepEqual(await limits(), [null, null, null]);
        const retry = async (maxAttempts: number | null) => {
          const items = await store.claimWork();
          const retried = items.filter(({ instanceId }) => instanceId !== 'other');
          await store.provider.retryWorkItems(
            retried.map(({ lockToken }) => ({ lockToken, delayMs: 0, failure, maxAttempts })),
          );
          const left = items.filter(({ instanceId }) => instanceId === 'other');
          await store.provider.abandonWorkItems(
            left.map(({ lockToken }) => ({ lockToken, delayMs: 0, giveBackClaim: true })),
          );
        };
        // Larger than 32 bits.
        await retry(5_000_000_000);
        assert.deepEqual(await limits(), [5_000_000_000, 5_000_000_000, null]);
        // Another worker may have another policy.
        await retry(8);
        assert.deepEqual(await limits(), [8, 8, null]);
        const claimed = await store.claimWork();
        assert.deepEqual(await limits(), [8, 8, null]);
        await store.provider.abandonWorkItems(
          claimed.map(({ lockToken }) => ({ lockToken, delayMs: 0, giveBackClaim: true })),
        );
        assert.deepEqual(await limits(), [8, 8, null]);
        await retry(null);
        assert.deepEqual(await limits(), [null, null, null]);
      },
    },
    {
      id: 'inspect/a-lapsed-claim-is-not-held',
      title: 'inspectInstance() shows work with an expired lease as unheld and due since then',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWorkOne({ worker: 'one' });
        const claimedAt = store.clock.now();
        const lockedUntil = claimedAt + lockMs;
        await store.clock.advance(lockMs - 1);
        const held = { worker: 'one', claimedAt, lockedUntil };
        assert.deepEqual((await inspect(store, 'a'))?.pending[0]?.held, held);
        await store.clock.advance(1);
        const [item] = (await inspect(store, 'a'))?.pending ?? [];
        assert.deepEqual([item?.held, item?.dueAt], [null, lockedUntil]);
        assert.deepEqual(item?.expired, { worker: 'one', at: lockedUntil });
      },
    },
    {
      id: 'inspect/dates-heartbeats',
      title: 'inspectInstance() returns when a heartbeat was stored; a plain renewal keeps it',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        const at = async () => (await inspect(store, 'a'))?.pending[0]?.heartbeatAt;
        assert.equal(await at(), null);
        await store.clock.advance(1_000);
        const stored = store.clock.now();
        await store.provider.renewWorkItemLocks([{ lockToken, heartbeat: '1' }], lockMs);
        await store.clock.advance(1_000);
        await store.provider.renewWorkItemLocks([{ lockToken }], lockMs);
        assert.equal(await at(), stored);
      },
    },
    {
      id: 'inspect/shows-the-point-of-no-return',
      title: 'inspectInstance() shows an item that is past its point of no return',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        const isPast = async () => (await inspect(store, 'a'))?.pending[0]?.pointOfNoReturn;
        assert.equal(await isPast(), false);
        await store.provider.markPointOfNoReturn(lockToken);
        assert.equal(await isPast(), true);
      },
    },
    {
      id: 'inspect/shows-when-a-turn-is-due',
      title: 'inspectTurn() returns when a turn is due, a hold-back, and the length of the history',
      async run(store) {
        const { provider, clock } = store;
        await store.create('a');
        const createdAt = clock.now();
        const fresh = await provider.inspectTurn('a');
        assert.deepEqual([fresh?.dueAt, fresh?.heldUntil, fresh?.claims], [createdAt, null, 0]);
        assert.equal(fresh?.nowMs, createdAt);
        const { lockToken } = await store.claimOne();
        await provider.abandonOrchestrationItems([
          { lockToken, delayMs: 5_000, giveBackClaim: false },
        ]);
        const held = await provider.inspectTurn('a');
        assert.deepEqual([held?.dueAt, held?.heldUntil], [createdAt + 5_000, createdAt + 5_000]);
        assert.deepEqual([held?.claims, held?.held, held?.expired], [1, null, null]);
        await clock.advance(5_000);
        assert.equal((await provider.inspectTurn('a'))?.heldUntil, null);
        await store.commit(await store.claimOne(), { events: [started('"first"')] });
        const idle = await provider.inspectTurn('a');
        assert.deepEqual([idle?.dueAt, idle?.historyLength, idle?.claims], [null, 1, 0]);
      },
    },
    {
      id: 'inspect/shows-who-runs-a-turn',
      title: 'inspectTurn() returns the worker of a claim, and later that its lease expired',
      async run(store) {
        const { provider, clock } = store;
        await store.create('a');
        await clock.advance(1_000);
        await store.claimOne({ worker: 'one' });
        const claimedAt = clock.now();
        const lockedUntil = claimedAt + lockMs;
        await clock.advance(lockMs - 1);
        const held = await provider.inspectTurn('a');
        assert.deepEqual(held?.held, { worker: 'one', claimedAt, lockedUntil });
        assert.equal(held?.expired, null);
        await clock.advance(1);
        const lost = await provider.inspectTurn('a');
        assert.deepEqual(
          [lost?.held, lost?.expired, lost?.dueAt],
          [null, { worker: 'one', at: lockedUntil }, lockedUntil],
        );
        await store.claimOne();
        assert.equal((await provider.inspectTurn('a'))?.held?.worker, null);
      },
    },
    {
      id: 'inspect/shows-a-canceled-end',
      title: 'inspectTurn() returns the clean-up limit, and whether only running work is left',
      async run(store) {
        const { provider, clock } = store;
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWorkOne();
        await store.cancel('a', { cleanupMs: 5_000 });
        const asked = await provider.inspectTurn('a');
        assert.deepEqual([asked?.cleanupAt, asked?.isClosing], [clock.now() + 5_000, false]);
        await store.commit(await store.claimOne(), {
          outcome: { status: 'canceled', reason: 'no', cleanupSkipped: false },
        });
        assert.equal((await provider.inspectTurn('a'))?.isClosing, true);
      },
    },
    {
      id: 'inspect/shows-the-session-of-a-job',
      title: 'inspectTurn() returns the session of a job, and since when the job is abandoned',
      async run(store) {
        const { provider, clock } = store;
        await openSession(store, 's');
        const expiresAt = clock.now() + leaseMs;
        const { key } = await startJob(store, 'a');
        const session = { sessionId: 's', sessionState: 'open', expiresAt } as const;
        assert.deepEqual((await provider.inspectTurn('a'))?.job, { ...session, abandonedAt: null });
        await clock.advance(1_000);
        await abandon(store, key);
        const abandonedAt = clock.now();
        assert.deepEqual((await provider.inspectTurn('a'))?.job, { ...session, abandonedAt });
        await createTask(store, 'run');
        assert.equal((await provider.inspectTurn('run'))?.job, null);
      },
    },
    {
      id: 'inspect/pending-work-is-bounded',
      title: 'inspectInstance() lists at most maxPending entries and omits oversized values',
      async run(store) {
        await store.begin('a', { workItems: [1, 2, 3].map((operation) => workItem(operation)) });
        const operations = (await inspect(store, 'a', 2))?.pending.map(
          ({ operation }) => operation,
        );
        assert.deepEqual(operations, [1, 2]);
        const [one] = await store.claimWorkInOrder();
        assert.ok(one);
        const heartbeat = JSON.stringify('x'.repeat(maxShownLength));
        const { lockToken } = one;
        await store.provider.renewWorkItemLocks([{ lockToken, heartbeat }], lockMs);
        const failure = JSON.stringify({ name: 'Error', message: 'x'.repeat(maxShownLength) });
        await store.provider.retryWorkItems([{ lockToken, delayMs: 0, failure }]);
        const [item] = (await inspect(store, 'a'))?.pending ?? [];
        assert.deepEqual([item?.heartbeat, item?.lastFailure], [null, '']);
      },
    },
    {
      id: 'inspect/many-come-in-the-order-asked',
      title: 'inspectInstances() returns one entry per id, undefined for a missing one',
      async run(store) {
        await store.create('a');
        await createTask(store, 'b');
        const found = await inspectMany(store, ['b', 'nobody', 'a', 'b']);
        assert.deepEqual(
          found.map((one) => one?.record.instanceId),
          ['b', undefined, 'a', 'b'],
        );
        assert.deepEqual(await inspectMany(store, []), []);
      },
    },
    {
      id: 'inspect/many-equal-the-single-reads',
      title: 'inspectInstances() equals the single reads, without payloads',
      async run(store) {
        const { provider } = store;
        await store.begin('a', { workItems: [1, 2, 3].map((operation) => workItem(operation)) });
        const [held] = await store.claimWorkInOrder();
        assert.ok(held);
        const { lockToken } = held;
        await provider.renewWorkItemLocks([{ lockToken, heartbeat: '"beat"' }], lockMs);
        const failure = JSON.stringify({ name: 'E', message: 'x'.repeat(maxListedLength) });
        const run = await startTask(store, 't');
        await store.ackWork(run.lockToken, { kind: 'failed', failure });
        await store.create('c');
        await store.commit(await store.claimOne({ worker: 'w' }), {
          outcome: { status: 'completed', payload: '"done"' },
        });
        for (const id of ['a', 't', 'c']) {
          const [found] = await inspectMany(store, [id], 2);
          const [record] = await provider.getInstances([id]);
          assert.ok(record && found);
          const none = { output: null, customStatus: null };
          assert.deepEqual(found.record, {
            ...record,
            ...none,
            failure: record.failure === failure ? '' : record.failure,
            task: record.task && { ...record.task, input: null },
          });
          const { nowMs: _, ...turn } = found.turn;
          const { nowMs: __, ...single } = (await provider.inspectTurn(id)) ?? found.turn;
          assert.deepEqual(turn, single);
          const pending = (await inspect(store, id, 2))?.pending ?? [];
          assert.deepEqual(
            found.pending,
            pending.map((item) => ({ ...item, heartbeat: null, lastFailure: null })),
          );
        }
        assert.equal((await inspectMany(store, ['a'], 2))[0]?.pending.length, 2);
      },
    },
    {
      id: 'inspect/idle-ones-have-their-last-events',
      title: 'inspectInstances() returns the last events of idle orchestrations only',
      async run(store) {
        const eventsOf = async (id: string) => {
          const [found] = await inspectMany(store, [id], 2, 2);
          return found?.events.map(({ data, payload }) => [data, payload]);
        };
        const events = [1, 2, 3].map((operation) =>
          encodeEvent({ kind: 'eventAwaited', at: 1, operation, name: 'x' }),
        );
        await store.begin('a', { events: [started('"in"'), ...events] });
        await store.begin('b', { events: [started('"in"')], workItems: [workItem(1)] });
        const last = events.slice(1).map(({ data }) => [data, null]);
        assert.deepEqual(await eventsOf('a'), last);
        assert.deepEqual(await eventsOf('b'), []);
        await store.raise('a', 'x');
        assert.deepEqual(await eventsOf('a'), []);
        const claimed = await store.claimOne();
        assert.deepEqual(await eventsOf('a'), []);
        await store.commit(claimed, {
          events: [event('x')],
          outcome: { status: 'completed', payload: null },
        });
        assert.deepEqual(await eventsOf('a'), []);
      },
    },
  ],
};
