import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { Perdure } from '../../../src/index.ts';
import { createDatabase, querySql, runSql } from '../../postgres/helpers/server.ts';
import { startTcpProxy } from '../../postgres/helpers/tcp-proxy.ts';
import type { TransfersOptions } from '../programs/transfers-program.ts';
import { bundleProgram } from './bundle-program.ts';
import { createTransfers, type Transfer } from './transfer-definitions.ts';

const accounts = 10;
const startBalance = 1_000;

/** Reads and writes the tables of the application, outside of Perdure. */
interface Bank {
  /** What the workers open. */
  readonly store: string;
  /** What the harness opens. */
  readonly directStore: string;
  run(sql: string): Promise<void>;
  read<Row extends object>(sql: string): Promise<readonly Row[]>;
  /** Cuts connections of the workers. Returns how many waited for a response. */
  cut?(): number;
  close(): Promise<void>;
}

export interface TransferLoopOptions {
  readonly kind: 'SQLite' | 'PostgreSQL';
  readonly kills: number;
  /** If false, the ack is not in the transaction of the writes. */
  readonly together?: boolean;
  readonly workers?: number;
  readonly onProgress?: (text: string) => void;
}

export interface TransferReport {
  readonly kills: number;
  /** Connections that were cut while a response was pending. PostgreSQL only. */
  readonly cutAnswers: number;
  readonly transfers: number;
  readonly seconds: number;
  readonly violations: readonly string[];
}

/** Transfers between accounts while the workers are killed and their connections are cut. */
export async function runTransferLoop(options: TransferLoopOptions): Promise<TransferReport> {
  const { kind, kills, together = true, workers = 3, onProgress } = options;
  const startedAt = performance.now();
  const folder = await mkdtemp(join(tmpdir(), 'perdure-transfers-'));
  const bank = kind === 'SQLite' ? await createFile(folder) : await createServerBank();
  const program = await bundleProgram('transfers-program.ts', folder);
  const children = new Set<ChildProcess>();
  let isEnding = false;
  let killed = 0;
  let cutAnswers = 0;
  let failed: string | undefined;

  const start = (dies: boolean): void => {
    const argument: TransfersOptions = { store: bank.store, leaseMs: 1_000, dies, together };
    const child = spawn(process.execPath, [program, JSON.stringify(argument)], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: {
        ...process.env,
        NODE_COMPILE_CACHE: join(folder, 'cache'),
        NODE_NO_WARNINGS: '1',
      },
    });
    children.add(child);
    child.once('exit', (code, signal) => {
      children.delete(child);
      if (isEnding) return;
      if (signal !== 'SIGKILL') {
        failed = `A worker exited with ${code}.`;
        return;
      }
      killed += 1;
      // The last workers finish what is left.
      start(killed + workers <= kills);
    });
  };

  try {
    await bank.run('CREATE TABLE accounts (account int PRIMARY KEY, balance int NOT NULL)');
    await bank.run(
      'CREATE TABLE transfers (run text NOT NULL, from_account int, to_account int, amount int)',
    );
    for (let account = 0; account < accounts; account += 1) {
      await bank.run(`INSERT INTO accounts VALUES (${account}, ${startBalance})`);
    }
    await using perdure = await Perdure.open(bank.directStore);
    const { client } = perdure;
    const { transferTask, transfers, transferSteps } = createTransfers();
    const expected: Transfer[] = [];
    const unfinished = new Set<Promise<unknown>>();
    const follow = (handle: { result(): Promise<unknown> }): void => {
      const ended = handle.result().finally(() => unfinished.delete(ended));
      ended.catch(() => undefined);
      unfinished.add(ended);
    };
    let runs = 0;
    const submit = async (): Promise<void> => {
      const id = `run${(runs += 1)}`;
      const from = Math.floor(Math.random() * accounts);
      const to = (from + 1 + Math.floor(Math.random() * (accounts - 1))) % accounts;
      const input = { id, from, to, amount: 1 + Math.floor(Math.random() * 50) };
      if (runs % 3 === 0) {
        expected.push(input);
        follow(await client.runTask(transferTask, input, { id }));
        return;
      }
      const back = { ...input, id: `${id}-2`, from: to, to: from };
      expected.push({ ...input, id: `${id}-1` }, back);
      // The variant with a separate ack has no turns of steps.
      const inSteps = together && runs % 3 === 1;
      follow(await client.start(inSteps ? transferSteps : transfers, input, { id }));
    };
    for (let index = 0; index < workers; index += 1) start(workers - index <= kills);
    const isDone = (): boolean => killed >= kills;
    let nextCutAt = performance.now() + 300;
    while (!isDone()) {
      while (unfinished.size < 40 && !isDone()) await submit();
      if (together && bank.cut !== undefined && performance.now() > nextCutAt) {
        cutAnswers += bank.cut();
        nextCutAt = performance.now() + 500 + Math.random() * 1_000;
      }
      if (failed !== undefined) throw new Error(failed);
      onProgress?.(`${killed} kills, ${expected.length} transfers`);
      await delay(20);
    }
    while (unfinished.size > 0) {
      if (failed !== undefined) throw new Error(failed);
      await Promise.race([...unfinished, delay(500)]);
    }
    const violations = await verify(bank, expected);
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    return { kills: killed, cutAnswers, transfers: expected.length, seconds, violations };
  } finally {
    isEnding = true;
    for (const child of children) {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    }
    await bank.close();
    await rm(folder, { recursive: true, force: true });
  }
}

async function verify(bank: Bank, expected: readonly Transfer[]): Promise<readonly string[]> {
  const violations: string[] = [];
  const made = await bank.read<{ run: string; times: number | string }>(
    'SELECT run, count(*) AS times FROM transfers GROUP BY run',
  );
  const times = new Map(made.map((row) => [row.run, Number(row.times)]));
  for (const { id } of expected) {
    const count = times.get(id) ?? 0;
    if (count !== 1) violations.push(`Transfer ${id} was made ${count} times.`);
    times.delete(id);
  }
  for (const run of times.keys()) violations.push(`Transfer ${run} was not asked for.`);
  const wanted = Array.from({ length: accounts }, () => startBalance);
  for (const { from, to, amount } of expected) {
    wanted[from] = (wanted[from] ?? 0) - amount;
    wanted[to] = (wanted[to] ?? 0) + amount;
  }
  const balances = await bank.read<{ account: number; balance: number }>(
    'SELECT account, balance FROM accounts ORDER BY account',
  );
  for (const { account, balance } of balances) {
    if (balance === wanted[account]) continue;
    violations.push(`Account ${account} has ${balance} instead of ${wanted[account]}.`);
  }
  const sum = balances.reduce((total, { balance }) => total + balance, 0);
  if (sum !== accounts * startBalance) violations.push(`The balances sum up to ${sum}.`);
  return violations;
}

async function createFile(folder: string): Promise<Bank> {
  const store = join(folder, 'bank.db');
  await (await Perdure.open(store)).close();
  const db = new Database(store, { timeout: 10_000 });
  return {
    store,
    directStore: store,
    run: async (sql) => void db.exec(sql),
    read: async <Row extends object>(sql: string) => db.prepare<[], Row>(sql).all(),
    close: async () => void db.close(),
  };
}

async function createServerBank(): Promise<Bank> {
  const database = await createDatabase();
  await (await Perdure.open(database.url)).close();
  const proxy = await startTcpProxy(database.url);
  // The response to some COMMITs is lost, so that their outcome is unknown to the worker.
  proxy.intercept((bytes) =>
    Math.random() < 0.02 && bytes.includes('COMMIT\0') ? 'cutAnswer' : 'pass',
  );
  return {
    store: proxy.url,
    directStore: database.url,
    run: (sql) => runSql(database.url, sql),
    read: <Row extends object>(sql: string) => querySql<Row>(database.url, sql),
    cut: () => proxy.cut(),
    async close() {
      await proxy.close();
      await database.drop();
    },
  };
}
