import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, type TestContext } from 'vitest';
import { Perdure } from '../../src/index.ts';
import { createMigratedDatabase } from '../postgres/helpers/migrated-database.ts';
import { startTcpProxy, type TcpProxy } from '../postgres/helpers/tcp-proxy.ts';
import {
  intervalsOf,
  mostAtOnce,
  mostAtOncePerKey,
  mostWithin,
  mostWithinPerKey,
  spansOf,
  type ProcessLedger,
} from './oracles/limit-ledger.ts';
import { strict, type LedgerLine } from './programs/limit-definitions.ts';

// `npm run crash:limits` sets the full size.
const isFullSize = process.env['MODE'] === 'limits';
const runs = isFullSize ? Number(process.env['PERDURE_LIMITS_RUNS'] ?? 50_000) : 400;
const keys = isFullSize ? 1_000 : 20;
const kills = isFullSize ? 60 : 2;
const workers = isFullSize ? 4 : 2;
const program = new URL('./programs/limit-worker-program.ts', import.meta.url);
const groups = ['shared', 'keyed', 'rated', 'mixed', 'instances'] as const;

interface Target {
  readonly store: string;
  /** Between the workers and PostgreSQL. */
  readonly proxy?: TcpProxy;
  readonly folder: string;
}

async function createTarget(kind: string, context: TestContext): Promise<Target> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-limits-'));
  context.onTestFinished(() => rm(folder, { recursive: true, force: true }));
  if (kind === 'SQLite') return { store: join(folder, 'store.db'), folder };
  const database = await createMigratedDatabase();
  context.onTestFinished(() => database.drop());
  const proxy = await startTcpProxy(database.url);
  context.onTestFinished(() => proxy.close());
  return { store: database.url, proxy, folder };
}

/** The workers of a run, with the ledgers that they write. */
class Fleet {
  readonly #target: Target;
  readonly #figures: 'strict' | 'loose';
  readonly #ledgers: { readonly path: string; killedAt?: number }[] = [];
  readonly #workers: { readonly process: ChildProcess; readonly ledger: { killedAt?: number } }[] =
    [];

  constructor(target: Target, figures: 'strict' | 'loose') {
    this.#target = target;
    this.#figures = figures;
  }

  async add(): Promise<void> {
    const ledger: { readonly path: string; killedAt?: number } = {
      path: join(this.#target.folder, `ledger-${this.#ledgers.length}`),
    };
    this.#ledgers.push(ledger);
    const store = this.#target.proxy?.url ?? this.#target.store;
    const process = fork(program, [store, ledger.path, this.#figures]);
    this.#workers.push({ process, ledger });
    await once(process, 'message');
  }

  /** Kills the worker that was started first. */
  async killOldest(): Promise<void> {
    const worker = this.#workers.shift();
    if (worker === undefined) return;
    const exited = once(worker.process, 'exit');
    worker.ledger.killedAt = Number(process.hrtime.bigint() / 1_000n) / 1_000;
    worker.process.kill('SIGKILL');
    await exited;
  }

  async killAll(): Promise<void> {
    while (this.#workers.length > 0) await this.killOldest();
  }

  async read(): Promise<readonly ProcessLedger[]> {
    return Promise.all(
      this.#ledgers.map(async ({ path, killedAt }) => {
        const text = await readFile(path, 'utf8').catch(() => '');
        // A kill can cut the last line.
        const complete = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
        const lines = complete.filter((line) => line !== '');
        return {
          lines: lines.map((line) => JSON.parse(line) as LedgerLine),
          ...(killedAt !== undefined && { killedAt }),
        };
      }),
    );
  }
}

/** Starts the runs, kills workers and cuts connections until all runs have ended. Returns the ledgers. */
async function runAll(
  target: Target,
  context: TestContext,
  figures: 'strict' | 'loose',
): Promise<readonly ProcessLedger[]> {
  const perdure = await Perdure.open(target.store);
  context.onTestFinished(() => perdure.close());
  const { client } = perdure;
  const fleet = new Fleet(target, figures);
  context.onTestFinished(() => fleet.killAll());
  // Before the runs: the workers declare the limits.
  for (let count = 0; count < workers; count += 1) await fleet.add();
  const start = async (count: number): Promise<void> => {
    for (let first = 0; first < count; first += 200) {
      await Promise.all(
        Array.from({ length: Math.min(200, count - first) }, (_, index) => {
          const group = groups[(first + index) % groups.length] ?? 'shared';
          // Some keys have many runs, most have few.
          const key = `key-${Math.floor(keys * Math.random() ** 2)}`;
          return group === 'instances'
            ? client.start(group, { key }, { key })
            : client.runTask(group, { key }, { key });
        }),
      );
    }
  };
  // Half of the runs are a backlog. A part of the others begins with each kill, so that no kill finds idle workers.
  const perKill = Math.floor(runs / 2 / kills);
  let started = start(runs - kills * perKill);
  for (let count = 0; count < kills; count += 1) {
    started = started.then(() => start(perKill));
    await delay(Math.random() * 500);
    if (count % 3 === 2) target.proxy?.cut();
    await fleet.killOldest();
    await fleet.add();
  }
  await started;
  const deadline = Date.now() + 900_000;
  for (;;) {
    const open = await client.count({ status: ['pending', 'running', 'canceling'] });
    if (open.count === 0) break;
    expect(Date.now(), `${open.count} runs have not ended`).toBeLessThan(deadline);
    await delay(200);
  }
  const completed = await client.count({ status: ['completed'] }, { cap: 100_000 });
  expect(completed.count).toBe(runs);
  const records = await client.limits.list();
  expect(records.items.map(({ running, waiting }) => [running, waiting])).toEqual(
    groups.map(() => [0, 0]),
  );
  await fleet.killAll();
  return fleet.read();
}

interface Seen {
  /** Handlers that ran when their process was killed. */
  readonly killed: number;
  readonly shared: number;
  readonly keyed: number;
  readonly mixed: number;
  readonly mixedPerKey: number;
  /** The most claims of one key in a second of the store's clock. */
  readonly mixedRate: number;
  /** The most claims in a second of the store's clock. */
  readonly rated: number;
  /** The most begins of handlers in 30 s of the machine's clock. */
  readonly ratedIn30s: number;
  readonly instances: number;
  readonly instancesPerKey: number;
}

function measure(ledgers: readonly ProcessLedger[]): Seen {
  const intervals = Map.groupBy(ledgers.flatMap(intervalsOf), ({ group }) => group);
  const of = (group: string) => intervals.get(group) ?? [];
  const lines = ledgers.flatMap((ledger) => ledger.lines);
  const claims = lines.filter(({ what }) => what === 'claim');
  const claimsOf = (group: string) => claims.filter((line) => line.group === group);
  const spans = spansOf(lines.filter(({ group }) => group === 'instances'));
  // Otherwise a rate would hold because its claims are not in the ledger.
  const claimed = new Set(claims.map(({ run }) => run));
  expect([...of('rated'), ...of('mixed')].filter(({ run }) => !claimed.has(run))).toEqual([]);
  const killTimes = new Set(ledgers.flatMap(({ killedAt }) => killedAt ?? []));
  return {
    killed: [...intervals.values()].flat().filter(({ to }) => killTimes.has(to)).length,
    shared: mostAtOnce(of('shared')),
    keyed: mostAtOncePerKey(of('keyed')),
    mixed: mostAtOnce(of('mixed')),
    mixedPerKey: mostAtOncePerKey(of('mixed')),
    mixedRate: mostWithinPerKey(claimsOf('mixed'), 1_000),
    rated: mostWithin(
      claimsOf('rated').map(({ at }) => at),
      1_000,
    ),
    ratedIn30s: mostWithin(
      of('rated').map(({ from }) => from),
      30_000,
    ),
    instances: mostAtOnce(spans),
    instancesPerKey: mostAtOncePerKey(spans),
  };
}

describe.each(['SQLite', 'PostgreSQL'])('limits while workers are killed (%s)', (kind) => {
  it('no limit is exceeded, no place is lost, and all runs complete', async (context) => {
    const ledgers = await runAll(await createTarget(kind, context), context, 'strict');
    const seen = measure(ledgers);
    const figures = JSON.stringify({ runs, keys, kills, workers, seen });
    if (isFullSize) process.stderr.write(`${kind} ${figures}\n`);
    expect(seen.shared).toBeLessThanOrEqual(strict.shared);
    expect(seen.keyed).toBeLessThanOrEqual(strict.perKey);
    expect(seen.mixed).toBeLessThanOrEqual(strict.shared);
    expect(seen.mixedPerKey).toBeLessThanOrEqual(strict.perKey);
    expect(seen.mixedRate).toBeLessThanOrEqual(strict.keyRate + strict.keyBurst);
    expect(seen.instances).toBeLessThanOrEqual(strict.instances);
    expect(seen.instancesPerKey).toBeLessThanOrEqual(strict.instancesPerKey);
    expect(seen.rated).toBeLessThanOrEqual(strict.rate + strict.burst);
    // A handler begins at most a lease of 2 s after its claim.
    expect(seen.ratedIn30s).toBeLessThanOrEqual(strict.rate * 32 + strict.burst);
    // Kills ended handlers and the limits were reached, so the run tests them.
    if (isFullSize) expect(seen.killed).toBeGreaterThan(kills);
    expect(seen.shared).toBe(strict.shared);
    expect(seen.keyed).toBe(strict.perKey);
    expect(seen.instances).toBe(strict.instances);
    expect(seen.mixedRate).toBeGreaterThanOrEqual(strict.keyRate);
  }, 1_200_000);
});

describe.each(['SQLite', 'PostgreSQL'])('looser limits while workers are killed (%s)', (kind) => {
  it('the check finds each limit that is exceeded', async (context) => {
    const ledgers = await runAll(await createTarget(kind, context), context, 'loose');
    const seen = measure(ledgers);
    expect(seen.shared).toBeGreaterThan(strict.shared);
    expect(seen.keyed).toBeGreaterThan(strict.perKey);
    expect(seen.mixed).toBeGreaterThan(strict.shared);
    expect(seen.mixedPerKey).toBeGreaterThan(strict.perKey);
    expect(seen.mixedRate).toBeGreaterThan(strict.keyRate + strict.keyBurst);
    expect(seen.rated).toBeGreaterThan(strict.rate + strict.burst);
    expect(seen.instances).toBeGreaterThan(strict.instances);
    expect(seen.instancesPerKey).toBeGreaterThan(strict.instancesPerKey);
  }, 1_200_000);
});
