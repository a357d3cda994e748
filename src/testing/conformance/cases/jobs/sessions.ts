import assert from 'node:assert/strict';
import type { SessionRecord } from '../../../../providers/contract/sessions.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  due,
  jobIds,
  leaseMs,
  newSession,
  openSession,
  readSession,
  settle,
  startJob,
  submitAll,
  taskJob,
} from '../../job-helpers.ts';

const graceful = { mode: 'graceful', end: 'shutdown' } as const;
const forceful = { mode: 'forceful', end: 'goodbye' } as const;

export const sessions: Capability = {
  title: 'sessions',
  cases: [
    {
      id: 'session/opens-with-a-lease',
      title: 'openSession() returns an open session with the given values and a lease',
      async run(store) {
        const now = store.clock.now();
        const variables = { a: '1', b: '' };
        const parts = { label: 'l', owner: 'o', leaseMs: 5_000, variables };
        const session = await openSession(store, 's', parts);
        assert.deepEqual(session, {
          sessionKey: session.sessionKey,
          sessionId: 's',
          label: 'l',
          owner: 'o',
          state: 'open',
          leaseMs: 5_000,
          createdAt: now,
          expiresAt: now + 5_000,
          endedAt: null,
          end: null,
          variables,
          openJobs: 0,
        });
        assert.deepEqual(await readSession(store), session);
      },
    },
    {
      id: 'session/opens-once',
      title: 'openSession() with an existing id returns that session unchanged, also if ended',
      async run(store) {
        const first = await openSession(store);
        await store.clock.advance(10);
        assert.deepEqual(await openSession(store, 's', { label: 'other', leaseMs: 1 }), first);
        await store.provider.shutdownSession({ sessionId: 's', ...forceful });
        const ended = await settle(store);
        assert.equal(ended.state, 'ended');
        assert.deepEqual(await openSession(store), ended);
      },
    },
    {
      id: 'session/a-renewal-extends-the-lease',
      title: 'renewSessions() extends leases from now and returns sessions in the requested order',
      async run(store) {
        await openSession(store, 'a');
        await openSession(store, 'b', { leaseMs: 7_000 });
        await store.clock.advance(100);
        const now = store.clock.now();
        const [b, missing, a] = await store.provider.renewSessions(['b', 'nobody', 'a']);
        assert.deepEqual([b?.sessionId, b?.expiresAt], ['b', now + 7_000]);
        assert.equal(missing, undefined);
        assert.deepEqual([a?.sessionId, a?.expiresAt], ['a', now + leaseMs]);
        await store.clock.advance(6_999);
        assert.deepEqual((await due(store)).sessionIds, []);
        await store.clock.advance(1);
        assert.deepEqual((await due(store)).sessionIds, ['b']);
      },
    },
    {
      id: 'session/is-renewed-while-it-drains',
      title: 'renewSessions() extends the lease of draining and closing sessions',
      async run(store) {
        await openSession(store);
        await startJob(store, 'a');
        for (const how of [graceful, forceful]) {
          await store.provider.shutdownSession({ sessionId: 's', ...how });
          await store.clock.advance(leaseMs - 1);
          const [session] = await store.provider.renewSessions(['s']);
          assert.equal(session?.expiresAt, store.clock.now() + leaseMs);
          assert.equal(session.state, how === graceful ? 'draining' : 'closing');
        }
        await store.clock.advance(1);
        await due(store);
        assert.equal((await readSession(store)).end, 'goodbye');
      },
    },
    {
      id: 'session/comes-back-before-it-is-closed',
      title: 'renewSessions() extends an expired session that was not yet closed',
      async run(store) {
        await openSession(store);
        await store.clock.advance(leaseMs * 2);
        const [session] = await store.provider.renewSessions(['s']);
        assert.equal(session?.state, 'open');
        assert.deepEqual((await due(store)).sessionIds, []);
        await submitAll(store, [taskJob('a')]);
      },
    },
    {
      id: 'session/can-be-read',
      title: 'getSessions() returns sessions in the requested order, undefined for unknown ids',
      async run(store) {
        const a = await openSession(store, 'a');
        const b = await openSession(store, 'b');
        const read = await store.provider.getSessions(['b', 'nobody', 'a']);
        assert.deepEqual(read, [b, undefined, a]);
      },
    },
    {
      id: 'session/is-listed-newest-first',
      title: 'listSessions() returns sessions newest first, in pages, filtered by state and label',
      async run({ provider }) {
        for (const [id, label] of [
          ['z', 'one'],
          ['a', 'two'],
          ['m', 'one'],
        ] as const) {
          await provider.openSession(newSession(id, { label }));
        }
        await provider.shutdownSession({ sessionId: 'm', ...graceful });
        const list = async (params: Parameters<typeof provider.listSessions>[0]) =>
          (await provider.listSessions(params)).map(({ sessionId }) => sessionId);
        assert.deepEqual(await list({ limit: 9 }), ['m', 'a', 'z']);
        assert.deepEqual(await list({ limit: 0 }), []);
        const [first, second] = await provider.listSessions({ limit: 2 });
        assert.deepEqual([first?.sessionId, second?.sessionId], ['m', 'a']);
        assert.deepEqual(await list({ limit: 2, after: second?.sessionKey ?? 0 }), ['z']);
        assert.deepEqual(await list({ limit: 9, label: 'one' }), ['m', 'z']);
        assert.deepEqual(await list({ limit: 9, label: 'o%' }), []);
        assert.deepEqual(await list({ limit: 9, state: ['open'] }), ['a', 'z']);
        assert.deepEqual(await list({ limit: 9, state: ['draining', 'ended'] }), ['m']);
        assert.deepEqual(await list({ limit: 9, state: [] }), []);
        assert.deepEqual(await list({ limit: 9, state: ['open'], label: 'one' }), ['z']);
      },
    },
    {
      id: 'session/list-ends-at-its-bytes',
      title: 'listSessions() with maxBytes ends with the first oversized session, withheld',
      async run({ provider }) {
        const variables = { v: 'x'.repeat(92) };
        for (const id of ['a', 'b', 'c']) await provider.openSession(newSession(id, { variables }));
        const list = async (maxBytes: number, after?: number) =>
          provider.listSessions({ limit: 9, maxBytes, ...(after !== undefined && { after }) });
        const show = (records: readonly SessionRecord[]) =>
          records.map((record) => [record.sessionId, record.variables, record.withheld]);
        const first = await list(250);
        assert.deepEqual(show(first), [
          ['c', variables, undefined],
          ['b', variables, undefined],
          ['a', {}, true],
        ]);
        assert.deepEqual(show(await list(250, first[1]?.sessionKey)), [
          ['a', variables, undefined],
        ]);
        assert.deepEqual(show(await list(1)), [
          ['c', variables, undefined],
          ['b', {}, true],
        ]);
        assert.equal((await list(1_000_000)).length, 3);
      },
    },
    {
      id: 'session/has-variables',
      title:
        'setSessionVariables() sets and deletes single variables, and changes nothing after the end',
      async run(store) {
        const { provider } = store;
        await openSession(store, 's', { variables: { kept: 'k', gone: 'g', changed: 'c' } });
        const set = { gone: null, changed: 'new', added: '', never: null };
        const session = await provider.setSessionVariables({ sessionId: 's', set });
        assert.deepEqual(session?.variables, { kept: 'k', changed: 'new', added: '' });
        assert.deepEqual(await readSession(store), session);
        assert.equal(await provider.setSessionVariables({ sessionId: 'nobody', set }), undefined);
        await provider.shutdownSession({ sessionId: 's', ...forceful });
        const ended = await settle(store);
        const late = await provider.setSessionVariables({ sessionId: 's', set: { late: '1' } });
        assert.deepEqual(late, ended);
      },
    },
    {
      id: 'session/text-is-only-text',
      title: 'ids, labels, owners and variables of a session are stored unchanged',
      async run(store) {
        const text = `'; DROP TABLE sessions; -- "%_\\ \u{1F600} \u0001 é`;
        const variables = { [text]: text, __proto__x: '1', constructor: '2', '': '3' };
        const given = newSession(text, { label: text, owner: text, variables });
        const session = await store.provider.openSession(given);
        const { sessionId, label, owner } = session;
        assert.deepEqual([sessionId, label, owner], [text, text, text]);
        assert.deepEqual({ ...session.variables }, variables);
        const [listed] = await store.provider.listSessions({ limit: 9, label: text });
        assert.deepEqual(listed, session);
        await submitAll(store, [taskJob(text, { sessionId: text, name: text })]);
        assert.deepEqual(await jobIds(store, text), [text]);
      },
    },
    {
      id: 'session/leaves-others-alone',
      title: 'ending a session cancels neither jobs of other sessions nor unrelated runs',
      async run(store) {
        await openSession(store, 's');
        await openSession(store, 'other');
        await store.create('nobodys');
        await submitAll(store, [taskJob('own'), taskJob('others', { sessionId: 'other' })]);
        await store.provider.shutdownSession({ sessionId: 's', ...forceful });
        assert.equal((await settle(store)).state, 'ended');
        assert.equal((await store.record('own')).status, 'canceled');
        assert.equal((await store.record('others')).status, 'pending');
        assert.equal((await store.record('nobodys')).status, 'pending');
        const other = await readSession(store, 'other');
        assert.deepEqual([other.state, other.openJobs], ['open', 1]);
        assert.deepEqual(await jobIds(store, 'other'), ['others']);
      },
    },
  ],
};
