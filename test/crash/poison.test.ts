import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Perdure } from '../../src/perdure.ts';

/** Starts workers until the instance has ended. Returns how many exited by themselves. */
async function runWorkers(path: string, ended: Promise<unknown>): Promise<number> {
  let deaths = 0;
  for (let isOver = false; !isOver;) {
    const worker = spawn(process.execPath, [program, path], { stdio: 'ignore' });
    const died = once(worker, 'exit');
    isOver = await Promise.race([died.then(() => false), ended.then(() => true)]);
    if (isOver) worker.kill('SIGKILL');
    else deaths += 1;
    await died;
  }
  return deaths;
}

const program = new URL('./programs/poison-program.ts', import.meta.url).pathname;

test('an activity that always kills its process fails with POISON; other instances complete', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-poison-'));
  const path = join(folder, 'poison.db');
  const perdure = await Perdure.open(path);
  try {
    const { client } = perdure;
    const poison = await client.start('explodes');
    const calm = await Promise.all([1, 2, 3].map((n) => client.start('stays-calm', n)));
    const ended = poison.result({ timeout: '60s' });
    const deaths = await runWorkers(path, ended);
    expect(await ended).toBe('POISON');
    // Each claim except the last one killed a worker.
    expect(deaths).toBe(3);
    expect(await Promise.all(calm.map((handle) => handle.result({ timeout: '10s' })))).toEqual([
      1, 2, 3,
    ]);
  } finally {
    await perdure.close();
    await rm(folder, { recursive: true, force: true });
  }
}, 90_000);

test('a step that always kills its process fails with POISON; the steps around it run', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-poison-'));
  const path = join(folder, 'poison.db');
  const perdure = await Perdure.open(path);
  try {
    const poison = await perdure.client.start('explodes-in-a-step');
    const ended = poison.result({ timeout: '60s' });
    const deaths = await runWorkers(path, ended);
    expect(await ended).toEqual(['calm', ['POISON', 'POISON'], 'after']);
    // The claim whose turn began the step was committed, so it does not count; the next three do.
    expect(deaths).toBe(4);
    const { items } = await perdure.client.history(poison.id, { kinds: ['stepFailed'] });
    expect(items).toHaveLength(1);
  } finally {
    await perdure.close();
    await rm(folder, { recursive: true, force: true });
  }
}, 90_000);
