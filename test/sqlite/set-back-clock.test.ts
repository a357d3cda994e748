import assert from 'node:assert/strict';
import { expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { expectInAnyOrder } from '../../src/testing/conformance/expectations.ts';
import { StoreUnderTest, labels } from '../../src/testing/conformance/store-under-test.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';

async function open() {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  onTestFinished(() => provider.close());
  return new StoreUnderTest({ provider, clock, corrupt: undefined, reopen: undefined });
}

it('events keep their order when the clock is set back between them', async () => {
  const store = await open();
  await store.begin('a');
  await store.raise('a', '1', '2');
  await store.clock.setBack('2d');
  await store.raise('a', '3');
  await store.clock.setBack('2d');
  await store.clock.advance(100);
  await store.raise('a', '4');
  expect(labels(await store.claimOne())).toEqual(['1', '2', '3', '4']);
});

it('waiting messages are claimed immediately after the clock is set back', async () => {
  const store = await open();
  await store.begin('old');
  await store.raise('old', 'x');
  await store.create('new');
  await store.clock.setBack('2d');
  const items = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
  expectInAnyOrder(items, [
    ['new', 'start'],
    ['old', 'x'],
  ]);
});

it('timers and clean-up limits fire at their absolute times after a clock set-back', async () => {
  const store = await open();
  const now = store.clock.now();
  await store.begin('a', { timers: [{ operation: 1, fireAt: now + 100 }] });
  await store.begin('b');
  await store.cancel('b', { cleanupMs: 100 });
  await store.commit(await store.claimOne());
  await store.clock.setBack('2d');
  await store.expectIdle();
  await store.clock.advance(2 * 86_400_000 + 99);
  await store.expectIdle();
  await store.clock.advance(1);
  const items = await store.claim();
  assert.deepEqual(items.flatMap(labels).toSorted(), ['cleanupExpired', 'timerFired 1']);
});

it('a claim stays valid when the clock is set back', async () => {
  const store = await open();
  await store.begin('a');
  await store.raise('a', '1');
  const item = await store.claimOne();
  await store.raise('a', '2');
  await store.clock.setBack('2d');
  await store.expectIdle();
  await store.commit(item);
  expect(labels(await store.claimOne())).toEqual(['2']);
});
