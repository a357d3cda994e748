import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it, onTestFinished } from 'vitest';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const count = 30;
const quick = activity('quick', () => Promise.resolve(1));
// The timer queue does not check later timers while this one is the first.
const sooner = orchestration('first', (ctx) => ctx.sleep('1h'));

/** Starts a worker with a small warm cache. `alive` counts the instances whose locals are still in memory. */
async function open() {
  const kept: WeakRef<object>[] = [];
  const hold = () => {
    const local = { bytes: new Uint8Array(1_000) };
    kept.push(new WeakRef(local));
    return local;
  };
  const nap = orchestration('nap', async (ctx, text: string) => {
    const local = hold();
    await ctx.sleep('30d');
    return local.bytes.length + text.length;
  });
  const timed = orchestration('timed', async (ctx) => {
    const local = hold();
    const late = ctx.waitFor('late').then(() => local.bytes.length);
    await ctx.call(quick, undefined, { timeout: '30d' });
    void late;
  });
  const perdure = await Perdure.open(':memory:');
  onTestFinished(() => perdure.close());
  await perdure.startWorker({
    orchestrations: [nap, timed, sooner],
    activities: [quick],
    warmCacheBytes: 500_000,
    shutdownGrace: 0,
  });
  const alive = () => {
    collectGarbage();
    return kept.filter((ref) => ref.deref() !== undefined).length;
  };
  return { client: perdure.client, nap, timed, kept, alive };
}

const text = 'x'.repeat(100_000);

it('an instance evicted from the warm cache is released although its timer is pending', async () => {
  const { client, nap, kept, alive } = await open();
  for (let n = 0; n < count; n++) {
    await client.start(sooner, undefined);
    await client.start(nap, text);
  }
  await expect.poll(() => kept.length).toBe(count);
  await expect.poll(alive).toBeLessThan(count / 2);
});

it('an ended instance is released although its timer was not due', async () => {
  const { client, timed, kept, alive } = await open();
  await client.start(sooner, undefined);
  for (let n = 0; n < count; n++) await (await client.start(timed, undefined)).result();
  expect(kept.length).toBe(count);
  await expect.poll(alive).toBeLessThan(count / 2);
});
