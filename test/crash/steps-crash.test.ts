import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Perdure } from '../../src/perdure.ts';
import { createMigratedDatabase } from '../postgres/helpers/migrated-database.ts';

const program = new URL('./programs/steps-program.ts', import.meta.url);
/** `PERDURE_STEP_KILLS=500 npx vitest run test/crash/steps-crash.test.ts` runs the long loop. */
const kills = Number(process.env['PERDURE_STEP_KILLS'] ?? 4);
const instances = 8;
const stepsPerKill = 12;

interface Attempt {
  readonly id: string;
  readonly index: number;
  readonly before: number;
  readonly after: number;
  readonly idempotencyKey: string;
}

/** The results of the steps of an instance, from all pages of its history. */
async function recordedResults({ client }: Perdure, id: string): Promise<readonly number[]> {
  const results: number[] = [];
  for (let after: number | undefined = 0; after !== undefined;) {
    const page: Awaited<ReturnType<typeof client.history>> = await client.history(id, {
      after,
      limit: 1_000,
    });
    for (const { event } of page.items)
      if (event.kind === 'stepCompleted') results.push(Number(event.payload));
    after = page.nextAfter;
  }
  return results;
}

async function runLoop(store: string, folder: string): Promise<number> {
  const ledger = join(folder, 'ledger');
  const length = stepsPerKill * kills;
  const perdure = await Perdure.open(store);
  try {
    const ids = Array.from({ length: instances }, (_, index) => `chain-${index}`);
    for (const id of ids) await perdure.client.start('chain', length, { id });
    const ended = Promise.all(
      ids.map((id) => perdure.client.handle<number>(id).result({ timeout: '30m' })),
    );
    let worker: ChildProcess | undefined;
    for (let kill = 0; kill < kills; kill++) {
      worker = fork(program, [store, ledger]);
      await once(worker, 'message');
      await delay(50 + Math.random() * 150);
      const died = once(worker, 'exit');
      worker.kill('SIGKILL');
      await died;
    }
    worker = fork(program, [store, ledger]);
    const outputs = await ended;
    const died = once(worker, 'exit');
    worker.kill('SIGKILL');
    await died;
    const attempts = (await readFile(ledger, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Attempt);
    const byId = Map.groupBy(attempts, ({ id }) => id);
    for (const [position, id] of ids.entries()) {
      const recorded = await recordedResults(perdure, id);
      expect(recorded).toHaveLength(length);
      expect(outputs[position]).toBe(recorded.at(-1));
      const own = Map.groupBy(byId.get(id) ?? [], ({ index }) => index);
      for (let index = 0; index < length; index++) {
        const ofStep = own.get(index) ?? [];
        // At least once, with the recorded result among its attempts.
        expect(ofStep.map(({ after }) => after)).toContain(recorded[index]);
        // Every attempt got the recorded result of the step before it.
        expect(new Set(ofStep.map(({ before }) => before))).toEqual(
          new Set([index === 0 ? 0 : recorded[index - 1]]),
        );
        expect(new Set(ofStep.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
      }
    }
    return attempts.length - instances * length;
  } finally {
    await perdure.close();
  }
}

it.each(['SQLite', 'PostgreSQL'] as const)(
  'steps on %s survive SIGKILL: each runs at least once, and later ones get its recorded result',
  async (kind) => {
    const folder = await mkdtemp(join(tmpdir(), 'perdure-steps-'));
    const database = kind === 'PostgreSQL' ? await createMigratedDatabase() : undefined;
    try {
      const repeated = await runLoop(database?.url ?? join(folder, 'steps.db'), folder);
      const figures = `${kind}: ${kills} kills, ${repeated} attempts repeated`;
      if (kills > 10) process.stderr.write(`${figures}\n`);
    } finally {
      await database?.drop();
      await rm(folder, { recursive: true, force: true });
    }
  },
  3_600_000,
);
