import { describe, expect, onTestFinished, test } from 'vitest';
import { CompletionWaiter } from '../../src/client/waiting/completion-waiter.ts';
import { ProviderError } from '../../src/model/failures/errors.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import {
  finish,
  observe,
  openStore,
  rejection,
  settle,
  stateOf,
  withChanges,
} from './store-fixture.ts';

async function openWaiter(change: (provider: Provider) => Provider = (provider) => provider) {
  const store = await openStore();
  const { provider, seen } = observe(change(store.provider));
  const recheckClock = new FakeClock();
  const waiter = new CompletionWaiter({ provider, clock: store.clock, recheckClock });
  onTestFinished(() => waiter.close());
  const alarms = () => recheckClock.alarmCount + store.clock.alarmCount;
  return { ...store, store: store.provider, waiter, seen, recheckClock, alarms };
}

describe('CompletionWaiter.wait()', () => {
  test('wait() for an ended instance reads its row once', async () => {
    const { client, store, waiter, seen } = await openWaiter();
    await client.start('order', 1, { id: 'a' });
    await finish(store, 'a');
    expect(await waiter.wait('a')).toMatchObject({ instanceId: 'a', status: 'completed' });
    expect(seen.reads).toEqual([['a']]);
  });

  test('wait() for a running instance reads its row only at the start and the end', async () => {
    const { client, store, waiter, seen } = await openWaiter();
    await client.start('order', 1, { id: 'a' });
    await client.start('order', 1, { id: 'b' });
    const record = waiter.wait('a');
    expect(await stateOf(record)).toBe('pending');
    await finish(store, 'b');
    expect(await stateOf(record)).toBe('pending');
    expect(seen.reads).toEqual([['a']]);
    await finish(store, 'a');
    expect(await record).toMatchObject({ instanceId: 'a' });
    expect(seen.reads).toEqual([['a'], ['a']]);
  });

  test('wait() resolves if the instance ends during the first read (W1)', async () => {
    let duringRead = async () => {};
    const { client, store, waiter } = await openWaiter((provider) =>
      withChanges(provider, {
        async getInstances(instanceIds) {
          const records = await provider.getInstances(instanceIds);
          await duringRead();
          return records;
        },
      }),
    );
    await client.start('order', 1, { id: 'a' });
    duringRead = async () => {
      duringRead = async () => {};
      await finish(store, 'a');
    };
    expect(await waiter.wait('a')).toMatchObject({ status: 'completed' });
  });

  test('concurrent waits for several instances read all rows in one call', async () => {
    const { client, waiter, seen } = await openWaiter();
    const ids = ['a', 'b', 'c'];
    for (const id of ids) await client.start('order', 1, { id });
    const waits = ids.map((id) => waiter.wait(id));
    await settle();
    expect(seen.reads).toEqual([ids]);
    waiter.close();
    await Promise.allSettled(waits);
  });

  test('many waits for one instance share its row reads', async () => {
    const { client, store, waiter, seen } = await openWaiter();
    await client.start('order', 1, { id: 'a' });
    const waits = Array.from({ length: 5 }, () => waiter.wait('a'));
    await settle();
    await finish(store, 'a');
    expect((await Promise.all(waits)).map(({ status }) => status)).toEqual(
      Array.from({ length: 5 }, () => 'completed'),
    );
    expect(seen.reads).toEqual([['a'], ['a']]);
  });

  test('wait() for an unknown instance rejects with INSTANCE_NOT_FOUND', async () => {
    const { waiter } = await openWaiter();
    await expect(waiter.wait('nobody')).rejects.toMatchObject({
      code: 'INSTANCE_NOT_FOUND',
      message: expect.stringContaining('"nobody"') as string,
    });
  });

  test('wait() for a deleted instance rejects with INSTANCE_NOT_FOUND at the next recheck', async () => {
    let gone = false;
    const { client, waiter, recheckClock } = await openWaiter((provider) =>
      withChanges(provider, {
        getInstances: (ids) => (gone ? Promise.resolve([undefined]) : provider.getInstances(ids)),
      }),
    );
    await client.start('order', 1, { id: 'a' });
    const reason = rejection(waiter.wait('a'));
    await settle();
    gone = true;
    await recheckClock.advance('1s');
    expect(await reason).toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
  });
});

describe('a hint with the output', () => {
  test('a hint with the output settles waitForOutput() without a read, wait() with one', async () => {
    const { client, store, waiter, seen } = await openWaiter();
    await client.start('order', 1, { id: 'a' });
    const output = waiter.waitForOutput('a');
    const record = waiter.wait('a');
    await settle();
    seen.reads.length = 0;
    await finish(store, 'a');
    const { output: stored } = await record;
    expect(seen.reads).toEqual([['a']]);
    expect(await output).toEqual({ status: 'completed', output: stored });
    expect(seen.listening).toBe(0);
  });
});

describe('wait() without hints', () => {
  test('wait() without hints resolves at the recheck after one second (W2)', async () => {
    const { client, store, waiter, seen, recheckClock } = await openWaiter();
    seen.dropsHints = true;
    await client.start('order', 1, { id: 'a' });
    const record = waiter.wait('a');
    await settle();
    await finish(store, 'a');
    await recheckClock.advance(999);
    expect(await stateOf(record)).toBe('pending');
    await recheckClock.advance(1);
    expect(await record).toMatchObject({ status: 'completed' });
  });

  test('wait() without hints rereads the row every second until the end', async () => {
    const { client, store, waiter, seen, recheckClock } = await openWaiter();
    seen.dropsHints = true;
    await client.start('order', 1, { id: 'a' });
    const record = waiter.wait('a');
    await recheckClock.advance('10s');
    expect(seen.reads).toHaveLength(11);
    await finish(store, 'a');
    await recheckClock.advance('1s');
    expect(await record).toMatchObject({ status: 'completed' });
  });

  test('a recheck reads at most 100 rows at a time, 50 ms apart (W2)', async () => {
    const { client, store, waiter, seen, recheckClock } = await openWaiter();
    seen.dropsHints = true;
    const ids = Array.from({ length: 250 }, (_, index) => `i${index}`);
    for (const id of ids) await client.start('order', 1, { id });
    const waits = ids.map((id) => waiter.wait(id));
    await settle();
    seen.reads.length = 0;
    await recheckClock.advance(1_000);
    expect(seen.reads.map((read) => read.length)).toEqual([100]);
    await recheckClock.advance(50);
    expect(seen.reads.map((read) => read.length)).toEqual([100, 100]);
    await finish(store, 'i249');
    await recheckClock.advance(50);
    expect(seen.reads.flat()).toEqual(ids);
    expect(await waits[249]).toMatchObject({ status: 'completed' });
    await recheckClock.advance(899);
    expect(seen.reads).toHaveLength(3);
    await recheckClock.advance(1);
    expect(seen.reads).toHaveLength(4);
    waiter.close();
    await Promise.allSettled(waits);
  });

  test('rechecks ignore the store clock: advancing it by years reads nothing', async () => {
    const { client, clock, waiter, seen } = await openWaiter();
    await client.start('order', 1, { id: 'a' });
    const wait = waiter.wait('a');
    await settle();
    expect(clock.alarmCount).toBe(0);
    await clock.advance('1000d');
    expect(seen.reads).toHaveLength(1);
    waiter.close();
    await expect(wait).rejects.toMatchObject({ code: 'CLOSED' });
  });
});

describe('hints from another process', () => {
  test('a missed hint rereads the rows of all waits and no others', async () => {
    const { client, waiter, seen } = await openWaiter();
    for (const id of ['a', 'b', 'c']) await client.start('order', 1, { id });
    const waits = [waiter.wait('a'), waiter.wait('b')];
    await settle();
    seen.reads.length = 0;
    seen.emitHint({ kind: 'missed' });
    await settle();
    expect(seen.reads).toEqual([['a', 'b']]);
    waiter.close();
    await Promise.allSettled(waits);
  });

  test('a burst of hints causes two reads that never overlap', async () => {
    let underWay = 0;
    let overlapped = false;
    const { client, waiter, seen } = await openWaiter((provider) =>
      withChanges(provider, {
        async getInstances(ids) {
          overlapped ||= ++underWay > 1;
          await new Promise((resolve) => setImmediate(resolve));
          const records = await provider.getInstances(ids);
          underWay--;
          return records;
        },
      }),
    );
    await client.start('order', 1, { id: 'a' });
    const wait = waiter.wait('a');
    await settle();
    seen.reads.length = 0;
    for (let round = 0; round < 100; round++) {
      seen.emitHint({ kind: 'missed' });
      seen.emitHint({ kind: 'finished', instanceIds: ['a', 'other'] });
      if (round % 50 === 0) await Promise.resolve();
    }
    await settle();
    expect(seen.reads).toEqual([['a'], ['a']]);
    expect(overlapped).toBe(false);
    waiter.close();
    await expect(wait).rejects.toMatchObject({ code: 'CLOSED' });
  });

  test('five hints for 500 waits cause one read, then one more after 10 ms', async () => {
    const { client, waiter, seen, recheckClock, alarms } = await openWaiter();
    const ids = Array.from({ length: 500 }, (_, index) => `i-${index}`);
    await Promise.all(ids.map((id) => client.start('order', 1, { id })));
    const waits = ids.map((id) => waiter.wait(id));
    await settle();
    seen.reads.length = 0;
    for (let round = 0; round < 5; round++) {
      seen.emitHint({ kind: 'missed' });
      await settle();
    }
    expect(seen.reads).toEqual([ids]);
    await recheckClock.advance(9);
    expect(seen.reads).toHaveLength(1);
    await recheckClock.advance(1);
    expect(seen.reads).toEqual([ids, ids]);
    seen.emitHint({ kind: 'missed' });
    waiter.close();
    await Promise.allSettled(waits);
    expect(alarms()).toBe(0);
  });

  test('2,500 waits are read in batches of at most 1,000 rows', async () => {
    const { client, waiter, seen } = await openWaiter();
    const ids = Array.from({ length: 2_500 }, (_, index) => `i-${index}`);
    await Promise.all(ids.map((id) => client.start('order', 1, { id })));
    const waits = ids.map((id) => waiter.wait(id));
    await settle();
    expect(seen.reads.map(({ length }) => length)).toEqual([1_000, 1_000, 500]);
    expect(new Set(seen.reads.flat())).toEqual(new Set(ids));
    waiter.close();
    await Promise.allSettled(waits);
  });
});

describe('the timeout of wait()', () => {
  test('wait() rejects with TIMEOUT when the store clock reaches the timeout, not before', async () => {
    const { client, clock, waiter, alarms } = await openWaiter();
    await client.start('order', 1, { id: 'a' });
    const wait = waiter.wait('a', 5_000);
    const reason = rejection(wait);
    await clock.advance(4_999);
    expect(await stateOf(wait)).toBe('pending');
    await clock.advance(1);
    expect(await reason).toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringContaining('Instance "a" has not ended after 5 s') as string,
    });
    expect(alarms()).toBe(0);
  });

  test('a timeout rejects its own wait and no other wait for the instance', async () => {
    const { client, store, clock, waiter } = await openWaiter();
    await client.start('order', 1, { id: 'a' });
    const [short, long, patient] = [waiter.wait('a', 10), waiter.wait('a', 20), waiter.wait('a')];
    const reason = rejection(short);
    await clock.advance(10);
    expect(await reason).toMatchObject({ code: 'TIMEOUT' });
    expect(await stateOf(long)).toBe('pending');
    await finish(store, 'a');
    expect(await Promise.all([long, patient])).toMatchObject([
      { instanceId: 'a' },
      { instanceId: 'a' },
    ]);
  });

  test('a timeout rereads the row, so a lost hint causes no TIMEOUT (W3)', async () => {
    const { client, store, clock, waiter, seen } = await openWaiter();
    seen.dropsHints = true;
    await client.start('order', 1, { id: 'a' });
    const wait = waiter.wait('a', 10);
    await settle();
    await finish(store, 'a');
    await clock.advance(10);
    expect(await wait).toMatchObject({ status: 'completed' });
  });

  test('wait() with timeout 0 rejects while running and resolves once ended', async () => {
    const { client, store, waiter } = await openWaiter();
    await client.start('order', 1, { id: 'a' });
    await expect(waiter.wait('a', 0)).rejects.toMatchObject({ code: 'TIMEOUT' });
    await finish(store, 'a');
    expect(await waiter.wait('a', 0)).toMatchObject({ status: 'completed' });
  });
});

describe('wait() on a failing store', () => {
  const readError = (retryable: boolean) =>
    new ProviderError({ operation: 'getInstances', message: 'disk I/O error', retryable });
  const openFailing = async () => {
    const state: { error: Error | undefined } = { error: undefined };
    const opened = await openWaiter((provider) =>
      withChanges(provider, {
        getInstances: (ids) =>
          state.error === undefined ? provider.getInstances(ids) : Promise.reject(state.error),
      }),
    );
    await opened.client.start('order', 1, { id: 'a' });
    return { ...opened, state };
  };

  test('a retryable read error keeps wait() pending until a recheck succeeds', async () => {
    const { store, waiter, state, recheckClock } = await openFailing();
    state.error = readError(true);
    const wait = waiter.wait('a');
    await finish(store, 'a');
    expect(await stateOf(wait)).toBe('pending');
    state.error = undefined;
    await recheckClock.advance('1s');
    expect(await wait).toMatchObject({ status: 'completed' });
  });

  test('a TIMEOUT after failed reads has the read error as its cause', async () => {
    const { waiter, state, clock } = await openFailing();
    state.error = readError(true);
    const reason = rejection(waiter.wait('a', 10));
    await clock.advance(10);
    expect(await reason).toMatchObject({ code: 'TIMEOUT', cause: state.error });
  });

  test('a non-retryable read error rejects wait() and leaves no listener or timer', async () => {
    const { waiter, state, alarms, seen } = await openFailing();
    state.error = readError(false);
    await expect(waiter.wait('a')).rejects.toBe(state.error);
    expect([alarms(), seen.listening]).toEqual([0, 0]);
  });
});

describe('without pending waits (W4)', () => {
  test('resolved and rejected waits leave no listener and no timer', async () => {
    const { client, store, clock, waiter, seen, alarms } = await openWaiter();
    for (const id of ['a', 'b']) await client.start('order', 1, { id });
    const waits = [waiter.wait('a'), waiter.wait('b', 10), waiter.wait('nobody', 10)];
    const all = Promise.allSettled(waits);
    expect(seen.listening).toBe(1);
    expect(alarms()).toBeGreaterThan(0);
    await settle();
    await finish(store, 'a');
    await clock.advance(10);
    expect((await all).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect([alarms(), seen.listening]).toEqual([0, 0]);
  });

  test('a wait after the last one settled subscribes to hints again', async () => {
    const { client, store, waiter, seen } = await openWaiter();
    for (const id of ['a', 'b']) {
      await client.start('order', 1, { id });
      const wait = waiter.wait(id);
      await settle();
      await finish(store, id);
      expect(await wait).toMatchObject({ instanceId: id });
      expect(seen.listening).toBe(0);
    }
  });

  test('close() rejects pending and later waits and leaves no listener or timer', async () => {
    const { client, waiter, seen, alarms } = await openWaiter();
    await client.start('order', 1, { id: 'a' });
    const waits = [waiter.wait('a'), waiter.wait('a', 1_000), waiter.wait('b')];
    const all = Promise.allSettled(waits);
    waiter.close();
    waiter.close();
    for (const result of await all) {
      expect(result).toMatchObject({ status: 'rejected', reason: { code: 'CLOSED' } });
    }
    expect([alarms(), seen.listening]).toEqual([0, 0]);
    await expect(waiter.wait('a')).rejects.toMatchObject({ code: 'CLOSED' });
    await settle();
    expect([alarms(), seen.listening]).toEqual([0, 0]);
  });
});
