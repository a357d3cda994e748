import assert from 'node:assert/strict';
import { collectHints } from '../../collect-hints.ts';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { expectCommitted, only } from '../../expectations.ts';
import {
  abandon,
  due,
  jobIds,
  openSession,
  orchestrationJob,
  otherIncarnation,
  readSession,
  startJob,
  startOrchestration,
  submitAll,
  taskJob,
} from '../../job-helpers.ts';
import { cleanupMs } from '../../sample-data.ts';
import { lockMs } from '../../store-under-test.ts';
import { createTasks, expectStatus, newTask } from '../../task-helpers.ts';

const canceled = { kind: 'canceled', leaked: false } as const;

/** Returns a distinct reason and actor for each request. */
function cancelDetails(index: number) {
  return { reason: `reason ${index} "\\'`, actor: `actor ${index}`, cleanupMs };
}

export const jobEnds: Capability = {
  title: 'taken and abandoned jobs',
  cases: [
    {
      id: 'job/a-taken-reply-ends-it',
      title: 'takeJobs() of a completed job removes the job and keeps its run',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a', { disposable: true });
        expectCommitted(await store.ackWork(item.lockToken));
        await store.provider.takeJobs([key]);
        assert.deepEqual(await jobIds(store), []);
        await expectStatus(store, 'a', 'completed');
        await store.provider.takeJobs([key]);
      },
    },
    {
      id: 'job/what-is-none-is-told-how-its-run-stands',
      title: 'abandonJobs() of a run that is not a job returns its status and changes nothing',
      async run(store) {
        const { sessionId } = await openSession(store);
        const started = newTask('started');
        const waiting = newTask('waiting');
        await createTasks(store, [started]);
        await store.claimWorkOne();
        await createTasks(store, [waiting]);
        const results = await store.provider.abandonJobs(
          [waiting, started].map(({ instanceId, incarnation }) => ({
            sessionId,
            instanceId,
            incarnation,
            ...cancelDetails(0),
          })),
        );
        assert.deepEqual(results, [
          { found: true, changed: false, status: 'pending' },
          { found: true, changed: false, status: 'running' },
        ]);
        await expectStatus(store, 'started', 'running');
      },
    },
    {
      id: 'job/cannot-be-taken-early',
      title: 'takeJobs() does not take the reply of a run that has not ended',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await store.provider.takeJobs([key]);
        await abandon(store, key);
        await store.provider.takeJobs([key]);
        assert.deepEqual(await jobIds(store), ['a']);
        expectCommitted(await store.ackWork(item.lockToken, canceled));
      },
    },
    {
      id: 'job/is-meant-by-its-whole-key',
      title: 'takeJobs() and abandonJobs() ignore another incarnation, session or id',
      async run(store) {
        await openSession(store);
        await openSession(store, 'other');
        const { key } = await startJob(store, 'a');
        const done = await submitAll(store, [taskJob('done')]);
        const { lockToken } = await store.claimWorkOne();
        expectCommitted(await store.ackWork(lockToken));
        const wrong = [key, ...done].flatMap((one) => [
          otherIncarnation(one),
          { ...one, sessionId: 'other' },
          { ...one, sessionId: 'nobody' },
          { ...one, instanceId: 'nobody' },
        ]);
        await store.expectNoChange(async () => {
          await store.provider.takeJobs(wrong);
          for (const one of wrong) {
            const result = await abandon(store, one);
            assert.deepEqual(result, { found: false, changed: false, status: null });
          }
        });
        assert.deepEqual(await jobIds(store), ['a', 'done']);
        const listed = await store.provider.listJobs({ sessionId: 's', limit: 9 });
        assert.ok(listed.every(({ abandonedAt }) => abandonedAt === null));
      },
    },
    {
      id: 'job/an-abandoned-run-is-asked-to-stop',
      title: 'abandonJobs() cancels a running job and records reason and actor',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        const begun = await startOrchestration(store, 'b');
        const stopped = { found: true, changed: true, status: 'canceling' };
        const request = { reason: 'left', actor: 'me' };
        assert.deepEqual(await abandon(store, key, request), stopped);
        assert.deepEqual(await abandon(store, begun, request), stopped);
        const renewed = await store.renewWork(item.lockToken);
        assert.equal(renewed.held && renewed.cancel?.reason, 'left');
        const requestedAt = store.clock.now();
        for (const id of ['a', 'b']) {
          assert.deepEqual((await store.record(id)).cancel, { ...request, requestedAt });
        }
        const listed = await store.provider.listJobs({ sessionId: 's', limit: 9 });
        assert.deepEqual(
          listed.map(({ abandonedAt }) => abandonedAt),
          [requestedAt, requestedAt],
        );
      },
    },
    {
      id: 'job/an-abandoned-pending-run-ends-at-once',
      title: 'abandonJobs() cancels and forgets a pending job immediately',
      async run(store) {
        await openSession(store);
        const keys = await submitAll(store, [taskJob('a'), orchestrationJob('b')]);
        for (const key of keys) {
          const result = await abandon(store, key);
          assert.deepEqual(result, { found: true, changed: true, status: 'canceled' });
        }
        assert.deepEqual(await jobIds(store), []);
        await store.expectIdle();
      },
    },
    {
      id: 'job/can-be-abandoned-twice',
      title: 'a second abandon of a job changes nothing',
      async run(store) {
        await openSession(store);
        const { key } = await startJob(store, 'a');
        await abandon(store, key);
        await store.clock.advance(10);
        const again = await store.expectNoChange(() => abandon(store, key, { reason: 'again' }));
        assert.deepEqual(again, { found: true, changed: false, status: 'canceling' });
        const listed = only(await store.provider.listJobs({ sessionId: 's', limit: 9 }), 'job');
        assert.equal(listed.abandonedAt, store.clock.now() - 10);
      },
    },
    {
      id: 'job/are-abandoned-each-for-itself',
      title:
        'abandonJobs() handles each job of a batch independently, and a repeat changes nothing',
      async run(store) {
        const { provider } = store;
        await openSession(store);
        await openSession(store, 'other');
        const running = await startJob(store, 'running');
        const emitting = await startJob(store, 'emitting');
        const chunks = { chunks: ['1', '2'], maxChunks: 10, maxBytes: 100 };
        await provider.appendChunks([{ lockToken: emitting.item.lockToken, ...chunks }]);
        const passed = await startJob(store, 'passed');
        await provider.markPointOfNoReturn(passed.item.lockToken);
        const over = await startJob(store, 'over');
        expectCommitted(await store.ackWork(over.item.lockToken));
        const begun = await startOrchestration(store, 'begun');
        const foreign = await startJob(store, 'foreign', { sessionId: 'other' });
        const lost = await startJob(store, 'lost', { disposable: true });
        await store.clock.advance(lockMs - 1);
        for (const { item } of [running, emitting, passed, foreign]) {
          await store.renewWork(item.lockToken);
        }
        await store.clock.advance(1);
        const queued = only(await submitAll(store, [taskJob('queued')]), 'key');
        const canceling = { found: true, changed: true, status: 'canceling' };
        const canceled = { found: true, changed: true, status: 'canceled' };
        const results = [
          [running.key, canceling],
          [queued, canceled],
          [passed.key, canceling],
          [running.key, { ...canceling, changed: false }],
          [over.key, { found: true, changed: false, status: 'completed' }],
          [emitting.key, canceling],
          [
            { ...foreign.key, sessionId: 's' },
            { found: false, changed: false, status: null },
          ],
          [begun, canceling],
          [lost.key, canceled],
        ] as const;
        const { next, stop } = collectHints(provider);
        const requests = results.map(([key], index) => ({ ...key, ...cancelDetails(index) }));
        assert.deepEqual(
          await provider.abandonJobs(requests),
          results.map(([, result]) => result),
        );
        const received = await next('cancelRequested');
        stop();
        assert.ok(received.lockTokens.includes(running.item.lockToken));
        assert.ok(!received.lockTokens.includes(passed.item.lockToken));
        const requestedAt = store.clock.now();
        for (const [id, index] of [
          ['running', 0],
          ['queued', 1],
          ['passed', 2],
          ['emitting', 5],
          ['begun', 7],
          ['lost', 8],
        ] as const) {
          const { reason, actor } = cancelDetails(index);
          assert.deepEqual((await store.record(id)).cancel, { reason, actor, requestedAt });
        }
        for (const [{ item }, index] of [
          [running, 0],
          [emitting, 5],
        ] as const) {
          const cancel = { reason: cancelDetails(index).reason, requestedAt, trigger: 'cancel' };
          assert.deepEqual(await store.renewWork(item.lockToken), { held: true, cancel });
        }
        const renewed = await store.renewWork(passed.item.lockToken);
        assert.deepEqual(renewed, { held: true, cancel: null });
        const read = { ...emitting.key, after: 0, limit: 10 };
        assert.deepEqual((await provider.readChunks(read)).chunks, []);
        assert.deepEqual(await jobIds(store), ['begun', 'emitting', 'passed', 'running']);
        await store.clock.advance(5);
        await store.expectNoChange(() => provider.abandonJobs(requests));
        await expectStatus(store, 'foreign', 'running');
      },
    },
    {
      id: 'job/an-abandon-after-the-reply-changes-nothing',
      title: 'abandonJobs() after takeJobs() returns completed and changes nothing',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a', { disposable: true });
        expectCommitted(await store.ackWork(item.lockToken));
        await store.provider.takeJobs([key]);
        const result = await store.expectNoChange(() => abandon(store, key));
        assert.deepEqual(result, { found: true, changed: false, status: 'completed' });
        assert.equal((await due(store)).hasAbandoned, false);
      },
    },
    {
      id: 'job/an-abandoned-one-is-forgotten-at-its-end',
      title: 'an abandoned job is forgotten after its run ends, and its session stays open',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await abandon(store, key);
        await store.clock.advance(1_000);
        await due(store);
        assert.deepEqual(await jobIds(store), ['a']);
        expectCommitted(await store.ackWork(item.lockToken, canceled));
        await store.clock.advance(2_000);
        await due(store);
        assert.deepEqual(await jobIds(store), []);
        assert.equal((await readSession(store)).state, 'open');
      },
    },
    {
      id: 'job/goes-with-its-instance',
      title: 'deleting an instance deletes its job and chunks',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        const chunks = { chunks: ['1'], maxChunks: 10, maxBytes: 100 };
        const { lockToken } = item;
        const appended = await store.provider.appendChunks([{ lockToken, ...chunks }]);
        assert.deepEqual(appended, ['appended']);
        await forceDelete(store, 'a');
        assert.deepEqual(await jobIds(store), []);
        assert.equal((await readSession(store)).openJobs, 0);
        assert.equal((await abandon(store, key)).found, false);
        await submitAll(store, [taskJob('a')]);
        const read = { ...key, after: 0, limit: 10 };
        assert.deepEqual(await store.provider.readChunks(read), { chunks: [], over: true });
      },
    },
  ],
};
