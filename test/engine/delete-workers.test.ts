import { setFlagsFromString } from 'node:v8';
import { testOptions } from 'perdure/testing';
import { runInNewContext } from 'node:vm';
import { expect, it, onTestFinished } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { Perdure } from '../../src/perdure.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { signalled } from './signalled.ts';

async function openInMemory(wrap: (provider: Provider) => Partial<Provider> = () => ({})) {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  const perdure = await Perdure.open({ ...provider, ...wrap(provider) }, { clock });
  onTestFinished(() => perdure.close());
  return { clock, provider, perdure, client: perdure.client };
}

const workerOptions = { shutdownGrace: 0, pollInterval: '30d' } as const;

it('deleting a warm instance releases its memory', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const seen: WeakRef<object>[] = [];
  const run = orchestration('run', async (ctx) => {
    const large = { bytes: new Uint8Array(1_000) };
    seen.push(new WeakRef(large));
    await ctx.waitFor('never');
    return large.bytes.length;
  });
  const { perdure, client } = await openInMemory();
  await perdure.startWorker({ orchestrations: [run], ...workerOptions });
  await Promise.all(['kept', 'deleted'].map((id) => client.start(run, undefined, { id })));
  await client.deleteInstance('deleted', { force: true });
  await expect
    .poll(() => {
      collectGarbage();
      return seen.map((ref) => ref.deref() !== undefined);
    })
    .toEqual([true, false]);
});

it('a starting worker reclaims the rows that an interrupted deletion left', async () => {
  const work = activity('work', async () => null);
  const run = orchestration('run', async (ctx) => {
    await ctx.all(Array.from({ length: 2_100 }, () => ctx.call(work)));
  });
  const { perdure, client, provider } = await openInMemory();
  const options = { orchestrations: [run], activities: [work], ...workerOptions };
  const worker = await perdure.startWorker(options);
  await (await client.start(run, undefined, { id: 'large' })).result();
  await worker.stop();
  // As if the client crashed right after its transaction.
  await provider.deleteInstancesAtomic([{ instanceIds: ['large'], force: false }]);
  expect((await client.systemMetrics()).pendingReclaims).toBeGreaterThan(0);
  await perdure.startWorker(options);
  await expect.poll(async () => (await client.systemMetrics()).pendingReclaims).toBe(0);
});

it('a worker reclaims deleted rows once an hour and can stop during it', async () => {
  let passes = 0;
  const isLeft = { value: false };
  const { clock, perdure, client } = await openInMemory((provider) => ({
    async reclaimDeleted(maxRows) {
      passes += 1;
      return { ...(await provider.reclaimDeleted(maxRows)), left: isLeft.value };
    },
  }));
  const run = orchestration('run', async () => 'ran');
  const worker = await perdure.startWorker({
    orchestrations: [run],
    ...testOptions({ fastPaths: false }),
    ...workerOptions,
  });
  const work = async (): Promise<unknown> => (await client.start(run)).result();
  await work();
  await work();
  expect(passes).toBe(1);
  await clock.advance('59m');
  await work();
  expect(passes).toBe(1);
  isLeft.value = true;
  await clock.advance('1m');
  await work();
  await expect.poll(() => passes).toBeGreaterThan(3);
  await worker.stop();
  const atEnd = passes;
  await new Promise((resolve) => setImmediate(resolve));
  expect(passes).toBe(atEnd);
});

it('a turn of a deleted instance is logged as dropped, not as retried', async () => {
  const lines: string[] = [];
  const note = (level: string) => (_fields: object, message: string) =>
    void lines.push(`${level}: ${message}`);
  const logger = {
    debug: note('debug'),
    info: note('info'),
    warn: note('warn'),
    error: note('error'),
  };
  const held = signalled<void>();
  const go = signalled<void>();
  const { perdure, client } = await openInMemory((provider) => ({
    async ackOrchestrationItems(acks) {
      held.resolve();
      await go.promise;
      return provider.ackOrchestrationItems(acks);
    },
  }));
  const run = orchestration('run', async (ctx) => ctx.waitFor('never'));
  const worker = await perdure.startWorker({
    orchestrations: [run],
    ...testOptions({ fastPaths: false }),
    logger,
    ...workerOptions,
  });
  await client.start(run, undefined, { id: 'i' });
  await held.promise;
  await client.deleteInstance('i', { force: true });
  go.resolve();
  await worker.stop();
  expect(lines).toEqual(['debug: turn was dropped because its instance was deleted']);
});
