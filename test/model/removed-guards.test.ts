import Database from 'better-sqlite3';
import { afterAll, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { SqliteFiles } from '../conformance/sqlite-files.ts';
import { checkModel } from './helpers/check-model.ts';
import { modelRuns } from './helpers/model-runs.ts';
import { removedGuards, type RemovedGuard } from './helpers/removed-guards.ts';

const files = new SqliteFiles();
afterAll(() => files.remove());

/** Opens an intact store and removes one guard. */
async function openWithout({ override }: RemovedGuard, clock: Clock): Promise<Provider> {
  const provider = await files.create({ clock });
  const db = new Database(files.pathOf(provider));
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
        profile: 'races',
        runs: modelRuns,
        openStore: (clock) => openWithout(guard, clock),
        asFound: true,
      });
      expect(report.failure).toMatch(guard.finding);
    },
    120_000,
  );
});
