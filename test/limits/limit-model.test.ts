import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, describe, expect, it } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { createEmptyStore } from '../sqlite/helpers/empty-store.ts';
import { runLimitModel } from './limit-model.ts';
import { checkSqliteInvariants } from './sqlite-invariants.ts';

// `LIMIT_RUNS=5000 npx vitest run test/limits` runs all of them.
const runs = Number(process.env['LIMIT_RUNS'] ?? 25);
const firstSeed = Number(process.env['LIMIT_SEED'] ?? 1);
const operations = 120;

const directory = mkdtempSync(join(tmpdir(), 'perdure-limits-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Runs the model on a new file. `damage` runs before the first operation. */
async function run(seed: number, damage?: string): Promise<void> {
  const path = join(directory, `${seed}-${damage === undefined ? 'intact' : 'damaged'}.db`);
  await createEmptyStore(path);
  const clock = new FakeClock();
  const provider = await openSqlite({ path, clock, synchronous: 'normal' });
  const db = new Database(path);
  try {
    if (damage !== undefined) db.exec(damage);
    const checkInvariants = () => checkSqliteInvariants(db, provider.clock?.now() ?? clock.now());
    await runLimitModel({ provider, clock, checkInvariants }, { seed, operations });
  } finally {
    db.close();
    await provider.close();
    rmSync(path, { force: true });
  }
}

describe('limits on SQLite', () => {
  it(`${runs} random runs agree with the reference scheduler`, { timeout: 3_600_000 }, async () => {
    for (let seed = firstSeed; seed < firstSeed + runs; seed++) {
      await run(seed).catch((cause: unknown) => {
        throw new Error(`seed ${seed}`, { cause });
      });
    }
  });

  it.each([
    ['the trigger of hand-backs', 'DROP TRIGGER worker_queue_handed_back'],
    ['the trigger of deletions', 'DROP TRIGGER worker_queue_deleted'],
    ['the trigger of resumes', 'DROP TRIGGER worker_queue_resumed'],
  ])('finds that %s is missing', async (_, damage) => {
    let found = false;
    for (let seed = 1; seed <= 30 && !found; seed++) {
      found = await run(seed, damage).then(
        () => false,
        () => true,
      );
    }
    expect(found).toBe(true);
  });
});
