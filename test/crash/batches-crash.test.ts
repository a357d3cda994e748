import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Perdure } from '../../src/perdure.ts';
import { createMigratedDatabase } from '../postgres/helpers/migrated-database.ts';

const program = new URL('./programs/batches-program.ts', import.meta.url);
/** `PERDURE_BATCH_KILLS=200 npx vitest run test/crash/batches-crash.test.ts` runs the long loop. */
const kills = Number(process.env['PERDURE_BATCH_KILLS'] ?? 1);
const runsPerKill = 120;

interface Line {
  readonly id: string;
  readonly idempotencyKey: string;
  readonly token: string;
  readonly size: number;
}

async function kill(worker: ChildProcess): Promise<void> {
  const died = once(worker, 'exit');
  worker.kill('SIGKILL');
  await died;
}

async function readLedger(path: string): Promise<readonly Line[]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

/** The ids of all completed runs. */
async function completedRuns({ client }: Perdure): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined;) {
    isFirst = false;
    const page: Awaited<ReturnType<typeof client.list>> = await client.list(
      { status: 'completed' },
      { limit: 1_000, cursor },
    );
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.nextCursor;
  }
  return ids;
}

async function runLoop(store: string, folder: string): Promise<string> {
  const ledger = join(folder, 'ledger');
  const perdure = await Perdure.open(store);
  try {
    const { client } = perdure;
    const count = runsPerKill * (kills + 1);
    const handles = await client.runTasks(
      Array.from({ length: count }, (_, input) => ({ task: 'insert', input })),
    );
    /** Runs that had ended before a kill, with the number of lines of the ledger at that time. */
    const ended = new Map<string, number>();
    for (let killed = 0; killed < kills; killed++) {
      const worker = fork(program, [store, ledger]);
      await once(worker, 'message');
      await delay(60 + Math.random() * 120);
      await kill(worker);
      const lines = (await readLedger(ledger)).length;
      for (const id of await completedRuns(perdure)) if (!ended.has(id)) ended.set(id, lines);
    }
    const worker = fork(program, [store, ledger]);
    const outputs = await Promise.all(handles.map((handle) => handle.result({ timeout: '10m' })));
    await kill(worker);
    const lines = await readLedger(ledger);
    const byId = Map.groupBy(lines, ({ id }) => id);
    for (const [index, { id }] of handles.entries()) {
      const own = byId.get(id) ?? [];
      // At least once, and the result is of one of its attempts.
      expect(own.map(({ token }) => token)).toContain(outputs[index]);
      expect(new Set(own.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    }
    // A run that had ended did not run again.
    for (const [id, before] of ended) {
      expect(lines.slice(before).filter((line) => line.id === id)).toEqual([]);
    }
    const sizes = lines.map(({ size }) => size);
    expect(Math.max(...sizes)).toBeGreaterThan(1);
    return `${kills} kills, ${count} runs, ${ended.size} ended before a kill, ${lines.length - count} attempts repeated`;
  } finally {
    await perdure.close();
  }
}

it.each(['SQLite', 'PostgreSQL'] as const)(
  'runs of batches on %s survive SIGKILL: each runs at least once, and none again after its end',
  async (kind) => {
    const folder = await mkdtemp(join(tmpdir(), 'perdure-batches-'));
    const database = kind === 'PostgreSQL' ? await createMigratedDatabase() : undefined;
    try {
      const figures = await runLoop(database?.url ?? join(folder, 'batches.db'), folder);
      if (kills > 10) process.stderr.write(`${kind}: ${figures}\n`);
    } finally {
      await database?.drop();
      await rm(folder, { recursive: true, force: true });
    }
  },
  3_600_000,
);
