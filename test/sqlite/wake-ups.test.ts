import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { newInstance, newTurn, workItem } from '../../src/testing/conformance/sample-data.ts';
import { temporaryStore } from './temporary-store.ts';

const watchers = (): number =>
  process.getActiveResourcesInfo().filter((kind) => kind === 'FSEventWrap').length;

/** Closed handles go in a later turn of the event loop, and nobody is told. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await delay(1);
}

describe('a store on a file', () => {
  it('keeps an alarm only while somebody waits', async () => {
    const { open } = temporaryStore();
    const clock = new FakeClock();
    const provider = await open({ clock });
    const aborter = new AbortController();
    const waiting = provider.fetchWorkItems({
      max: 1,
      lockMs: 1,
      waitMs: 60_000,
      signal: aborter.signal,
    });
    await new Promise(setImmediate);
    expect(clock.alarmCount).toBe(1);
    aborter.abort();
    expect(await waiting).toEqual([]);
    expect(clock.alarmCount).toBe(0);
  });

  it('leaves the watching to the operating system when nothing happens, and takes it back in the end', async () => {
    const { open } = temporaryStore();
    const provider = await open();
    const stop = provider.hints(() => undefined);
    await until(() => watchers() === 1);
    await provider.createInstances([newInstance('own write')]);
    await until(() => watchers() === 0);
    await until(() => watchers() === 1);
    stop();
    await until(() => watchers() === 0);
  });

  it('leaves no alarm behind when it is closed, and no wait without an answer', async () => {
    const { open } = temporaryStore();
    const clock = new FakeClock();
    const provider = await open({ clock });
    provider.hints(() => undefined);
    const waiting = provider.fetchOrchestrationItems({ max: 1, lockMs: 1, waitMs: 60_000 });
    await provider.close();
    expect(await waiting).toEqual([]);
    expect(clock.alarmCount).toBe(0);
    expect(() => provider.hints(() => undefined)).toThrow(
      expect.objectContaining({ code: 'CLOSED' }),
    );
  });

  it('sees changes of another connection also when the first look was before them', async () => {
    const { open } = temporaryStore();
    const provider = await open();
    const other = await open();
    for (let i = 0; i < 20; i++) {
      const waiting = provider.fetchOrchestrationItems({ max: 1, lockMs: 60_000, waitMs: 5_000 });
      const [[item]] = await Promise.all([waiting, other.createInstances([newInstance(`i${i}`)])]);
      expect(item?.instanceId).toBe(`i${i}`);
    }
  });

  it('sets its alarm anew when an earlier timer comes', async () => {
    const { open } = temporaryStore();
    const clock = new FakeClock();
    const provider = await open({ clock });
    const sleeping = (operation: number, ms: number) =>
      newInstance(`sleeps ${ms}`, {
        firstTurn: newTurn({ timers: [{ operation, fireAt: clock.now() + ms }] }),
      });
    await provider.createInstances([sleeping(1, 5_000)]);
    const waiting = provider.fetchOrchestrationItems({ max: 1, lockMs: 1_000, waitMs: 60_000 });
    await provider.createInstances([sleeping(1, 2_000)]);
    await clock.advance(1_999);
    await clock.advance(1);
    expect(await waiting).toMatchObject([
      { instanceId: 'sleeps 2000', messages: [{ kind: 'timerFired', operation: 1 }] },
    ]);
  });

  it('wakes a wait when the lock on an item expires that was claimed after the wait began', async () => {
    const { open } = temporaryStore();
    const clock = new FakeClock();
    const provider = await open({ clock });
    const waiting = provider.fetchWorkItems({ max: 1, lockMs: 1_000, waitMs: 60_000 });
    await provider.createInstances([
      newInstance('i', { firstTurn: newTurn({ workItems: [workItem(1, { claimMs: 2_000 })] }) }),
    ]);
    await clock.advance(1_999);
    await clock.advance(1);
    expect(await waiting).toMatchObject([{ instanceId: 'i', operation: 1, claims: 2 }]);
  });

  it('wakes a wait for other activities when the lock on a flagged item expires', async () => {
    const { open } = temporaryStore();
    const clock = new FakeClock();
    const provider = await open({ clock });
    const waiting = provider.fetchWorkItems({
      max: 1,
      lockMs: 1_000,
      waitMs: 60_000,
      names: ['another'],
    });
    const firstTurn = newTurn({
      workItems: [workItem(1, { claimMs: 2_000 })],
      outcome: { status: 'completed', payload: null },
    });
    await provider.createInstances([newInstance('i', { firstTurn })]);
    await clock.advance(2_000);
    expect(await waiting).toMatchObject([{ operation: 1, cancel: { reason: 'completed' } }]);
  });

  it('wakes a wait when the lock on an instance expires that another wait has got', async () => {
    const { open } = temporaryStore();
    const clock = new FakeClock();
    const provider = await open({ clock });
    const fetch = () => provider.fetchOrchestrationItems({ max: 1, lockMs: 2_000, waitMs: 60_000 });
    const waits = [fetch(), fetch()];
    await provider.createInstances([newInstance('i')]);
    expect(await Promise.race(waits)).toMatchObject([{ claims: 1 }]);
    await clock.advance(2_000);
    const claims = (await Promise.all(waits)).map(([item]) => item?.claims);
    expect(new Set(claims)).toEqual(new Set([1, 2]));
  });

  it('announces a cancel of another connection once, however much that changes later', async () => {
    const { open } = temporaryStore();
    const clock = new FakeClock();
    const provider = await open({ clock, pollMs: 1 });
    const other = await open({ clock });
    const workItems = [workItem(1, { claimMs: 60_000 })];
    const [created] = await provider.createInstances([
      newInstance('a', { firstTurn: newTurn({ workItems }) }),
    ]);
    const tokens: string[] = [];
    let changes = 0;
    provider.hints((hint) => {
      if (hint.kind === 'changed') changes += 1;
      if (hint.kind === 'cancelRequested') tokens.push(...hint.lockTokens);
    });
    await other.requestCancel([{ instanceId: 'a', reason: 'x', actor: null, cleanupMs: 60_000 }]);
    for (let i = 0; i < 5; i++) {
      const seen = changes;
      await other.createInstances([newInstance(`i${i}`)]);
      await vi.waitUntil(() => changes > seen, { interval: 1 });
      await clock.advance(400);
    }
    const claimed = created?.kind === 'created' ? created.claimed : [];
    expect(tokens).toEqual(claimed.map(({ lockToken }) => lockToken));
  });
});
