import { expect, it } from 'vitest';
import type { CreateTaskResult } from '../../contract/tasks.ts';
import { newTask } from '../../../testing/conformance/task-helpers.ts';
import { createPages, pageSize, type PlacedTask, type TaskPagesParts } from './task-pages.ts';

const pages = 4;
const tasks = Array.from({ length: pages * pageSize }, (_, index) => newTask(`task ${index}`));

/** A page that was sent: the first id, the time of its runs, and how it ends. */
interface Sent {
  readonly first: string | undefined;
  readonly createdAt: number | null | undefined;
  readonly commit: () => void;
  readonly fail: (error: Error) => void;
}

function newStore(parts: Partial<TaskPagesParts> = {}) {
  const sent: Sent[] = [];
  return {
    sent,
    parts: {
      create: (page: readonly PlacedTask[]) =>
        new Promise<readonly CreateTaskResult[]>((resolve, reject) =>
          sent.push({
            first: page[0]?.task.instanceId,
            createdAt: page[0]?.createdAt,
            commit: () =>
              resolve(
                page.map(({ task }) => ({
                  kind: 'created',
                  instanceKey: Number(task.instanceId.slice('task '.length)),
                })),
              ),
            fail: reject,
          }),
        ),
      readClock: () => Promise.resolve(5_000),
      monotonic: () => 0,
      isClockReal: true,
      ...parts,
    },
  };
}

async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

it('createPages sends two pages at a time with increasing times and returns the results in list order', async () => {
  const { parts, sent } = newStore();
  const created = createPages(parts, tasks);
  await settled();
  expect(sent.map(({ first }) => first)).toEqual(['task 0', 'task 1000']);
  sent[1]?.commit();
  await settled();
  expect(sent).toHaveLength(3);
  sent[2]?.commit();
  await settled();
  sent[3]?.commit();
  sent[0]?.commit();
  expect(await created).toEqual(tasks.map((_, instanceKey) => ({ kind: 'created', instanceKey })));
  expect(sent.map(({ createdAt }) => createdAt)).toEqual([5_000, 5_001, 5_002, 5_003]);
});

it('createPages follows the clock of the database between pages', async () => {
  let elapsed = 70;
  const { parts, sent } = newStore({ monotonic: () => elapsed });
  const created = createPages(parts, tasks);
  await settled();
  elapsed += 30.7;
  for (const index of [0, 1, 2, 3]) {
    sent[index]?.commit();
    await settled();
  }
  await created;
  expect(sent.map(({ createdAt }) => createdAt)).toEqual([5_000, 5_001, 5_030, 5_031]);
});

it('createPages begins no page after one has failed, and rejects when all pages have ended', async () => {
  const { parts, sent } = newStore();
  let hasEnded = false;
  const created = createPages(parts, tasks).finally(() => (hasEnded = true));
  const error = new Error('the store is gone');
  const rejection = created.catch((reason: unknown) => reason);
  await settled();
  sent[0]?.fail(error);
  await settled();
  expect(hasEnded).toBe(false);
  sent[1]?.commit();
  expect(await rejection).toBe(error);
  expect(sent).toHaveLength(2);
});

it.each([
  ['a dedupe key', { tasks: tasks.with(3_500, newTask('task 3500', { dedupeKey: 'key' })) }],
  [
    'a debounce key',
    { tasks: tasks.with(3_500, newTask('task 3500', { debounce: { key: 'k', requestKey: 'r' } })) },
  ],
  ['a repeated id', { tasks: tasks.with(3_500, newTask('task 0')) }],
  ['the clock of a test', { tasks, parts: { isClockReal: false } }],
])('createPages sends one page at a time with %s', async (_, given) => {
  const { parts, sent } = newStore('parts' in given ? given.parts : {});
  const created = createPages(parts, given.tasks);
  for (let page = 0; page < pages; page++) {
    await settled();
    expect(sent).toHaveLength(page + 1);
    expect(sent[page]?.createdAt).toBeNull();
    sent[page]?.commit();
  }
  expect(await created).toHaveLength(given.tasks.length);
});
