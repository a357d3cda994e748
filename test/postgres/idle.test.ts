import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Perdure } from '../../src/perdure.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { watchStatements } from './helpers/statement-log.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const write = { name: 'later', definition: '{}', nextAt: null };

it('an idle worker sends at most one statement per second, schedules included', async () => {
  const { url } = await temporaryStore();
  await using perdure = await Perdure.open(url);
  const idle = orchestration('idle', () => Promise.resolve());
  await perdure.startWorker({ orchestrations: [idle] });
  await perdure.client.start(idle, undefined);
  // The first queries after a start are not counted.
  await delay(2_500);
  const sent = watchStatements();
  await delay(6_000);
  const names = sent().map(({ name }) => name);
  expect(new Set(names)).toEqual(new Set(['perdure_look']));
  expect(names.length).toBeLessThanOrEqual(6);
}, 30_000);

it('dueSchedules() skips its query while no schedule is due and nothing changed', async () => {
  const { open } = await temporaryStore();
  const provider = await open({ listen: false, pollMs: 60_000 });
  const sent = watchStatements();
  const ask = async () => {
    sent();
    const { due, nextAt } = await provider.dueSchedules(9);
    return { due: due.map(({ name }) => name), nextAt, statements: sent().length };
  };
  expect(await ask()).toEqual({ due: [], nextAt: null, statements: 1 });
  // A fetch of work also reads when the next schedule is due.
  const poll = () => provider.fetchWorkItems({ max: 1, lockMs: 1, waitMs: 0 });
  await poll();
  expect(await ask()).toEqual({ due: [], nextAt: null, statements: 0 });
  const soon = Date.now() + 3_600_000;
  await provider.putSchedule({ ...write, nextAt: soon });
  expect(await ask()).toEqual({ due: [], nextAt: soon, statements: 1 });
  await poll();
  expect(await ask()).toEqual({ due: [], nextAt: soon, statements: 0 });
  await provider.putSchedule({ ...write, nextAt: 1 });
  await poll();
  expect(await ask()).toMatchObject({ due: ['later'], statements: 1 });
});

it('dueSchedules() queries again when its cached result is older than pollMs', async () => {
  const { open } = await temporaryStore();
  const pollMs = 20;
  const [provider, other] = [await open({ listen: false, pollMs }), await open({ listen: false })];
  await provider.fetchWorkItems({ max: 1, lockMs: 1, waitMs: 0 });
  await other.putSchedule({ ...write, nextAt: 1 });
  await delay(2 * pollMs);
  expect((await provider.dueSchedules(9)).due).toHaveLength(1);
});

it('a canceled run that a worker holds does not make other fetches busy-poll', async () => {
  const { open } = await temporaryStore();
  const provider = await open({ listen: false });
  await provider.createTasks([newTask('a')]);
  const fetch = { max: 1, lockMs: 60_000, waitMs: 0 };
  expect(await provider.fetchWorkItems({ ...fetch, lockMs: 50 })).toHaveLength(1);
  const stop = { reason: 'x', actor: null, cleanupMs: 1_000 };
  await provider.requestCancel([{ instanceId: 'a', ...stop }]);
  await delay(100);
  const [taken] = await provider.fetchWorkItems(fetch);
  expect(taken?.cancel).toMatchObject({ reason: 'x' });
  const sent = watchStatements();
  const others = { names: ['other'], tasks: ['other'] };
  expect(await provider.fetchWorkItems({ ...fetch, ...others, waitMs: 1_000 })).toEqual([]);
  const claims = sent().filter(({ name }) => name === 'perdure_due_items');
  expect(claims.length).toBeLessThan(6);
});
