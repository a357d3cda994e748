import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, task, type Provider } from '../../src/index.ts';
import { openPostgres } from '../../src/providers/postgres/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { createMigratedDatabase } from '../postgres/helpers/migrated-database.ts';
import { makeGate, type Gate } from './gate.ts';

// `npm run test:fairness` sets the full size.
const isFullSize = process.env['MODE'] === 'fairness';
const queued = isFullSize ? 100_000 : 2_000;
const perRequest = Math.min(queued, 5_000);
const timeout = 600_000;

/** Prints what a test measured. */
function report(figures: object): void {
  if (isFullSize) process.stderr.write(`${JSON.stringify(figures)}\n`);
}

async function createStore(kind: string): Promise<string> {
  if (kind === 'SQLite') {
    const folder = await mkdtemp(join(tmpdir(), 'perdure-fairness-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    return join(folder, 'store.db');
  }
  const database = await createMigratedDatabase();
  onTestFinished(() => database.drop());
  return database.url;
}

async function openProvider(store: string): Promise<Provider> {
  const provider = store.startsWith('postgres')
    ? await openPostgres({ url: store })
    : await openSqlite({ path: store });
  onTestFinished(() => provider.close());
  return provider;
}

/** A task whose runs end one by one, in the order of their starts. */
function makeGatedTask(limits: { readonly concurrency?: { readonly global: number } }) {
  const starts: string[] = [];
  const gates: Gate[] = [];
  const gated = task(
    'gated',
    async (_ctx, key: string) => {
      const gate = makeGate();
      starts.push(key);
      gates.push(gate);
      await gate.opened;
    },
    limits,
  );
  return {
    gated,
    starts,
    endNext: () => gates.shift()?.open(),
    endAll: () => {
      for (const gate of gates.splice(0)) gate.open();
    },
  };
}

describe.each(['SQLite', 'PostgreSQL'])('fairness on %s', (kind) => {
  const places = 10;

  it.each([
    ['a global limit', { concurrency: { global: places } }, 50, 'b'],
    ['a global limit, a key before the others', { concurrency: { global: places } }, 50, '0'],
    ['keys and no limit', {}, places, 'b'],
  ] as const)(
    `a run of another key starts among the next places + 1, with ${queued} queued (%s)`,
    async (title, limits, activityConcurrency, other) => {
      const perdure = await Perdure.open(await createStore(kind));
      onTestFinished(() => perdure.close());
      const { gated, starts, endNext, endAll } = makeGatedTask(limits);
      for (let done = 0; done < queued; done += perRequest) {
        await perdure.client.runTasks(
          Array.from({ length: perRequest }, () => ({
            task: gated,
            input: 'a',
            options: { key: 'a' },
          })),
        );
      }
      const worker = await perdure.startWorker({ tasks: [gated], activityConcurrency });
      onTestFinished(async () => {
        const stopped = worker.stop();
        endAll();
        await stopped;
      });
      await expect.poll(() => starts.length).toBe(places);
      await perdure.client.runTask(gated, other, { key: other });
      for (let ended = 1; !starts.includes(other) && ended <= places + 1; ended += 1) {
        endNext();
        await expect.poll(() => starts.length, { interval: 2 }).toBe(places + ended);
      }
      const passedBy = starts.indexOf(other) - places;
      report({ kind, title, queued, places, passedBy });
      expect(passedBy).toBeGreaterThanOrEqual(0);
      expect(passedBy).toBeLessThanOrEqual(places);
    },
    timeout,
  );

  it.each([1, 7, 50])(
    'keys with weights 3, 1 and 1 get their shares within 5 percent, claimed by two workers in fetches of %d',
    async (max) => {
      const store = await createStore(kind);
      const [first, second] = [await openProvider(store), await openProvider(store)];
      const weights = { a: 3, b: 1, c: 1 };
      const claims = 350;
      await first.declareLimits({
        buildId: 'build',
        definitions: [{ kind: 'task', name: 'task', limits: { global: 100 } }],
      });
      for (const [key, weight] of Object.entries(weights)) {
        const tasks = Array.from({ length: claims }, (_, n) =>
          newTask(`${key}${n}`, { lane: { key, weight } }),
        );
        await first.createTasks(tasks);
      }
      const counts: Record<string, number> = { a: 0, b: 0, c: 0 };
      for (let done = 0, turn = 0; done < claims; turn += 1) {
        const provider = turn % 2 === 0 ? first : second;
        const items = await provider.fetchWorkItems({ max, lockMs: 60_000, waitMs: 0 });
        expect(items).toHaveLength(max);
        done += items.length;
        for (const { instanceId } of items) {
          const key = instanceId.slice(0, 1);
          counts[key] = (counts[key] ?? 0) + 1;
        }
        const outcome = { kind: 'completed', payload: '1' } as const;
        await provider.ackWorkItems(items.map(({ lockToken }) => ({ lockToken, outcome })));
      }
      report({ kind, max, claims, counts });
      for (const [key, weight] of Object.entries(weights)) {
        const share = (counts[key] ?? 0) / claims / (weight / 5);
        expect(share, `${key}: ${JSON.stringify(counts)}`).toBeGreaterThanOrEqual(0.95);
        expect(share, `${key}: ${JSON.stringify(counts)}`).toBeLessThanOrEqual(1.05);
      }
    },
  );
});
