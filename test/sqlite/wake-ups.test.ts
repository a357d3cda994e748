import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { newInstance, newTurn, workItem } from '../../src/testing/conformance/sample-data.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const watchers = (): number =>
  process.getActiveResourcesInfo().filter((kind) => kind === 'FSEventWrap').length;

/** Polls, because closed handles disappear in a later event-loop turn without an event. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await delay(1);
}

describe('wake-ups of a store on a file', () => {
  it('a store sets an alarm only while a fetch waits', async () => {
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

  it('an idle store watches its file and stops when its last listener leaves', async () => {
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

  it('close() clears alarms and ends waits', async () => {
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

  it('a waiting fetch sees writes of another connection that race with its query', async () => {
    const { open } = temporaryStore();
    const provider = await open();
    const other = await open();
    for (let i = 0; i < 20; i++) {
      const waiting = provider.fetchOrchestrationItems({ max: 1, lockMs: 60_000, waitMs: 5_000 });
      const [[item]] = await Promise.all([waiting, other.createInstances([newInstance(`i${i}`)])]);
      expect(item?.instanceId).toBe(`i${i}`);
    }
  });

  it('an earlier timer resets the alarm of a waiting fetch', async () => {
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

  it('a waiting fetch claims a work item when a later lock on it expires', async () => {
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

  it('a fetch of other names claims a flagged item when its lock expires', async () => {
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

  it('a waiting fetch claims an instance when the lock of another fetch expires', async () => {
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

  it('a cancel by another connection is announced once, despite later changes', async () => {
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
