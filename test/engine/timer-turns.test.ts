import { mkdtemp, rm } from 'node:fs/promises';
import { testOptions } from 'perdure/testing';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { Handle, TurnCommitted } from '../../src/index.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { Perdure, type StartWorkerOptions } from '../../src/perdure.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import type { Clock } from '../../src/model/clock.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { overrideProvider } from '../crash/override-provider.ts';

const nap = orchestration('nap', (ctx, ms: number) => ctx.sleep(ms));

async function newDirectory() {
  const directory = await mkdtemp(join(tmpdir(), 'perdure-timers-'));
  // Registered first, so that it runs last.
  onTestFinished(() => rm(directory, { recursive: true }));
  return { directory, clock: new FakeClock() };
}

/** Opens an engine with a fake clock on a file. `paths` lists the path of each committed turn. */
async function open(options: StartWorkerOptions) {
  const { directory, clock } = await newDirectory();
  const file = join(directory, 'store.db');
  const perdure = await Perdure.open(file, { clock });
  onTestFinished(() => perdure.close());
  const paths: string[] = [];
  const turnCommitted = ({ path }: TurnCommitted) => void paths.push(path);
  await perdure.startWorker({ hooks: { turnCommitted }, ...options });
  return { client: perdure.client, clock, paths, file };
}

it('a due timer of a warm instance runs its turn without a claim', async () => {
  const { client, clock, paths } = await open({ orchestrations: [nap] });
  const handles = [];
  for (const ms of [50, 20, 20, 7_000]) handles.push(await client.start(nap, ms));
  await clock.advance(20);
  expect(paths).toHaveLength(6);
  await clock.advance(6_980);
  await Promise.all(handles.map((handle) => handle.result()));
  expect(paths).toEqual(Array(8).fill('fast'));
});

it('timers and an event due together are all delivered, the earliest timer first', async () => {
  const both = orchestration('both', async (ctx) => {
    const got: string[] = [];
    const timer = async (ms: number) => {
      await ctx.sleep(ms);
      got.push(`${ms} ms`);
    };
    const event = async () => {
      await ctx.waitFor('x');
      got.push('x');
    };
    await Promise.all([timer(30), timer(10), timer(30), event()]);
    return got;
  });
  const { client, clock } = await open({ orchestrations: [both] });
  const handle = await client.start(both, undefined);
  clock.setTimer(30, () => void handle.raiseEvent('x', null));
  await clock.advance(30);
  await clock.advance(1);
  const got = (await handle.result()) as readonly string[];
  expect(got.toSorted()).toEqual(['10 ms', '30 ms', '30 ms', 'x']);
  expect(got[0]).toBe('10 ms');
});

it('a timer that another process claims first fires once; the local turn is dropped', async () => {
  const { client, clock, paths, file } = await open({ orchestrations: [nap] });
  const other = await openSqlite({ path: file, clock });
  onTestFinished(() => other.close());
  const fetch = { max: 10, lockMs: 5_000, waitMs: 0 };
  const dueAt = clock.now() + 1_000;
  let claimed: ReturnType<typeof other.fetchOrchestrationItems> | undefined;
  clock.setTimer(dueAt - clock.now(), () => {
    claimed = other.fetchOrchestrationItems(fetch);
  });
  const handle = await client.start(nap, 1_000);
  await clock.advanceTo(dueAt);
  expect(await claimed).toHaveLength(1);
  expect(paths).toEqual(['fast']);
  await clock.advance(5_000);
  await handle.result();
  expect(paths).toEqual(['fast', 'slow']);
  const { events } = await client.exportHistory(handle.id);
  expect(events.map(({ kind }) => kind)).toEqual([
    'executionStarted',
    'timerCreated',
    'timerFired',
    'executionCompleted',
  ]);
});

it('a timer that falls due during the commit of another causes no slow turn', async () => {
  const { directory, clock } = await newDirectory();
  let isCommitting = false;
  // Each commit happens one millisecond after its turn started.
  const lateMs = () => (isCommitting ? 1 : 0);
  const late: Clock = {
    now: () => clock.now() + lateMs(),
    monotonic: () => clock.monotonic() + lateMs(),
    setTimer: (delayMs, callback) => clock.setTimer(delayMs, callback),
  };
  const store = await openSqlite({ path: join(directory, 'store.db'), clock: late });
  const perdure = await Perdure.open(
    overrideProvider(store, {
      async ackTurns(acks) {
        isCommitting = true;
        try {
          return await store.ackTurns(acks);
        } finally {
          isCommitting = false;
        }
      },
    }),
    { clock },
  );
  onTestFinished(() => perdure.close());
  const close = orchestration('close', async (ctx) => {
    await Promise.all([ctx.sleep(40), ctx.sleep(41)]);
  });
  const paths: string[] = [];
  const turnCommitted = ({ path }: TurnCommitted) => void paths.push(path);
  await perdure.startWorker({ orchestrations: [close, nap], hooks: { turnCommitted } });
  const handles: Handle[] = [await perdure.client.start(close, undefined)];
  for (const ms of [40, 50, 60]) handles.push(await perdure.client.start(nap, ms));
  for (const ms of [40, 1, 9, 10]) await clock.advance(ms);
  await Promise.all(handles.map((handle) => handle.result()));
  expect(paths).toEqual(Array(9).fill('fast'));
});

it('a canceled instance stays warm while the timers of its clean-up fire', async () => {
  let begun = 0;
  const tidy = orchestration('tidy', async (ctx) => {
    begun += 1;
    try {
      await ctx.sleep(60_000);
    } finally {
      await ctx.shield(async () => {
        await ctx.sleep(10);
        await ctx.sleep(10);
      });
    }
  });
  const { client, clock, paths } = await open({ orchestrations: [tidy] });
  const handle = await client.start(tidy, undefined);
  await handle.cancel();
  await clock.advance(10);
  await clock.advance(10);
  expect(await client.get(handle.id)).toMatchObject({ status: 'canceled' });
  expect(begun).toBe(1);
  expect(paths).toEqual(['fast', 'slow', 'slow', 'slow']);
});

it('fastPaths: false claims every timer', async () => {
  const { client, clock, paths } = await open({
    orchestrations: [nap],
    ...testOptions({ fastPaths: false }),
  });
  const handle = await client.start(nap, 10);
  await clock.advance(10);
  await handle.result();
  expect(paths).toEqual(['slow', 'slow']);
});
