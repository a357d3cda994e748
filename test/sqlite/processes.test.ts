import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { StoreProcess } from './helpers/store-process.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

function start(path: string, name: string): StoreProcess {
  const started = new StoreProcess(path, name);
  onTestFinished(() => started.kill());
  return started;
}

const now = (): number => performance.timeOrigin + performance.now();

it('four processes create the file, share its work and report no BUSY error', async () => {
  const { path, open } = temporaryStore();
  const processes = ['a', 'b', 'c', 'd'].map((name) => start(path, name));
  await Promise.all(processes.map((each) => each.waitFor('ready')));
  const provider = await open();
  const count = 50;
  const allEnded = new Promise<void>((resolve, reject) => {
    const check = async (): Promise<void> => {
      const filter = { status: ['completed'] } as const;
      const {
        instances: { length },
      } = await provider.listInstances({ filter, limit: 1_000 });
      if (length === count * processes.length) resolve();
    };
    provider.hints(() => void check().catch(reject));
  });
  for (const [index, each] of processes.entries()) {
    each.send({ kind: 'share', prefix: `p${index}`, count });
  }
  await allEnded;
  const reports = await Promise.all(processes.map((each) => each.stop()));
  expect(reports.flatMap(({ errors }) => errors)).toEqual([]);
  const ended = reports.flatMap((each) => each.ended);
  expect(ended).toHaveLength(count * processes.length);
  expect(new Set(ended).size).toBe(ended.length);
}, 60_000);

it.each(['busy', 'idle'])(
  'work from another process ends the wait of a %s store within 25 ms',
  async (before) => {
    const { path, open } = temporaryStore();
    const provider = await open();
    const other = start(path, 'other');
    await other.waitFor('ready');
    const lateMs: number[] = [];
    for (let i = 0; i < 9; i++) {
      const answered = provider
        .fetchOrchestrationItems({ max: 1, lockMs: 60_000, waitMs: 10_000 })
        .then(([item]) => ({ item, at: now() }));
      if (before === 'idle') await isIdle();
      const created = other.waitFor('created');
      other.send({ kind: 'create', instanceId: `i${i}` });
      const { item, at } = await answered;
      expect(item?.instanceId).toBe(`i${i}`);
      lateMs.push(at - (await created).at);
    }
    // The median, because a busy machine can delay either process.
    expect(lateMs.toSorted((a, b) => a - b)[4]).toBeLessThan(25);
    await other.stop();
  },
);

/** An idle store uses a file watcher instead of polling. */
async function isIdle(): Promise<void> {
  while (!process.getActiveResourcesInfo().includes('FSEventWrap')) await delay(5);
}

it('a process exits when no call waits and no listener is left', async () => {
  const { path } = temporaryStore();
  const other = start(path, 'other');
  await other.waitFor('ready');
  other.send({ kind: 'waitAndLeave' });
  await other.exited;
  expect(other.errors).toBe('');
});

it('listeners get a changed hint when another process writes', async () => {
  const { path, open } = temporaryStore();
  const provider = await open();
  const other = start(path, 'other');
  await other.waitFor('ready');
  const hint = new Promise((resolve) => provider.hints(resolve));
  other.send({ kind: 'create', instanceId: 'i' });
  expect(await hint).toEqual({ kind: 'changed' });
  await other.stop();
});
