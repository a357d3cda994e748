import { expect, it } from 'vitest';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { flow } from '../../src/flows/definition/flow.ts';
import { makeGate } from '../tasks/gate.ts';
import { describeEngine } from './describe-engine.ts';

const importFiles = orchestration('importFiles', async (ctx) => ctx.waitFor('end'), {
  concurrency: { global: 3, perKey: 1 },
});

describeEngine('limits of instances', (open) => {
  it('an orchestration begins once per key; the others wait, and why() says for what', async () => {
    const { client } = await open({ orchestrations: [importFiles] });
    const first = await client.start(importFiles, undefined, { key: 'acme' });
    const second = await client.start(importFiles, undefined, { key: 'acme' });
    const other = await client.start(importFiles, undefined, { key: 'globex' });
    await expect.poll(async () => (await first.status()).status).toBe('running');
    await expect.poll(async () => (await other.status()).status).toBe('running');
    await expect
      .poll(async () => (await client.why(second.id)).text)
      .toBe('Waits to begin: `importFiles` allows 1 at a time of key `acme`.');
    expect((await client.why(second.id)).waits).toEqual([
      { kind: 'place', name: 'importFiles', key: 'acme', global: 3, perKey: 1, running: 2 },
    ]);
    expect((await second.status()).status).toBe('pending');
    await first.raiseEvent('end', 1);
    await expect.poll(async () => (await second.status()).status).toBe('running');
    await second.raiseEvent('end', 2);
    await other.raiseEvent('end', 3);
    expect(await Promise.all([first, second, other].map((one) => one.result()))).toEqual([1, 2, 3]);
  });

  it('children and cancels: a child waits for its place, and a canceled parent frees it', async () => {
    const parent = orchestration('parent', (ctx) =>
      ctx.child(importFiles, undefined, { key: 'acme' }),
    );
    const { client } = await open({ orchestrations: [importFiles, parent] });
    const [one, two] = [await client.start(parent), await client.start(parent)];
    const begun = async () =>
      (await client.limits.list()).items.map(({ running, waiting }) => [running, waiting]);
    const begunChild = async () => {
      const { items } = await client.list({ name: 'importFiles', status: ['running'] });
      return items[0];
    };
    await expect.poll(begun).toEqual([[1, 1]]);
    await expect.poll(begunChild).toBeDefined();
    await client.cancel((await begunChild())?.parentId ?? '');
    await expect.poll(begun).toEqual([[1, 0]]);
    await expect.poll(begunChild).toBeDefined();
    await client.raiseEvent((await begunChild())?.id ?? '', 'end', 'done');
    const results = await Promise.allSettled([one.result(), two.result()]);
    expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    await expect.poll(begun).toEqual([[0, 0]]);
  });

  it('a flow has as many begun runs as its limit allows, over all of its steps', async () => {
    const active = new Set<number>();
    let most = 0;
    const gate = makeGate();
    const nightly = flow('nightly', { concurrency: { global: 2 } })
      .input<number>()
      .step('copy', async (_ctx, { input }) => {
        active.add(input);
        most = Math.max(most, active.size);
        await gate.opened;
        return input;
      })
      .step('check', { after: ['copy'] }, () => true)
      .step('end', { after: ['check'] }, (_ctx, { input }) => {
        active.delete(input);
        return input;
      })
      .output('end');
    const { client } = await open({ flows: [nightly] });
    const runs = await Promise.all([1, 2, 3, 4, 5].map((input) => client.runFlow(nightly, input)));
    const figures = async () =>
      (await client.limits.list()).items.map(({ name, running, waiting }) => [
        name,
        running,
        waiting,
      ]);
    await expect.poll(figures).toEqual([['nightly', 2, 3]]);
    await expect.poll(() => active.size).toBe(2);
    gate.open();
    expect(await Promise.all(runs.map((run) => run.result()))).toEqual([1, 2, 3, 4, 5]);
    expect(most).toBe(2);
    await expect.poll(figures).toEqual([['nightly', 0, 0]]);
  });
});
