import { expect, it } from 'vitest';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const tasks = Array.from({ length: 6_500 }, (_, index) => newTask(`task ${index}`));

/** Claims all due runs and returns their ids. */
async function claimAll(provider: Provider): Promise<readonly string[]> {
  const ids: string[] = [];
  for (;;) {
    const items = await provider.fetchWorkItems({
      max: 1_000,
      lockMs: 60_000,
      waitMs: 0,
      names: [],
      tasks: ['task'],
    });
    if (items.length === 0) return ids;
    ids.push(...items.map(({ instanceId }) => instanceId));
  }
}

it('thousands of tasks of one call are claimed in list order, whichever transaction commits first', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  const results = await provider.createTasks(tasks);
  expect(results.map(({ kind }) => kind)).toEqual(tasks.map(() => 'created'));
  expect(await claimAll(provider)).toEqual(tasks.map(({ instanceId }) => instanceId));
});

it('a taken id in the first of thousands of tasks keeps the order of the others', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  await provider.createTasks([newTask('task 500', { name: 'other' })]);
  const results = await provider.createTasks(tasks);
  expect(results.flatMap(({ kind }, index) => (kind === 'created' ? [] : [[index, kind]]))).toEqual(
    [[500, 'conflict']],
  );
  const created = tasks.filter(({ instanceId }) => instanceId !== 'task 500');
  expect(await claimAll(provider)).toEqual(created.map(({ instanceId }) => instanceId));
});
