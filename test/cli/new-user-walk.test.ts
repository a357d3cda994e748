import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  emptyFolder,
  installPackage,
  runProgram,
  startProgram,
  type FinishedProcess,
} from './processes/cli-process.ts';

/** The first hour of a new user, from the terminal alone. Every step is a process. */
it('a new user creates a project, runs it, kills the worker, and steers instances', async () => {
  const folder = emptyFolder();
  const run = async (cwd: string, code: number, ...args: string[]): Promise<FinishedProcess> => {
    const result = await runProgram(args, { cwd });
    expect({ args, ...result }).toMatchObject({ code });
    return result;
  };

  // init
  const created = await run(folder, 0, 'init', 'orders', '--template', 'service');
  expect(created.stdout).toContain('src/worker.ts\n');
  expect(created.stderr).toContain('npm run dev');
  const cwd = join(folder, 'orders');
  installPackage(cwd);
  const perdure = (...args: string[]) => run(cwd, 0, ...args);
  const json = async <T>(...args: string[]): Promise<T> =>
    JSON.parse((await perdure(...args, '--json')).stdout) as T;
  const statusOf = async (id: string): Promise<unknown> =>
    (await json<{ readonly status: unknown }>('show', id)).status;

  // dev
  const dev = startProgram(['dev', '--port', '0'], { cwd });
  const ready = /\(pid (\d+), restarts on change\)/;
  const [, pid = ''] = await dev.until(ready);

  // start, and see
  const order = JSON.stringify({ customer: 'ada', euros: 12 });
  await perdure('start', 'order', order, '--id', 'order-1', '--tag', 'customer=ada');
  await perdure('start', 'order', order, '--id', 'order-2');
  const list = await perdure('list', '--tag', 'customer=ada');
  expect(list.stdout).toMatch(/^order-1 +order +running/m);
  await expect
    .poll(async () => (await perdure('why', 'order-1')).stdout, { interval: 200 })
    .toMatch(/^Waiting for .*event `paid`/m);

  // kill
  dev.reset();
  process.kill(Number(pid), 'SIGKILL');
  const [, nextPid] = await dev.until(ready);
  expect(nextPid).not.toBe(pid);
  expect((await perdure('workers')).stdout).toMatch(/stale/);
  // `dev` has replaced the worker.
  expect((await perdure('doctor')).stdout).not.toContain('stale-workers');

  // The order survived the worker.
  await perdure('event', 'order-1', 'paid', '{"reference": "p-1"}');
  const result = await perdure('result', 'order-1');
  expect(JSON.parse(result.stdout)).toEqual({
    reference: 'p-1',
    shipment: 'shipped the reservation of ada',
  });

  // cancel, with clean-up
  await perdure('cancel', 'order-2', '--reason', 'changed my mind', '--wait');
  expect(await statusOf('order-2')).toBe('canceled');
  expect(dev.stdout).toContain('released the reservation of ada');
  await run(cwd, 7, 'result', 'order-2');

  // retry
  await perdure('retry', 'order-2', '--from', 'start');
  await perdure('event', 'order-2', 'paid', '{"reference": "p-2"}');
  expect((await perdure('result', 'order-2')).stdout).toContain('p-2');

  // delete
  const refused = await run(cwd, 4, 'delete', 'order-1');
  expect(refused.stderr).toContain('--yes');
  await perdure('delete', 'order-1', '--yes');
  await run(cwd, 3, 'show', 'order-1');
  expect((await perdure('top')).stdout).toContain('1 completed');

  // Ctrl-C
  dev.child.kill('SIGINT');
  expect((await dev.finished).code).toBe(0);
});
