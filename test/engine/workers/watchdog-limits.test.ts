import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/model/clock.ts';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';

async function open(): Promise<Perdure> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-watchdog-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const perdure = await Perdure.open(join(folder, 'watchdog.db'));
  onTestFinished(() => perdure.close());
  return perdure;
}

/** Blocks the event loop. Uses the system clock, which is real inside an orchestration too. */
function compute(ms: number): void {
  for (const endsAt = systemClock.monotonic() + ms; systemClock.monotonic() < endsAt;);
}

it('the watchdog blocks no instance for the time of turns that follow its own', async () => {
  const perdure = await open();
  const computes = orchestration('computes', async () => {
    await Promise.resolve();
    compute(1_400);
    return 'done';
  });
  const handles = await Promise.all(
    ['a', 'b'].map((id) => perdure.client.start(computes, undefined, { id })),
  );
  const blocked: string[] = [];
  await perdure.startWorker({
    orchestrations: [computes],
    orchestrationLease: '2s',
    hooks: { instanceBlocked: ({ instanceId }) => void blocked.push(instanceId) },
  });
  const results = handles.map((handle) => handle.result({ timeout: '30s' }));
  expect(await Promise.all(results)).toEqual(['done', 'done']);
  expect(blocked).toEqual([]);
}, 60_000);

it('attemptTimeout does not count the time before the handler is called', async () => {
  const perdure = await Perdure.open(':memory:');
  onTestFinished(() => perdure.close());
  let calls = 0;
  const work = activity(
    'work',
    () => {
      calls += 1;
      compute(300);
    },
    { attemptTimeout: 1_000 },
  );
  const all = orchestration('all', async (ctx) => {
    await ctx.all(Array.from({ length: 8 }, () => ctx.call(work)));
    return 'done';
  });
  await perdure.startWorker({ orchestrations: [all], activities: [work] });
  const handle = await perdure.client.start(all);
  expect(await handle.result({ timeout: '30s' })).toBe('done');
  expect(calls).toBe(8);
}, 60_000);
