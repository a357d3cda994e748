import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { checkModel } from './helpers/check-model.ts';
import { modelRuns } from './helpers/model-runs.ts';
import { removedGuards, type RemovedGuard } from './helpers/removed-guards.ts';

const directory = mkdtempSync(join(tmpdir(), 'perdure-guards-'));
let count = 0;
afterAll(() => rmSync(directory, { recursive: true, force: true }));

// A removed guard is found under the violation of the first scenario that reaches it, so the scenarios are fixed.
const defaultSeed = 1;
// The overrides write on a connection of their own. Polling would turn that into hints at times that depend on the load.
const noPollMs = 2 ** 31 - 1;

/** Opens an intact store and removes one guard. */
async function openWithout(
  { override }: RemovedGuard,
  clock: Clock,
  given: string,
): Promise<Provider> {
  // The second connection needs a file.
  const path = given === ':memory:' ? join(directory, `${++count}.db`) : given;
  const provider = await openSqlite({ path, clock, synchronous: 'normal', pollMs: noPollMs });
  const db = new Database(path);
  return {
    ...provider,
    ...override({ provider, db, clock }),
    async close() {
      await provider.close();
      db.close();
    },
  };
}

describe('the model check detects a store in which', () => {
  it.each(removedGuards)(
    '$fault',
    async (guard) => {
      const report = await checkModel({
        profile: guard.profile ?? 'races',
        runs: modelRuns,
        seed: guard.seed ?? defaultSeed,
        openStore: (clock, path) => openWithout(guard, clock, path),
        asFound: true,
      });
      expect(report.failure).toMatch(guard.finding);
    },
    120_000,
  );
});
