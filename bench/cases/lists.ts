import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import Database from 'better-sqlite3';
import pg from 'pg';
import { Perdure, type Client } from 'perdure';
import { percentile, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { createFinishedInstances } from '../finished-instances.ts';
import { providerOf } from '../store-kind.ts';

type Filter = NonNullable<Parameters<Client['list']>[0]>;

const rounds = 5;

/** The p95 of the first and of a middle page of every filter and pair of filters, and the longest event-loop delay. */
export async function listPages({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const count = quick ? 100_000 : 1_000_000;
  await createFinishedInstances(store, count);
  await vary(store);
  await using perdure = await Perdure.open(store);
  const { client } = perdure;
  const filters = pairsOf(conditionsOf(Date.now(), count));
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const times: number[] = [];
  let slowest = { ms: 0, filter: '' };
  delay.enable();
  for (const filter of filters) {
    for (const cursor of [undefined, `k${Math.floor(count / 2).toString(36)}`]) {
      for (let round = 0; round < rounds; round += 1) {
        const begun = performance.now();
        await client.list(filter, { cursor });
        const ms = performance.now() - begun;
        // Lets the monitor see the time that the page blocked the event loop.
        await pause(1);
        times.push(ms);
        if (ms > slowest.ms) slowest = { ms, filter: JSON.stringify(filter) };
      }
    }
  }
  delay.disable();
  console.error(`slowest page: ${slowest.filter}`);
  const counted = performance.now();
  await client.count({ status: 'completed' });
  const countMs = performance.now() - counted;
  const listed = performance.now();
  await client.definitions();
  return {
    filters: filters.length,
    pageP50Ms: percentile(times, 0.5),
    pageP95Ms: percentile(times, 0.95),
    slowestPageMs: slowest.ms,
    longestLoopDelayMs: delay.max / 1e6,
    countMs,
    definitionsMs: performance.now() - listed,
  };
}

/** One condition of each kind: some match many instances, some few. */
function conditionsOf(now: number, count: number): readonly Filter[] {
  return [
    { status: 'failed' },
    { status: 'completed' },
    { status: ['canceled', 'running'] },
    { kind: 'orchestration' },
    { kind: 'task' },
    { name: ['hello', 'other'] },
    { version: '1' },
    { idPrefix: '0' },
    { idPrefix: 'none' },
    { rootsOnly: true },
    { createdFrom: now - count },
    { createdBefore: now - count / 2 },
    { endedFrom: now - count / 2 },
    { endedBefore: now - count / 4 },
    { failureCode: 'E7' },
    { failureText: 'number 7' },
    { blocked: false },
    { leaked: true },
    { tags: { tag0: '1' } },
    { tags: { tag1: '0', tag2: '0' } },
  ];
}

function pairsOf(conditions: readonly Filter[]): readonly Filter[] {
  const pairs = conditions.flatMap((one, index) =>
    conditions
      .slice(index + 1)
      .filter((other) => Object.keys(other).every((key) => !(key in one)))
      .map((other) => ({ ...one, ...other })),
  );
  return [{}, ...conditions, ...pairs];
}

/** Spreads the times over the keys, fails every 50th instance, and gives 16 tags to every tenth. */
async function vary(store: string): Promise<void> {
  const now = Date.now();
  const name = `'tag' || n`;
  const statements = (failure: string, tags: string, numbers: string) => [
    `UPDATE instances SET created_at = ${now} - (SELECT max(instance_key) FROM instances) + instance_key`,
    `UPDATE instances SET ended_at = created_at + 5, completed_at = created_at + 5`,
    `UPDATE instances SET status = 'failed', failed_at = ended_at, completed_at = NULL, failure = ${failure}
     WHERE instance_key % 50 = 0`,
    `UPDATE instances SET tags = ${tags} WHERE instance_key % 10 = 0`,
    `INSERT INTO instance_tags (name, value, instance_key)
     SELECT ${name}, CAST(instance_key / 10 % (n + 2) AS text), instance_key
     FROM instances CROSS JOIN ${numbers} WHERE instance_key % 10 = 0`,
  ];
  const failure = `'{"name":"Error","message":"Failure number ' || (instance_key / 50 % 10) ||
    '","code":"E' || (instance_key / 50 % 10) || '"}'`;
  const pairs = Array.from(
    { length: 16 },
    (_, n) => `'"tag${n}":"' || (instance_key / 10 % ${n + 2}) || '"'`,
  );
  const tags = `'{' || ${pairs.join(` || ',' || `)} || '}'`;
  if (providerOf(store) === 'sqlite') {
    const db = new Database(store);
    const numbers = `(SELECT value AS n FROM json_each('[${[...Array(16).keys()].join()}]'))`;
    db.transaction(() => {
      for (const statement of statements(failure, tags, numbers)) db.exec(statement);
    })();
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
    return;
  }
  const client = new pg.Client({ connectionString: store });
  await client.connect();
  await client.query('SET search_path TO perdure');
  for (const statement of statements(failure, tags, 'generate_series(0, 15) AS n')) {
    await client.query(statement);
  }
  await client.query('VACUUM ANALYZE');
  await client.end();
}
