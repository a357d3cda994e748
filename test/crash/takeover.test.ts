import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi, type TestContext } from 'vitest';
import { activity, orchestration, Perdure } from '../../src/index.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { hostProcesses } from '../../src/runtime/leases/host-processes.ts';
import { createMigratedDatabase } from '../postgres/helpers/migrated-database.ts';
import { openStore } from './helpers/open-store.ts';

const program = new URL('./programs/held-work-program.ts', import.meta.url);
const host = hostProcesses();
/** The leases are 30 s and 10 s, so a takeover must not depend on them. The limit allows for a slow machine. */
const takeoverMs = 8_000;

type StoreKind = 'SQLite' | 'PostgreSQL';

/** The store of one test, and what the test opens on it. All of it is closed after the test. */
class Host {
  readonly #store: string;
  readonly #context: TestContext;

  private constructor(store: string, context: TestContext) {
    this.#store = store;
    this.#context = context;
  }

  static async create(kind: StoreKind, context: TestContext): Promise<Host> {
    if (kind === 'PostgreSQL') {
      const database = await createMigratedDatabase();
      context.onTestFinished(() => database.drop());
      return new Host(database.url, context);
    }
    const folder = await mkdtemp(join(tmpdir(), 'perdure-takeover-'));
    context.onTestFinished(() => rm(folder, { recursive: true, force: true }));
    return new Host(join(folder, 'store.db'), context);
  }

  async open(): Promise<Perdure> {
    const perdure = await Perdure.open(this.#store);
    this.#context.onTestFinished(() => perdure.close());
    return perdure;
  }

  async openProvider(): Promise<Provider> {
    const provider = await openStore(this.#store);
    this.#context.onTestFinished(() => provider.close());
    return provider;
  }

  /** Starts a worker process. `running` is the label of the first work that it runs. */
  startProcess(slots = 100): { child: ChildProcess; running: Promise<string> } {
    const child = fork(program, [this.#store, String(slots)]);
    this.#context.onTestFinished(() => kill(child));
    const running = once(child, 'message').then(
      ([report]) => (report as { readonly running: string }).running,
    );
    return { child, running };
  }
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** Runs the work of the killed process in this process. */
const waits = orchestration('waits', (ctx, label: string) => ctx.call(holds, label));
const holds = activity('holds', async (_ctx, label: string) => label);
const definitions = { orchestrations: [waits], activities: [holds] };

// These tests wait for processes and checks, so they run concurrently.
describe.each(['SQLite', 'PostgreSQL'] as const)(
  'takeover on one host (%s)',
  { concurrent: true, skip: host === undefined },
  (kind) => {
    it('a new worker takes over the claims of a killed process before their leases expire', async (context) => {
      const machine = await Host.create(kind, context);
      const client = await machine.open();
      const { child, running } = machine.startProcess();
      const handle = await client.client.start(waits, 'a');
      expect(await running).toBe('a');
      await kill(child);
      const worker = await machine.open();
      const begun = performance.now();
      await worker.startWorker(definitions);
      expect(await handle.result({ timeout: '25s' })).toBe('a');
      expect(performance.now() - begun).toBeLessThan(takeoverMs);
    });

    it('a running worker takes over the claims of a killed process only', async (context) => {
      const machine = await Host.create(kind, context);
      const living = machine.startProcess(2);
      let reports = 0;
      living.child.on('message', () => (reports += 1));
      const { client } = await machine.open();
      await client.start(waits, 'living', { id: 'living' });
      expect(await living.running).toBe('living');
      await client.start(waits, 'filler', { id: 'filler' });
      await vi.waitUntil(() => reports === 2, { timeout: 25_000, interval: 20 });
      // The living process has no free slot, so the other one runs this.
      const dying = machine.startProcess();
      await client.start(waits, 'dying', { id: 'dying' });
      expect(await dying.running).toBe('dying');
      await client.cancel('filler', { wait: true });
      const provider = await machine.openProvider();
      const others = () => provider.listProcesses(host?.hostId ?? '');
      expect(await others()).toHaveLength(2);
      await kill(dying.child);
      const killed = performance.now();
      await vi.waitUntil(() => reports === 3, { timeout: 25_000, interval: 20 });
      expect(performance.now() - killed).toBeLessThan(takeoverMs + 10_000);
      // The entry of the process is deleted after its claims have ended.
      await context.expect
        .poll(others, { timeout: 10_000 })
        .toMatchObject([{ pid: living.child.pid }]);
      const { items } = await client.list({ status: 'running' });
      expect(items.map(({ id }) => id).toSorted()).toEqual(['dying', 'living']);
      expect(reports).toBe(3);
    }, 60_000);

    it('a running worker claims the work of a killed process within 2 s (median of 5 kills)', async (context) => {
      const machine = await Host.create(kind, context);
      const { client } = await machine.open();
      const claimedAt = new Map<string, number>();
      const survivor = activity('holds', async (_ctx, label: string) => {
        claimedAt.set(label, performance.now());
        return label;
      });
      const delays: number[] = [];
      for (let n = 0; n < 5; n++) {
        const { child, running } = machine.startProcess();
        const label = `kill-${n}`;
        const handle = await client.start(waits, label);
        expect(await running).toBe(label);
        const perdure = await machine.open();
        await perdure.startWorker({ orchestrations: [waits], activities: [survivor] });
        const isListed = async () =>
          (await client.workers()).filter(({ status }) => status === 'live').length === 2;
        await vi.waitUntil(isListed, { timeout: 10_000 });
        // Spreads the kills over the period of the checks.
        await delay(1_000 + n * 200);
        const killed = performance.now();
        await kill(child);
        expect(await handle.result({ timeout: '25s' })).toBe(label);
        delays.push((claimedAt.get(label) ?? Infinity) - killed);
        await perdure.close();
      }
      const median = delays.toSorted((a, b) => a - b)[2];
      expect(median).toBeLessThan(2_000);
    }, 120_000);

    it.for([
      ['with a recycled pid', 'taken over', { startTime: '1' }],
      ['that is alive', 'not taken over', {}],
      ['of another boot or container', 'not taken over', { hostId: 'elsewhere', startTime: '1' }],
    ] as const)('claims of a process %s are %s', async ([, fate, parts], context) => {
      const isTakenOver = fate === 'taken over';
      const machine = await Host.create(kind, context);
      const claimer = await machine.openProvider();
      const { hostId, self } = host ?? { hostId: '', self: { pid: 0, startTime: '' } };
      await claimer.registerProcess({ hostId, ...self, leaseMs: 60_000, ...parts });
      const perdure = await machine.open();
      const handle = await perdure.client.start(waits, 'a');
      const claimed = await claimer.fetchOrchestrationItems({
        max: 1,
        lockMs: 60_000,
        waitMs: 5_000,
      });
      expect(claimed).toHaveLength(1);
      await perdure.startWorker(definitions);
      const result = handle.result({ timeout: isTakenOver ? '25s' : '3s' });
      if (isTakenOver) expect(await result).toBe('a');
      else {
        await expect(result).rejects.toMatchObject({ code: 'TIMEOUT' });
        const lockTokens = claimed.map(({ lockToken }) => lockToken);
        expect(await claimer.renewOrchestrationLocks(lockTokens, 60_000)).toEqual([true]);
      }
    });
  },
);
