import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, type TestContext } from 'vitest';
import { Perdure } from '../../src/index.ts';
import { createMigratedDatabase } from '../postgres/helpers/migrated-database.ts';
import { bundleProgram } from './helpers/bundle-program.ts';
import { draw, stop } from './programs/update-definitions.ts';

// `npm run crash:updates` sets the full size.
const isFullSize = process.env['MODE'] === 'updates';
const callers = isFullSize ? 1_000 : 60;
const kills = isFullSize ? 40 : 3;

interface Setup {
  readonly store: string;
  readonly program: string;
}

async function setUp(kind: 'SQLite' | 'PostgreSQL', context: TestContext): Promise<Setup> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-updates-'));
  context.onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const program = await bundleProgram('update-worker-program.ts', folder);
  if (kind === 'SQLite') return { store: join(folder, 'store.db'), program };
  const database = await createMigratedDatabase();
  context.onTestFinished(() => database.drop());
  return { store: database.url, program };
}

async function startWorker({ store, program }: Setup): Promise<ChildProcess> {
  const child = fork(program, [store]);
  await once(child, 'message');
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

describe.each(['SQLite', 'PostgreSQL'] as const)(
  'updates while workers are killed (%s)',
  (kind) => {
    it('each of many concurrent callers gets exactly one reply, over kills and continue-as-new', async (context) => {
      const setup = await setUp(kind, context);
      const perdure = await Perdure.open(setup.store);
      context.onTestFinished(() => perdure.close());
      const { client } = perdure;
      const handle = await client.start('numbers', { last: 0 }, { id: 'numbers' });
      let worker = await startWorker(setup);
      context.onTestFinished(() => kill(worker));
      let replied = 0;
      const call = async (index: number): Promise<number> => {
        // Spread, so that kills hit every state.
        await delay(Math.random() * kills * 150);
        const options = { key: `caller-${index}` };
        const input = { slow: index % 3 === 0 };
        const reply = await client.update('numbers', draw, input, options);
        replied += 1;
        // A repeat gets the same reply, whichever worker runs.
        if (index % 5 === 0) {
          expect(await client.update('numbers', draw, input, options)).toBe(reply);
        }
        return reply;
      };
      const replies = Promise.all(Array.from({ length: callers }, (_, index) => call(index)));
      const repliedAtKill: number[] = [];
      for (let count = 0; count < kills; count += 1) {
        await delay(50 + Math.random() * 200);
        repliedAtKill.push(replied);
        await kill(worker);
        worker = await startWorker(setup);
      }
      const numbers = await replies;
      // Each update was handled once: the numbers have no gap and no duplicate.
      expect(numbers.toSorted((a, b) => a - b)).toEqual(
        Array.from({ length: callers }, (_, index) => index + 1),
      );
      await handle.raiseEvent(stop);
      expect(await handle.result()).toBe(callers);
      expect((await handle.status()).executionId).toBeGreaterThan(1);
      // Guards against kills after the last reply.
      expect(repliedAtKill.some((count) => count < callers)).toBe(true);
      const { executionId: executions } = await handle.status();
      // Vitest hides the console of tests that pass.
      const report = { callers, kills, executions, repliedAtKill: repliedAtKill.join(' ') };
      if (isFullSize) process.stderr.write(`${kind} ${JSON.stringify(report)}\n`);
    }, 600_000);
  },
);
