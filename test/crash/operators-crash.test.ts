/** Operators pause, retry and cancel instances by filter while workers and operators are killed under load. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { Perdure, type BulkProgress, type Client } from '../../src/index.ts';
import { createDatabase } from '../postgres/helpers/server.ts';
import { runBulk, type BulkRole } from './helpers/operator-bulk.ts';
import { readLedger, type BeginLine } from './oracles/ledger.ts';
import type { OperatorsOptions } from './programs/operators-program.ts';

const actor = 'ann';
const batchSize = 250;

/** A program, its ledger, and whether the test killed it. */
interface Program {
  readonly child: ChildProcess;
  readonly ledger: string;
  isKilled: boolean;
}

/** How far a bulk operation came. Without a cursor, it is done. */
type Reached = { readonly changed: number; readonly cursor?: string | undefined };

/** The programs of one test, in the order of their start. */
class Programs {
  readonly all: Program[] = [];
  readonly #store: string;
  readonly #folder: string;

  constructor(store: string, folder: string) {
    this.#store = store;
    this.#folder = folder;
    onTestFinished(async () => {
      for (const program of this.all) await this.kill(program);
    });
  }

  run(role: OperatorsOptions['role']): Program {
    const ledger = join(this.#folder, `${this.all.length}.jsonl`);
    const options: OperatorsOptions = { store: this.#store, ledger, role };
    const child = fork(new URL('./programs/operators-program.ts', import.meta.url), [
      JSON.stringify(options),
    ]);
    const program = { child, ledger, isKilled: false };
    this.all.push(program);
    return program;
  }

  startWorkers(role: 'faulty' | 'fixed', count: number): Promise<Program[]> {
    return Promise.all(Array.from({ length: count }, () => this.startWorker(role)));
  }

  async startWorker(role: 'faulty' | 'fixed'): Promise<Program> {
    const program = this.run(role);
    await this.nextMessage(program);
    return program;
  }

  /** Resolves with the next message of a program. Rejects if it exits before. */
  async nextMessage({ child }: Program): Promise<unknown> {
    const stop = new AbortController();
    const { signal } = stop;
    try {
      const exit = once(child, 'exit', { signal }).then(() => {
        throw new Error('A program exited without a kill.');
      });
      const [message] = (await Promise.race([once(child, 'message', { signal }), exit])) as [
        unknown,
      ];
      return message;
    } finally {
      stop.abort();
    }
  }

  async kill(program: Program): Promise<void> {
    const { child } = program;
    program.isKilled = true;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  /** The activity runs of each process, oldest first. */
  begins(of: readonly Program[] = this.all): readonly (BeginLine & { readonly by: Program })[] {
    return of
      .flatMap((by) =>
        readLedger(by.ledger).flatMap((line) => (line.line === 'begin' ? [{ ...line, by }] : [])),
      )
      .toSorted((a, b) => a.at - b.at);
  }
}

/** Calls `act` for each id, in concurrent batches. */
async function forEach(ids: readonly string[], act: (id: string) => Promise<unknown>) {
  for (let from = 0; from < ids.length; from += batchSize) {
    await Promise.all(ids.slice(from, from + batchSize).map(act));
  }
}

async function listIds(client: Client, status: 'failed' | 'running'): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const { id } of pages(client, status)) ids.push(id);
  return ids;
}

async function* pages(client: Client, status: 'failed' | 'running') {
  let cursor: string | undefined;
  do {
    const page = await client.list({ name: 'ships', status }, { limit: 1_000, cursor });
    yield* page.items;
    cursor = page.nextCursor;
  } while (cursor !== undefined);
}

/** Sums the audit by action: how many records, and how many instances they count. */
async function sumAudit(client: Client) {
  const sums: Record<string, { records: number; instances: number }> = {};
  let cursor: string | undefined;
  do {
    const page = await client.listAudit({ limit: 1_000, cursor });
    for (const { action, instances } of page.items) {
      const sum = (sums[action] ??= { records: 0, instances: 0 });
      sum.records += 1;
      sum.instances += instances;
    }
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return sums;
}

async function createStore(kind: 'SQLite' | 'PostgreSQL', folder: string): Promise<string> {
  if (kind === 'SQLite') return join(folder, 'operators.db');
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  return database.url;
}

// `npm run crash:operators` runs it with 10,000 instances, which takes minutes.
const given = Number(process.env['PERDURE_OPERATORS_INSTANCES']);
const isLong = process.env['MODE'] === 'operators';
const size = given > 0 ? given : isLong ? 10_000 : undefined;
const timeoutMs = size === undefined ? 300_000 : 1_800_000;

test.each([
  ['SQLite', size ?? 200],
  ['PostgreSQL', size ?? 120],
] as const)(
  'pauses, retries and cancels lose and repeat nothing while processes are killed (%s, %d instances)',
  async (kind, count) => {
    const folder = await mkdtemp(join(tmpdir(), 'perdure-operators-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const store = await createStore(kind, folder);
    const perdure = await Perdure.open(store);
    onTestFinished(() => perdure.close());
    const { client } = perdure;
    const programs = new Programs(store, folder);
    const countOf = async (status: 'failed' | 'canceled') =>
      (await client.systemMetrics()).instances[status];
    const waitFor = async (read: () => number | Promise<number>, least: number) => {
      await expect
        .poll(read, { timeout: timeoutMs / 2, interval: 250 })
        .toBeGreaterThanOrEqual(least);
    };
    /** Runs an operator and kills it after a part. Returns its last known progress. */
    const runKilledBulk = async (role: BulkRole): Promise<BulkProgress> => {
      const operator = programs.run(role);
      const progress = (await programs.nextMessage(operator)) as BulkProgress;
      await programs.kill(operator);
      return progress;
    };
    /** Continues a bulk operation. Without a cursor, the operator had finished before it was killed. */
    const finishBulk = async (role: BulkRole, progress: Reached, limit?: number) =>
      progress.cursor === undefined
        ? progress
        : runBulk(client, role, { cursor: progress.cursor, limit });
    const start = (id: string) => client.start('ships', undefined, { id });
    const ids = Array.from({ length: count }, (_, index) => `i${index}`);
    const half = count / 2;

    // Pause by definition: workers die with claims, and the next worker starts none of their work.
    const first = await programs.startWorkers('faulty', 2);
    await forEach(ids.slice(0, half), start);
    await waitFor(() => countOf('failed'), count / 10);
    for (const name of ['ships', 'ship']) await client.pause({ name }, { actor });
    for (const program of first) await programs.kill(program);
    const paused = await programs.startWorker('faulty');
    await forEach(ids.slice(half), start);
    await delay(500);
    expect(programs.begins([paused])).toEqual([]);
    expect(await countOf('failed')).toBeLessThanOrEqual(half);
    for (const name of ['ships', 'ship']) await client.resume({ name }, { actor });
    await waitFor(() => programs.begins([paused]).length, count / 10);
    await programs.kill(paused);
    const last = await programs.startWorker('faulty');
    await waitFor(() => countOf('failed'), count);
    await programs.kill(last);

    // Retry by filter: the operator dies, and another one continues while the activity is paused.
    const fixed = await programs.startWorkers('fixed', 2);
    const begun = await runKilledBulk('retry');
    await client.pause({ name: 'ship', kind: 'activity' }, { actor });
    for (const program of fixed.slice(0, 1)) await programs.kill(program);
    // Claims from before the pause may still begin.
    let runsBefore = -1;
    while (runsBefore !== programs.begins().length) {
      runsBefore = programs.begins().length;
      await delay(300);
    }
    const continued = await finishBulk('retry', begun, Math.ceil(count / 3));
    expect(programs.begins()).toHaveLength(runsBefore);
    await client.resume({ name: 'ship', kind: 'activity' }, { actor });
    fixed.push(await programs.startWorker('fixed'));
    const retried = await finishBulk('retry', continued);
    expect(retried).toMatchObject({ matched: count, changed: count });
    expect(await listIds(client, 'failed')).toEqual([]);
    const shipped = () => new Set(programs.begins(fixed).map(({ key }) => key)).size;
    await waitFor(shipped, count);

    // Pause and resume by filter: both operators die.
    const pausedByFilter = await finishBulk('pause', await runKilledBulk('pause'));
    expect(pausedByFilter).toMatchObject({ matched: count, changed: count });
    expect(await client.count({ name: 'ships', paused: true }, { cap: 2 * count })).toMatchObject({
      count,
    });
    const resumed = await finishBulk('resume', await runKilledBulk('resume'));
    expect(resumed).toMatchObject({ changed: count });

    // Cancel by filter: the operator and a worker die while new instances start.
    const progress = await runKilledBulk('cancel');
    for (const program of fixed.slice(1, 2)) await programs.kill(program);
    const late = Array.from({ length: count / 20 }, (_, index) => `late${index}`);
    const [canceled] = await Promise.all([
      finishBulk('cancel', progress),
      forEach(late, start),
      programs.startWorker('fixed'),
    ]);
    expect(canceled.changed).toBe(count);
    await waitFor(() => countOf('canceled'), count);
    await waitFor(
      () => new Set(programs.begins().map(({ key }) => key)).size,
      2 * count + late.length,
    );

    // Nothing is lost: each instance failed once, shipped once, and was canceled. Late ones were not touched.
    expect((await client.systemMetrics()).instances).toMatchObject({
      failed: 0,
      canceled: count,
      running: late.length,
      pending: 0,
    });
    expect((await listIds(client, 'running')).toSorted()).toEqual(late.toSorted());
    for (const id of [ids[0], ids[half], ids[count - 1]]) {
      const { items } = await client.listExecutions(id ?? '');
      expect(items.map(({ status }) => status).toSorted()).toEqual(['canceled', 'failed']);
    }
    // Nothing runs twice without a kill.
    const runs = Map.groupBy(programs.begins(), ({ key }) => key);
    expect(runs.size).toBe(2 * count + late.length);
    const repeated = [...runs.values()].filter((some) =>
      some.slice(0, -1).some(({ by }) => !by.isKilled),
    );
    expect(repeated).toEqual([]);
    // The audit is exact.
    expect(await sumAudit(client)).toEqual({
      pause: { records: 3, instances: 0 },
      resume: { records: 3, instances: 0 },
      retryBulk: { records: 1, instances: count },
      pauseBulk: { records: 1, instances: count },
      resumeBulk: { records: 1, instances: count },
      cancelBulk: { records: 1, instances: count },
    });
  },
  timeoutMs,
);
