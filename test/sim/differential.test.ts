import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { temporaryStore } from '../postgres/helpers/temporary-store.ts';
import {
  CallReplay,
  canReplay,
  isAbortedFetch,
  ReplayClock,
  type RecordedCall,
} from './differential/replay-calls.ts';
import { simulate } from './simulation.ts';

const seeds = Number(process.env['PERDURE_SIM_DIFFERENTIAL'] ?? 12);

/** Records the calls of a seed. Copies them, because a store may keep what it got. */
async function record(seed: number): Promise<readonly RecordedCall[]> {
  const calls: RecordedCall[] = [];
  const report = await simulate({
    seed,
    onCommitted: (call, nowMs) => {
      const { process, method, args, result } = call;
      const { processId } = process;
      if (!isAbortedFetch(call)) calls.push({ processId, method, args, result, nowMs });
    },
  });
  expect(report.violations).toEqual([]);
  return calls;
}

/** Deletes all rows, so that the next seed finds an empty store. */
async function empty(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ readonly tables: string }>(
    `SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') AS tables FROM pg_tables
     WHERE schemaname = 'perdure' AND tablename NOT LIKE '%migrations'`,
  );
  await pool.query(`TRUNCATE ${rows[0]?.tables} RESTART IDENTITY`);
}

it(
  'the calls of a simulation have the same results on SQLite and PostgreSQL',
  async () => {
    const { open, url } = await temporaryStore();
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    onTestFinished(() => pool.end());
    let replayed = 0;
    for (let seed = 1; replayed < seeds; seed++) {
      const calls = await record(seed);
      if (!canReplay(calls)) continue;
      replayed += 1;
      const clock = new ReplayClock();
      clock.nowMs = calls[0]?.nowMs ?? 0;
      const sqlite = await openSqlite({ path: ':memory:', clock });
      const sqliteReplay = new CallReplay(sqlite, clock);
      const onSqlite = await sqliteReplay.run(calls);
      const expected = await sqliteReplay.readAll();
      await sqlite.close();
      const postgres = await open({ clock, listen: false });
      const postgresReplay = new CallReplay(postgres, clock);
      const onPostgres = await postgresReplay.run(calls);
      expect({ seed, onSqlite, onPostgres }).toEqual({ seed });
      expect({ seed, rows: await postgresReplay.readAll() }).toEqual({ seed, rows: expected });
      await postgres.close();
      await empty(pool);
    }
  },
  60_000 + seeds * 10_000,
);
