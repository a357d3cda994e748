/** The seed case about poison, with claims that the store counted; docs/seed-tests.md maps it. */
import { expect, it, onTestFinished } from 'vitest';
import { activity, isPerdureError, orchestration, Perdure } from 'perdure';
import { openSqlite } from 'perdure/sqlite';
import { FakeClock } from 'perdure/testing';

const maxClaims = 4;
const lockMs = 1_000;
const step = activity('step', async () => 'done');
const run = orchestration('run', (ctx) =>
  ctx.call(step).catch((error: unknown) => (isPerdureError(error, 'POISON') ? 'POISON' : error)),
);

/** A store with one activity that workers claimed `times` times and lost with their leases. */
async function openWithLostClaims(times: number) {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  const perdure = await Perdure.open(provider, { clock });
  onTestFinished(() => perdure.close());
  const starter = await perdure.startWorker({ orchestrations: [run] });
  const handle = await perdure.client.start(run);
  const claims: number[] = [];
  while (claims.length < times) {
    const [item] = await provider.fetchWorkItems({ max: 1, lockMs, waitMs: 0 });
    if (item !== undefined) claims.push(item.claims);
    await clock.advance(lockMs);
  }
  await starter.stop();
  return { perdure, handle, claims };
}

it.each([
  [maxClaims - 1, 'done'],
  [maxClaims, 'POISON'],
])('an activity that lost %i claims ends as %s with maxClaims: 4', async (times, expected) => {
  const { perdure, handle, claims } = await openWithLostClaims(times);
  expect(claims).toEqual(Array.from({ length: times }, (_, index) => index + 1));
  await perdure.startWorker({ orchestrations: [run], activities: [step], maxClaims });
  expect(await handle.result()).toBe(expected);
});
