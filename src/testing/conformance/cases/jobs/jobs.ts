import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, only } from '../../expectations.ts';
import {
  abandon,
  jobIds,
  keyOf,
  openSession,
  orchestrationJob,
  readSession,
  startJob,
  submit,
  submitAll,
  taskJob,
} from '../../job-helpers.ts';
import { newInstance, raised } from '../../sample-data.ts';
import { labels } from '../../store-under-test.ts';
import { createTask, createTasks, expectStatus, newTask } from '../../task-helpers.ts';

export const jobs: Capability = {
  title: 'job submission',
  cases: [
    {
      id: 'job/is-a-run-of-its-session',
      title: 'submitJobs() creates a run that listJobs() returns with its session',
      async run(store) {
        await openSession(store);
        const job = taskJob('a', { disposable: true });
        const key = only(await submitAll(store, [job]), 'key');
        const listed = only(await store.provider.listJobs({ sessionId: 's', limit: 9 }), 'job');
        assert.deepEqual(listed, {
          ...key,
          jobKey: listed.jobKey,
          kind: 'task',
          name: 'task',
          status: 'pending',
          disposable: true,
          createdAt: store.clock.now(),
          abandonedAt: null,
        });
        assert.equal((await readSession(store)).openJobs, 1);
        const item = await store.claimWorkOne();
        expectCommitted(await store.ackWork(item.lockToken));
        await expectStatus(store, 'a', 'completed');
        assert.equal((await readSession(store)).openJobs, 0);
        assert.deepEqual(await jobIds(store), ['a']);
      },
    },
    {
      id: 'job/of-an-orchestration-is-claimed-as-any',
      title: 'an orchestration job is claimable with its start message',
      async run(store) {
        await openSession(store);
        await submitAll(store, [orchestrationJob('a')]);
        const item = await store.claimOne();
        assert.deepEqual(
          item.messages.map(({ kind }) => kind),
          ['start'],
        );
        const listed = only(await store.provider.listJobs({ sessionId: 's', limit: 9 }), 'job');
        assert.deepEqual([listed.kind, listed.name], ['orchestration', 'sample']);
      },
    },
    {
      id: 'job/brings-an-event',
      title: 'submitJobs() enqueues the event of a new run, and none at an existing one',
      async run(store) {
        await openSession(store);
        const event = { message: raised('hello') };
        assert.deepEqual(await submit(store, orchestrationJob('new', { event })), {
          kind: 'created',
        });
        const again = await submit(store, orchestrationJob('new', { event }));
        assert.deepEqual(again, { kind: 'conflict', name: 'sample' });
        assert.deepEqual(labels(await store.claimOne()), ['start', 'hello']);
      },
    },
    {
      id: 'job/replaces-a-run',
      title: 'submitJobs() with `terminateExisting` replaces a run that is not a job',
      async run(store) {
        await openSession(store);
        const onConflict = 'terminateExisting';
        await store.begin('orchestration');
        await createTasks(store, [newTask('task', { delayMs: 1_000 })]);
        const jobs = [
          orchestrationJob('orchestration', { onConflict }),
          taskJob('task', { onConflict }),
        ];
        for (const job of jobs) {
          assert.deepEqual(await submit(store, job), { kind: 'created' });
          assert.deepEqual(await submit(store, job), { kind: 'exists' });
        }
        assert.deepEqual(labels(await store.claimOne()), ['start']);
        assert.equal((await store.claimWorkOne()).instanceId, 'task');
        const refused = await store.expectNoChange(async () => [
          await submit(store, orchestrationJob('orchestration', { onConflict })),
          await submit(store, taskJob('task', { onConflict })),
        ]);
        assert.deepEqual(
          refused.map(({ kind }) => kind),
          ['conflict', 'conflict'],
        );
        assert.deepEqual(await jobIds(store), ['orchestration', 'task']);
      },
    },
    {
      id: 'job/has-the-tags-of-its-start',
      title: 'a job has the tags of its run, and lists by tag find it',
      async run(store) {
        await openSession(store);
        const tags = { tenant: '7' };
        const job = orchestrationJob('o');
        assert.ok(job.kind === 'orchestration');
        await submit(store, { ...job, instance: { ...job.instance, tags } });
        await submit(store, taskJob('t', { tags }));
        const records = await store.provider.getInstances(['o', 't']);
        assert.deepEqual(
          records.map((record) => record?.tags),
          [tags, tags],
        );
        const { instances } = await store.provider.listInstances({ filter: { tags }, limit: 10 });
        assert.deepEqual(instances.map(({ instanceId }) => instanceId).toSorted(), ['o', 't']);
      },
    },
    {
      id: 'job/names-the-run-with-its-key',
      title: 'submitJobs() with a taken dedupe key returns the active run and creates no job',
      async run(store) {
        await openSession(store);
        await createTask(store, 'holder', { dedupeKey: 'k' });
        const result = await submit(store, taskJob('a', { dedupeKey: 'k' }));
        assert.deepEqual(result, { kind: 'active', instanceId: 'holder' });
        assert.deepEqual(await jobIds(store), []);
        assert.deepEqual(await store.provider.getInstances(['a']), [undefined]);
      },
    },
    {
      id: 'job/the-same-submit-exists',
      title: 'a repeated submit returns exists, also after the job and its session have ended',
      async run(store) {
        await openSession(store);
        const task = taskJob('a');
        const orchestration = orchestrationJob('b');
        await submitAll(store, [task, orchestration]);
        const again = () => store.provider.submitJobs([task, orchestration, task]);
        const exists = { kind: 'exists' };
        assert.deepEqual(await again(), [exists, exists, exists]);
        assert.deepEqual(await jobIds(store), ['a', 'b']);
        await abandon(store, keyOf(task));
        await store.provider.shutdownSession({ sessionId: 's', mode: 'forceful', end: 'goodbye' });
        assert.deepEqual(await again(), [exists, exists, exists]);
      },
    },
    {
      id: 'job/never-joins-a-run-of-others',
      title: 'submitJobs() with the id of another run returns conflict',
      async run(store) {
        await openSession(store);
        await openSession(store, 'other');
        await store.provider.createInstances([newInstance('plain')]);
        await submitAll(store, [taskJob('job', { sessionId: 'other' })]);
        await store.expectNoChange(async () => {
          const results = await store.provider.submitJobs([
            orchestrationJob('plain'),
            taskJob('job'),
            taskJob('plain'),
          ]);
          assert.deepEqual(results, [
            { kind: 'conflict', name: 'sample' },
            { kind: 'conflict', name: 'task' },
            { kind: 'conflict', name: 'sample' },
          ]);
        });
        assert.deepEqual(await jobIds(store), []);
        assert.deepEqual(await jobIds(store, 'other'), ['job']);
      },
    },
    {
      id: 'job/concurrent-submits-have-one-winner',
      title: 'one of several concurrent submits of one id is created; the others conflict',
      async run(store) {
        await openSession(store);
        const results = await Promise.all(
          Array.from({ length: 5 }, () => submit(store, taskJob('a'))),
        );
        const kinds = results.map(({ kind }) => kind).toSorted();
        assert.deepEqual(kinds, ['conflict', 'conflict', 'conflict', 'conflict', 'created']);
        assert.deepEqual(await jobIds(store), ['a']);
      },
    },
    {
      id: 'job/needs-an-open-session',
      title: 'submitJobs() for a session that is not open returns sessionClosed with its state',
      async run(store) {
        const { provider } = store;
        await openSession(store);
        await openSession(store, 'closing');
        await provider.shutdownSession({ sessionId: 's', mode: 'graceful', end: 'shutdown' });
        const forceful = { mode: 'forceful', end: 'shutdown' } as const;
        await provider.shutdownSession({ sessionId: 'closing', ...forceful });
        const wanted = ['s', 'closing', 'nobody'].flatMap((sessionId) => [
          taskJob(`task of ${sessionId}`, { sessionId }),
          orchestrationJob(`orchestration of ${sessionId}`, { sessionId }),
        ]);
        const closed = (state: string) => ({ kind: 'sessionClosed', state });
        await store.expectNoChange(async () =>
          assert.deepEqual(await provider.submitJobs(wanted), [
            closed('draining'),
            closed('draining'),
            closed('closing'),
            closed('closing'),
            closed('missing'),
            closed('missing'),
          ]),
        );
        await provider.settleSession('closing', 1);
        const late = await submit(store, taskJob('late', { sessionId: 'closing' }));
        assert.deepEqual(late, closed('ended'));
      },
    },
    {
      id: 'job/races-with-a-shutdown',
      title: 'a submit that races with a shutdown is rejected, or its run is canceled',
      async run(store) {
        const { provider } = store;
        for (let round = 0; round < 5; round += 1) {
          const sessionId = `s${round}`;
          await openSession(store, sessionId);
          const ids = Array.from({ length: 4 }, (_, index) => `${sessionId}-${index}`);
          const close = async () => {
            await provider.shutdownSession({ sessionId, mode: 'forceful', end: 'goodbye' });
            return provider.settleSession(sessionId, 100);
          };
          const submits = (some: readonly string[]) =>
            some.map((id) => submit(store, taskJob(id, { sessionId })));
          const [before, session, after] = await Promise.all([
            Promise.all(submits(ids.slice(0, 2))),
            close(),
            Promise.all(submits(ids.slice(2))),
          ]);
          assert.equal(session?.state, 'ended');
          for (const [index, { kind }] of [...before, ...after].entries()) {
            const [record] = await provider.getInstances([ids[index] ?? '']);
            assert.equal(record?.status, kind === 'created' ? 'canceled' : undefined);
          }
        }
      },
    },
    {
      id: 'job/a-bad-one-spares-its-neighbours',
      title: 'an invalid job is refused and does not affect the others of its batch',
      async run(store) {
        await openSession(store);
        const results = await store.provider.submitJobs([
          taskJob('a'),
          taskJob('bad', { priority: 1_000 }),
          orchestrationJob('b'),
        ]);
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['created', 'refused', 'created'],
        );
        assert.deepEqual(await jobIds(store), ['a', 'b']);
      },
    },
    {
      id: 'job/is-bound-to-its-session',
      title: 'getJobBindings() returns the session of a job only for its own incarnation',
      async run(store) {
        const { provider } = store;
        await openSession(store);
        await openSession(store, 'other');
        const task = newTask('no-job');
        await createTasks(store, [task]);
        await store.claimWorkOne();
        const { key: taken, item } = await startJob(store, 'taken');
        expectCommitted(await store.ackWork(item.lockToken));
        await provider.takeJobs([taken]);
        const keys = await submitAll(store, [
          taskJob('a'),
          orchestrationJob('b', { sessionId: 'other' }),
        ]);
        const [a, b] = keys.map(({ instanceId, incarnation }) => ({ instanceId, incarnation }));
        assert.ok(a && b);
        const { instanceId, incarnation } = task;
        const asked = [
          b,
          a,
          { ...a, incarnation: b.incarnation },
          { ...a, instanceId: 'nobody' },
          { instanceId, incarnation },
          taken,
          b,
        ];
        const [listed] = await provider.listJobs({ sessionId: 'other', limit: 1 });
        assert.ok(listed);
        const ofB = { sessionId: 'other', name: listed.name };
        assert.deepEqual(await provider.getJobBindings(asked), [
          ofB,
          { sessionId: 's', name: task.name },
          undefined,
          undefined,
          undefined,
          undefined,
          ofB,
        ]);
        assert.deepEqual(await provider.getJobBindings([]), []);
      },
    },
    {
      id: 'job/is-listed-oldest-first',
      title: 'listJobs() returns the jobs of a session oldest first, in pages',
      async run(store) {
        const { provider } = store;
        await openSession(store);
        for (const job of [taskJob('c'), orchestrationJob('b'), taskJob('a')]) {
          await submitAll(store, [job]);
        }
        const sessionId = 's';
        const all = await provider.listJobs({ sessionId, limit: 9 });
        assert.deepEqual(
          all.map(({ instanceId }) => instanceId),
          ['c', 'b', 'a'],
        );
        const [, second] = await provider.listJobs({ sessionId, limit: 2 });
        assert.equal(second?.instanceId, 'b');
        const rest = await provider.listJobs({ sessionId, limit: 2, after: second.jobKey });
        assert.equal(only(rest, 'job').instanceId, 'a');
        assert.deepEqual(await provider.listJobs({ sessionId, limit: 0 }), []);
        assert.deepEqual(await jobIds(store, 'nobody'), []);
      },
    },
  ],
};
