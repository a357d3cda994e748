import { fork } from 'node:child_process';
import { once } from 'node:events';
import { expect, it, onTestFinished } from 'vitest';
import pg from 'pg';
import { createDatabase } from './helpers/server.ts';

const program = new URL('./helpers/busy-worker-program.ts', import.meta.url);
const disturbedMs = 4_000;

it('a worker process completes instances while its connections are terminated for four seconds', async () => {
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  const worker = fork(program, [database.url], { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] });
  onTestFinished(async () => {
    if (worker.connected) worker.disconnect();
    if (worker.exitCode === null && worker.signalCode === null) await once(worker, 'exit');
  });
  let stderr = '';
  worker.stderr?.on('data', (bytes) => (stderr += String(bytes)));
  const died = once(worker, 'exit').then(([code]) => {
    throw new Error(`The worker process ended with code ${String(code)}: ${stderr}`);
  });
  died.catch(() => undefined);
  await Promise.race([once(worker, 'message'), died]);

  const administrator = new pg.Client({ connectionString: database.url });
  await administrator.connect();
  const deadline = performance.now() + disturbedMs;
  let terminated = 0;
  while (performance.now() < deadline && worker.exitCode === null) {
    const { rows } = await administrator.query<{ n: number }>(
      `SELECT count(pg_terminate_backend(pid))::int AS n FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
    terminated += rows[0]?.n ?? 0;
  }
  await administrator.end();

  const reported = once(worker, 'message');
  if (worker.connected) worker.send('stop');
  const [completed] = (await Promise.race([reported, died])) as [number];
  expect(terminated).toBeGreaterThan(10);
  expect(completed).toBeGreaterThanOrEqual(20);
}, 60_000);
