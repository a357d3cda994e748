import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Perdure } from '../../src/perdure.ts';

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
    let deaths = 0;
    for (let isOver = false; !isOver;) {
      const worker = spawn(process.execPath, [program, path], { stdio: 'ignore' });
      const died = once(worker, 'exit');
      isOver = await Promise.race([died.then(() => false), ended.then(() => true)]);
      if (isOver) worker.kill('SIGKILL');
      else deaths += 1;
      await died;
    }
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
