import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { afterAll, describe, expect, it } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { withoutEffect } from '../conformance/broken/broken-provider.ts';
import { SchemaPool } from '../postgres/helpers/schema-pool.ts';
import { createEmptyStore } from '../sqlite/helpers/empty-store.ts';
import { checkBeginInvariants } from './begin-invariants.ts';
import { runBeginLimitModel } from './begin-limit-model.ts';

// `npm run model:limits` sets the full size. LIMIT_SEED and LIMIT_RUNS repeat single runs.
const isFullSize = process.env['MODE'] === 'limits';
const firstSeed = Number(process.env['LIMIT_SEED'] ?? 1);
const operations = 120;

const directory = mkdtempSync(join(tmpdir(), 'perdure-begin-limits-'));
const pool = new SchemaPool('begin_limits');
afterAll(async () => {
  rmSync(directory, { recursive: true, force: true });
  await pool.drop();
});

async function runOnSqlite(seed: number, damage?: string): Promise<void> {
  const path = join(directory, `${seed}-${damage === undefined ? 'intact' : 'damaged'}.db`);
  await createEmptyStore(path);
  const clock = new FakeClock();
  const open = () => openSqlite({ path, clock, synchronous: 'normal' });
  const providers = [await open(), await open()] as const;
  const db = new Database(path);
  try {
    if (damage !== undefined) db.exec(damage);
    const checkInvariants = () => checkBeginInvariants((sql) => db.prepare(sql).all());
    await runBeginLimitModel({ providers, clock, checkInvariants }, { seed, operations });
  } finally {
    db.close();
    for (const provider of providers) await provider.close();
    rmSync(path, { force: true });
  }
}

async function runOnPostgres(seed: number, damage?: string): Promise<void> {
  const schema = await pool.take();
  const clock = new FakeClock();
  const open = () => pool.open(schema, { clock, poolSize: 2 });
  const providers = [await open(), await open()] as const;
  const client = new pg.Client({
    connectionString: await pool.url(),
    options: `-c search_path=${schema}`,
  });
  await client.connect();
  try {
    if (damage !== undefined) {
      await client.query('SELECT add_instance_triggers()');
      await client.query(`ALTER TABLE instances DISABLE TRIGGER ${damage}`);
    }
    const query = async (sql: string) => (await client.query(sql)).rows;
    const checkInvariants = () => checkBeginInvariants(query, 'signals');
    await runBeginLimitModel({ providers, clock, checkInvariants }, { seed, operations });
  } finally {
    if (damage !== undefined) await client.query(`ALTER TABLE instances ENABLE TRIGGER ${damage}`);
    await client.end();
    for (const provider of providers) await provider.close();
    pool.release(schema);
  }
}

interface Suite {
  readonly store: string;
  readonly run: (seed: number, damage?: string) => Promise<void>;
  readonly given: number;
  /** What is damaged, and how. */
  readonly damages: readonly (readonly [name: string, damage: string])[];
}

describe.each<Suite>([
  {
    store: 'SQLite',
    run: runOnSqlite,
    given: isFullSize ? 2_000 : 15,
    damages: [
      ['ends', withoutEffect('instances_ended_places', 'instances')],
      ['pauses', 'DROP TRIGGER instances_paused_places'],
      ['freed places', 'DROP TRIGGER instance_places_freed'],
    ],
  },
  {
    store: 'PostgreSQL',
    run: runOnPostgres,
    given: isFullSize ? 500 : 4,
    damages: [
      ['ends and pauses', 'limited_instance_changed'],
      ['deletions', 'limited_instance_deleted'],
    ],
  },
])('limits of instances on $store', ({ run, given, damages }) => {
  const runs = Number(process.env['LIMIT_RUNS'] ?? given);

  it(
    `${runs} random runs exceed no limit, and no instance waits while a place is free`,
    { timeout: 7_200_000 },
    async () => {
      for (let seed = firstSeed; seed < firstSeed + runs; seed++) {
        await run(seed).catch((cause: unknown) => {
          throw new Error(`seed ${seed}`, { cause });
        });
      }
    },
  );

  it.each(damages)('finds that the trigger of %s is missing', async (_, damage) => {
    const found: string[] = [];
    for (let seed = 1; seed <= 30 && found.length === 0; seed++) {
      await run(seed, damage).catch((error: unknown) => found.push(violationOf(error)));
    }
    expect(found).toEqual([
      expect.stringMatching(/^L\d: |begins beyond|waits although|never end|is not paused/),
    ]);
  });
});

/** What the model found, or the message of another error, such as one of invalid SQL. */
function violationOf(error: unknown): string {
  const { cause = error } = error as Error;
  return cause instanceof Error ? cause.message : String(cause);
}
