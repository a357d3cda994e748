import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { afterAll, describe, expect, it } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { SchemaPool } from '../postgres/helpers/schema-pool.ts';
import { withoutEffect } from '../conformance/broken/broken-provider.ts';
import { createEmptyStore } from '../sqlite/helpers/empty-store.ts';
import { runLimitModel } from './limit-model.ts';
import { checkPostgresInvariants } from './postgres-invariants.ts';
import { checkSqliteInvariants } from './sqlite-invariants.ts';

// `npm run model:limits` sets the full size. LIMIT_SEED and LIMIT_RUNS repeat single runs.
const isFullSize = process.env['MODE'] === 'limits';
const firstSeed = Number(process.env['LIMIT_SEED'] ?? 1);
const operations = 120;

const directory = mkdtempSync(join(tmpdir(), 'perdure-limits-'));
const pool = new SchemaPool('limits');
afterAll(async () => {
  rmSync(directory, { recursive: true, force: true });
  if (shared !== undefined) await closeOnPostgres(shared);
  await pool.drop();
});

/** Runs the model on a new file. `damage` runs before the first operation. */
async function runOnSqlite(seed: number, damage?: string): Promise<void> {
  const path = join(directory, `${seed}-${damage === undefined ? 'intact' : 'damaged'}.db`);
  await createEmptyStore(path);
  const clock = new FakeClock();
  const provider = await openSqlite({ path, clock, synchronous: 'normal' });
  const db = new Database(path);
  try {
    if (damage !== undefined) db.exec(damage);
    const checkInvariants = () => checkSqliteInvariants(db, provider.clock?.now() ?? clock.now());
    await runLimitModel(
      { provider, clock, checkInvariants, mayDivideClaims: false },
      { seed, operations },
    );
  } finally {
    db.close();
    await provider.close();
    rmSync(path, { force: true });
  }
}

/** A schema with open connections, for consecutive runs of the model. */
interface PostgresStore {
  readonly provider: Provider;
  readonly clock: FakeClock;
  readonly client: pg.Client;
  readonly schema: string;
  runs: number;
}

// PostgreSQL plans the first statements of a connection anew: several runs share one, with tasks of their own.
const runsPerSchema = 25;
let shared: PostgresStore | undefined;

async function openOnPostgres(): Promise<PostgresStore> {
  const schema = await pool.take();
  const clock = new FakeClock();
  const provider = await pool.open(schema, { clock, poolSize: 4 });
  const client = new pg.Client({
    connectionString: await pool.url(),
    options: `-c search_path=${schema}`,
  });
  await client.connect();
  return { provider, clock, client, schema, runs: 0 };
}

async function closeOnPostgres({ provider, client, schema }: PostgresStore): Promise<void> {
  shared = undefined;
  await client.end();
  await provider.close();
  pool.release(schema);
}

/** Runs the model with tasks of its own. `damage` disables triggers before the first operation. */
async function runOnPostgres(seed: number, damage?: string): Promise<void> {
  const store = (shared ??= await openOnPostgres());
  const { provider, clock, client } = store;
  store.runs += 1;
  let isIntact = false;
  try {
    if (damage !== undefined) {
      await client.query('SELECT add_lane_triggers()');
      await client.query(`ALTER TABLE worker_queue DISABLE ${damage}`);
    }
    const checkInvariants = () =>
      checkPostgresInvariants(client, provider.clock?.now() ?? clock.now());
    await runLimitModel(
      { provider, clock, checkInvariants, mayDivideClaims: true, prefix: `${seed}-` },
      { seed, operations },
    );
    // As claims do with idle lanes. The checks read all of them.
    await client.query('DELETE FROM lanes WHERE running = 0 AND NOT more');
    isIntact = damage === undefined;
  } finally {
    if (damage !== undefined) await client.query(`ALTER TABLE worker_queue ENABLE ${damage}`);
    if (!isIntact || store.runs === runsPerSchema) await closeOnPostgres(store);
  }
}

/** What is damaged, how, and the violation that the model must find. */
type Damage = readonly [name: string, sql: string, violation: RegExp];

interface Suite {
  readonly store: string;
  readonly run: (seed: number, damage?: string) => Promise<void>;
  readonly runs: number;
  readonly damages: readonly Damage[];
}

describe.each<Suite>([
  {
    store: 'SQLite',
    run: runOnSqlite,
    runs: isFullSize ? 5_000 : 25,
    damages: [
      ['hand-backs', withoutEffect('worker_queue_handed_back', 'worker_queue'), /^L1: a place/],
      ['deletions', withoutEffect('worker_queue_deleted', 'worker_queue'), /^L2: running/],
      [
        'resumes',
        'DROP TRIGGER worker_queue_resumed',
        /^L6: a lane|waits although it can be claimed$/,
      ],
    ],
  },
  {
    store: 'PostgreSQL',
    run: runOnPostgres,
    runs: isFullSize ? 5_000 : 8,
    damages: [
      ['new items', 'TRIGGER lane_items_inserted', /^L6: a lane/],
      ['deletions', 'TRIGGER lane_items_deleted', /^L1: a place/],
      ['hand-backs', 'TRIGGER lane_item_updated', /^L1: a place/],
    ],
  },
])('limits on $store', ({ run, runs: given, damages }) => {
  const runs = Number(process.env['LIMIT_RUNS'] ?? given);

  it(`${runs} random runs agree with the reference scheduler`, { timeout: 7_200_000 }, async () => {
    for (let seed = firstSeed; seed < firstSeed + runs; seed++) {
      await run(seed).catch((cause: unknown) => {
        throw new Error(`seed ${seed}`, { cause });
      });
    }
  });

  it.each(damages)('finds that the trigger of %s is missing', async (_, damage, violation) => {
    const found: string[] = [];
    for (let seed = 1; seed <= 30 && !found.some((one) => violation.test(one)); seed++) {
      await run(seed, damage).catch((error: unknown) => found.push(violationOf(error)));
    }
    expect(found).toContainEqual(expect.stringMatching(violation));
  });
});

/** The invariant that a run of the model found broken, or the message of another error, such as one of invalid SQL. */
function violationOf(error: unknown): string {
  const { cause = error } = error as Error;
  return cause instanceof Error ? cause.message : String(cause);
}
