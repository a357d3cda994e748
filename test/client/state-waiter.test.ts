import { expect, onTestFinished, test } from 'vitest';
import { StateWaiter } from '../../src/client/waiting/state-waiter.ts';
import { ProviderError } from '../../src/model/failures/errors.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { StateRequest } from '../../src/providers/contract/state.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { observe, openStore, rejection, settle, stateOf, takeTurn } from './store-fixture.ts';

const state = (instanceId: string, after = 0): StateRequest => {
  return { instanceId, what: 'state', key: 'x', after };
};

async function openWaiter(change: (provider: Provider) => Partial<Provider> = () => ({})) {
  const store = await openStore();
  const reads: string[][] = [];
  const counted: Provider = {
    ...store.provider,
    readStates(requests) {
      reads.push(requests.map(({ instanceId }) => instanceId));
      return store.provider.readStates(requests);
    },
  };
  const { provider, seen } = observe({ ...counted, ...change(counted) });
  const recheckClock = new FakeClock();
  const waiter = new StateWaiter({ provider, clock: store.clock, recheckClock });
  onTestFinished(() => waiter.close());
  const alarms = () => recheckClock.alarmCount + store.clock.alarmCount;
  const set = async (id: string, payload: string) => {
    await store.client.raiseEvent(id, 'go');
    await takeTurn(store.provider, id, { state: [{ key: 'x', payload }] });
  };
  return { ...store, waiter, seen, reads, recheckClock, alarms, set };
}

test('a wait reads once at its start and once per hint that names its instance', async () => {
  const { client, waiter, reads, set } = await openWaiter();
  await client.start('order', 1, { id: 'a' });
  await client.start('order', 1, { id: 'b' });
  const wait = waiter.wait(state('a'), undefined);
  expect(await stateOf(wait)).toBe('pending');
  await set('b', '1');
  expect(await stateOf(wait)).toBe('pending');
  expect(reads).toEqual([['a']]);
  await set('a', '2');
  expect(await wait).toEqual({ key: 'x', payload: '2', version: 1 });
  expect(reads).toEqual([['a'], ['a']]);
});

test('a value that is set during the first read resolves the wait', async () => {
  let duringRead = async () => {};
  const { client, waiter, set } = await openWaiter((provider) => ({
    async readStates(requests) {
      const views = await provider.readStates(requests);
      await duringRead();
      return views;
    },
  }));
  await client.start('order', 1, { id: 'a' });
  duringRead = async () => {
    duringRead = async () => {};
    await set('a', '1');
  };
  expect(await waiter.wait(state('a'), undefined)).toMatchObject({ payload: '1' });
});

test('a lost hint is replaced by the next poll', async () => {
  const { client, waiter, seen, recheckClock, set } = await openWaiter();
  await client.start('order', 1, { id: 'a' });
  seen.dropsHints = true;
  const wait = waiter.wait(state('a'), undefined);
  await settle();
  await set('a', '1');
  expect(await stateOf(wait)).toBe('pending');
  await recheckClock.advance(1_000);
  expect(await wait).toMatchObject({ payload: '1' });
});

test('300 waits that a missed hint wakes share two reads', async () => {
  const { client, waiter, seen, reads } = await openWaiter();
  await client.start('order', 1, { id: 'a' });
  const waits = Array.from({ length: 300 }, () => rejection(waiter.wait(state('a'), undefined)));
  await settle();
  reads.splice(0);
  seen.emitHint({ kind: 'missed' });
  await settle();
  expect(reads.map(({ length }) => length)).toEqual([200, 100]);
  waiter.close();
  for (const error of await Promise.all(waits)) expect(error).toMatchObject({ code: 'CLOSED' });
});

test('an outage does not end a wait; at its timeout the error is the cause', async () => {
  let isDown = true;
  const outage = new ProviderError({ operation: 'readStates', message: 'down', retryable: true });
  const { client, clock, waiter, recheckClock, set } = await openWaiter((provider) => ({
    readStates: (requests) => (isDown ? Promise.reject(outage) : provider.readStates(requests)),
  }));
  await client.start('order', 1, { id: 'a' });
  const wait = waiter.wait(state('a'), undefined);
  const timed = rejection(waiter.wait(state('a'), 500));
  expect(await stateOf(wait)).toBe('pending');
  await clock.advance(500);
  expect(await timed).toMatchObject({ code: 'TIMEOUT', cause: outage });
  isDown = false;
  await set('a', '1');
  await recheckClock.advance(1_000);
  expect(await wait).toMatchObject({ payload: '1' });
});

test('a wait rejects when its instance was deleted, also if the id is used again', async () => {
  const { client, waiter, set } = await openWaiter();
  await client.start('order', 1, { id: 'a' });
  const wait = rejection(waiter.wait(state('a'), undefined));
  await settle();
  await client.deleteInstance('a', { force: true });
  await client.start('order', 1, { id: 'a' });
  await set('a', '1');
  expect(await wait).toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
});

test('ended, aborted and closed waits leave no listener and no timer', async () => {
  const { client, waiter, seen, alarms, set } = await openWaiter();
  await client.start('order', 1, { id: 'a' });
  const controller = new AbortController();
  const aborted = rejection(waiter.wait(state('a'), 60_000, controller.signal));
  const found = waiter.wait(state('a'), 60_000);
  await settle();
  expect([seen.listening, alarms()]).toEqual([1, 3]);
  controller.abort(new Error('no longer needed'));
  expect(await aborted).toMatchObject({ message: 'no longer needed' });
  await set('a', '1');
  await found;
  expect([seen.listening, alarms()]).toEqual([0, 0]);
  const closed = rejection(waiter.wait(state('a', 1), 60_000));
  await settle();
  waiter.close();
  expect(await closed).toMatchObject({ code: 'CLOSED' });
  expect(await rejection(waiter.wait(state('a'), undefined))).toMatchObject({ code: 'CLOSED' });
  expect([seen.listening, alarms()]).toEqual([0, 0]);
});
