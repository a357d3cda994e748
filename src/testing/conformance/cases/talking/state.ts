import assert from 'node:assert/strict';
import type { RerunSource } from '../../../../providers/contract/reruns.ts';
import type { StateRequest, StateView } from '../../../../providers/contract/state.ts';
import type { StateChange, Turn } from '../../../../providers/contract/turn.ts';
import { randomToken } from '../../../../model/values/random-id.ts';
import { collectHints } from '../../collect-hints.ts';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { expectCommitted, expectRefused, only } from '../../expectations.ts';
import { event, newInstance, newTurn, raised, startMessage, workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { failure } from '../../task-helpers.ts';
import { withTimeLimit } from '../../time-limit.ts';

function set(values: Readonly<Record<string, string | null>>): readonly StateChange[] {
  return Object.entries(values).map(([key, payload]) => ({ key, payload }));
}

async function view(
  { provider }: StoreUnderTest,
  instanceId: string,
  parts: Partial<StateRequest> = {},
): Promise<StateView> {
  const found = only(
    await provider.readStates([{ instanceId, what: 'state', after: 0, ...parts }]),
    'view',
  );
  assert.ok(found);
  return found;
}

/** The values of an instance by key, as `key=payload`. */
async function values(store: StoreUnderTest, instanceId: string): Promise<readonly string[]> {
  const { entries } = await view(store, instanceId);
  return entries.map(({ key, payload }) => `${key}=${payload}`);
}

async function versionOf(store: StoreUnderTest, instanceId: string, key: string): Promise<number> {
  const { entries } = await view(store, instanceId, { key });
  return only(entries, 'entry').version;
}

/** Runs one more turn of an instance that waits for nothing else. */
async function turn(store: StoreUnderTest, instanceId: string, parts: Partial<Turn>) {
  await store.raise(instanceId, 'go');
  return store.commit(await store.claimOne(), { events: [event('next')], ...parts });
}

/** Fails an instance whose state is `kept=1 changed=2 gone=3`. */
async function failed(store: StoreUnderTest): Promise<RerunSource> {
  await store.begin('a', { state: set({ kept: '1', changed: '2', gone: '3' }) });
  await turn(store, 'a', { outcome: { status: 'failed', failure } });
  const { incarnation, executionId } = await store.record('a');
  return { instanceId: 'a', incarnation, executionId, historyLength: 2 };
}

const rerunState = [
  { key: 'kept', payload: '1' },
  { key: 'changed', payload: '0' },
  { key: 'new', payload: '4' },
];

export const stateCases: Capability = {
  title: 'state',
  cases: [
    {
      id: 'state/is-written-by-the-ack',
      title: 'every path that commits a turn writes its state; a rejected ack writes none',
      async run(store) {
        const workItems = [workItem(1, { claimMs: lockMs })];
        const warm = await store.begin('a', { state: set({ x: '1', y: '2' }), workItems });
        assert.deepEqual(await values(store, 'a'), ['x=1', 'y=2']);
        const { lockToken } = only(warm.claimed, 'claimed item');
        const state = set({ y: null, z: '{"n":[3]}' });
        expectCommitted(await store.ackTurn(warm, [lockToken], { state }));
        assert.deepEqual(await values(store, 'a'), ['x=1', 'z={"n":[3]}']);
        const events = [event('one')];
        await store.create('b', { firstTurn: newTurn({ events, state: set({ born: 'true' }) }) });
        assert.deepEqual(await values(store, 'b'), ['born=true']);
        await store.raise('a', 'go');
        const item = await store.claimOne();
        const clashing = { firstEventId: 1, events: [event('clashes')] };
        const refused = await store.ack(item, { ...clashing, state: set({ x: '9', q: '9' }) });
        expectRefused(refused);
        assert.deepEqual(await values(store, 'a'), ['x=1', 'z={"n":[3]}']);
        await store.terminate('a');
        const { status, entries } = await view(store, 'a');
        assert.deepEqual([status, entries.length], ['terminated', 2]);
      },
    },
    {
      id: 'state/versions-never-repeat',
      title: 'a changed key has a version above all earlier ones, also after its deletion',
      async run(store) {
        await store.begin('a', { state: set({ x: '1', y: '1' }) });
        const first = await versionOf(store, 'a', 'x');
        const other = await versionOf(store, 'a', 'y');
        assert.ok(first > 0 && other > first);
        await turn(store, 'a', { state: set({ x: '1' }) });
        const second = await versionOf(store, 'a', 'x');
        assert.ok(second > other);
        assert.equal(await versionOf(store, 'a', 'y'), other);
        await turn(store, 'a', { state: set({ x: null }) });
        await turn(store, 'a', { state: set({ x: '3' }) });
        assert.ok((await versionOf(store, 'a', 'x')) > second + 1);
      },
    },
    {
      id: 'state/reads-come-in-the-order-asked',
      title: 'reads are in the order of the requests, and entries in the order of their keys',
      async run(store) {
        const keys = ['__proto__', 'constructor', 'a', 'Z', 'é', '\u{ff5e}', '\u{1f600}', ' '];
        const state = keys.map((key) => ({ key, payload: JSON.stringify(key) }));
        await store.begin('a', { state });
        await store.begin('b', { state: set({ b: '2' }) });
        const request = { what: 'state', after: 0 } as const;
        const views = await store.provider.readStates([
          { ...request, instanceId: 'b' },
          { ...request, instanceId: 'unknown' },
          { ...request, instanceId: 'a' },
          { ...request, instanceId: 'b' },
        ]);
        assert.deepEqual(
          views.map((found) => found?.entries.length),
          [1, undefined, keys.length, 1],
        );
        const sorted = keys.toSorted((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
        assert.deepEqual(
          views[2]?.entries.map(({ key, payload }) => [key, JSON.parse(payload)]),
          sorted.map((key) => [key, key]),
        );
        assert.equal(views[0]?.incarnation, (await store.record('b')).incarnation);
        assert.deepEqual(await store.provider.readStates([]), []);
      },
    },
    {
      id: 'state/reads-one-key-after-a-version',
      title: 'a read returns only the requested key and versions above the requested one',
      async run(store) {
        await store.begin('a', { state: set({ x: '1', y: '2' }), customStatus: '"s"' });
        const version = await versionOf(store, 'a', 'x');
        assert.deepEqual((await view(store, 'a', { key: 'nothing' })).entries, []);
        assert.deepEqual((await view(store, 'a', { key: 'x', after: version })).entries, []);
        const { entries, customStatus } = await view(store, 'a', { after: version });
        assert.deepEqual(
          entries.map(({ key }) => key),
          ['y'],
        );
        assert.equal(customStatus, undefined);
      },
    },
    {
      id: 'state/custom-status-has-a-version',
      title: 'a custom status is returned with its version, if that is above the requested one',
      async run(store) {
        await store.begin('a', { state: set({ x: '1' }) });
        const read = (after: number) => view(store, 'a', { what: 'status', after });
        assert.equal((await read(0)).customStatus, undefined);
        await turn(store, 'a', { customStatus: '"one"' });
        const { customStatus, entries } = await read(0);
        assert.deepEqual(customStatus, { payload: '"one"', version: 1 });
        assert.deepEqual(entries, []);
        assert.equal((await read(1)).customStatus, undefined);
        await turn(store, 'a', { customStatus: null });
        assert.deepEqual((await read(1)).customStatus, { payload: null, version: 2 });
      },
    },
    {
      id: 'state/emits-a-hint',
      title: 'a change of the state emits statusSet once it is readable',
      async run(store) {
        const { next, stop } = collectHints(store.provider);
        await store.begin('a', { state: set({ x: '1' }) });
        assert.deepEqual((await next('statusSet')).instanceIds, ['a']);
        assert.deepEqual(await values(store, 'a'), ['x=1']);
        stop();
      },
    },
    {
      id: 'shared/state-elsewhere-is-told',
      title: 'a change of the state by another process emits statusSet or missed',
      async run(store) {
        const other = await store.reopen();
        await store.create('a');
        const { promise, resolve } = Promise.withResolvers<void>();
        store.provider.hints((hint) => {
          const isNotified = hint.kind === 'statusSet' && hint.instanceIds.includes('a');
          if (isNotified || hint.kind === 'missed') resolve();
        });
        const [item] = await other.fetchOrchestrationItems({ max: 1, lockMs, waitMs: 0 });
        assert.ok(item);
        const { lockToken } = item;
        const messageKeys = item.messages.map(({ messageKey }) => messageKey);
        await other.ackOrchestrationItems([
          { lockToken, messageKeys, turn: newTurn({ state: set({ x: '1' }) }) },
        ]);
        await withTimeLimit(promise, 'a hint of the state');
        assert.deepEqual(await values(store, 'a'), ['x=1']);
      },
    },
    {
      id: 'state/survives-continue-as-new',
      title: 'continue-as-new and a prune of the finished execution keep the state',
      async run(store) {
        await store.begin('a', { state: set({ x: '1', y: '1' }) });
        const version = await versionOf(store, 'a', 'x');
        const start = startMessage();
        await turn(store, 'a', {
          state: set({ y: '2' }),
          outcome: { status: 'continuedAsNew', version: '2', start },
        });
        assert.deepEqual(await values(store, 'a'), ['x=1', 'y=2']);
        await store.commit(await store.claimOne(), { events: [event('anew')] });
        const [pruned] = await store.provider.pruneExecutionsAtomic([{ instanceId: 'a', max: 10 }]);
        assert.equal(pruned?.executionsDeleted, 1);
        assert.deepEqual(await values(store, 'a'), ['x=1', 'y=2']);
        assert.equal(await versionOf(store, 'a', 'x'), version);
      },
    },
    {
      id: 'state/is-deleted-with-its-instance',
      title: 'a deletion deletes the state: a later instance with the id has none',
      async run(store) {
        await store.begin('a', { state: set({ x: '1' }) });
        await store.begin('b', { state: set({ x: '2' }) });
        await forceDelete(store, 'a');
        const request = { instanceId: 'a', what: 'state', after: 0 } as const;
        assert.deepEqual(await store.provider.readStates([request]), [undefined]);
        await store.begin('a', { state: set({ y: '3' }) });
        assert.deepEqual(await values(store, 'a'), ['y=3']);
        assert.deepEqual(await values(store, 'b'), ['x=2']);
      },
    },
    {
      id: 'retry-run/replaces-the-state',
      title: 'a retry has the state of its start; only changed keys have a new version',
      async run(store) {
        const source = await failed(store);
        const [kept, changed] = [
          await versionOf(store, 'a', 'kept'),
          await versionOf(store, 'a', 'changed'),
        ];
        const gone = await versionOf(store, 'a', 'gone');
        const { next, stop } = collectHints(store.provider);
        const start = { messages: [startMessage()], state: rerunState };
        const [result] = await store.provider.retryInstances([{ source, version: '1', start }]);
        assert.deepEqual(result, { kind: 'retried', executionId: 2 });
        assert.deepEqual((await next('statusSet')).instanceIds, ['a']);
        stop();
        assert.deepEqual(await values(store, 'a'), ['changed=0', 'kept=1', 'new=4']);
        assert.equal(await versionOf(store, 'a', 'kept'), kept);
        assert.ok((await versionOf(store, 'a', 'changed')) > Math.max(changed, gone));
        await store.terminate('a');
        const { historyLength = 0 } = (await store.executions('a')).at(-1) ?? {};
        const again = { ...source, executionId: 2, historyLength };
        const empty = { messages: [raised('again')] };
        const retries = [{ source: again, version: '1', start: empty }];
        assert.equal((await store.provider.retryInstances(retries))[0]?.kind, 'retried');
        assert.deepEqual(await values(store, 'a'), []);
      },
    },
    {
      id: 'conflict/clears-the-state',
      title: 'the next execution of a replaced instance begins without its state',
      async run(store) {
        await store.begin('a', { state: set({ x: '1' }) });
        const before = await versionOf(store, 'a', 'x');
        const start = { ...newInstance('a'), onConflict: 'terminateExisting' } as const;
        const [result] = await store.provider.createInstances([start]);
        assert.equal(result?.kind, 'created');
        assert.deepEqual(await values(store, 'a'), []);
        await store.commit(await store.claimOne(), { state: set({ x: '1' }) });
        assert.ok((await versionOf(store, 'a', 'x')) > before);
      },
    },
    {
      id: 'fork/stores-its-state',
      title: 'a fork has the state of its start; its original keeps its own',
      async run(store) {
        const source = await failed(store);
        const [result] = await store.provider.forkInstances([
          {
            source,
            instanceId: 'fork',
            incarnation: randomToken(),
            name: 'greet',
            version: '1',
            inputHash: 'hash',
            forkedFrom: '{}',
            start: { messages: [startMessage()], state: rerunState },
          },
        ]);
        assert.deepEqual(result, { kind: 'forked' });
        assert.deepEqual(await values(store, 'fork'), ['changed=0', 'kept=1', 'new=4']);
        assert.deepEqual(await values(store, 'a'), ['changed=2', 'gone=3', 'kept=1']);
      },
    },
  ],
};
