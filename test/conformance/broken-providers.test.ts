import assert from 'node:assert/strict';
import Database from 'better-sqlite3';
import { afterAll, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { conformanceCases } from '../../src/testing/conformance/conformance-cases.ts';
import { runCase } from '../../src/testing/conformance/run-case.ts';
import type { BrokenProvider } from './broken/broken-provider.ts';
import { brokenAudits } from './broken/audits.ts';
import { brokenClaims } from './broken/claims.ts';
import { brokenLists } from './broken/lists.ts';
import { brokenDeletions } from './broken/deletions.ts';
import { brokenFences } from './broken/fences.ts';
import { brokenMetrics } from './broken/metrics.ts';
import { brokenDeletedInstances } from './broken/deleted-instances.ts';
import { brokenInspection } from './broken/inspection.ts';
import { brokenInstances } from './broken/instances.ts';
import { brokenJobs } from './broken/jobs.ts';
import { brokenKeptClaims } from './broken/kept-claims.ts';
import { brokenLeases } from './broken/leases.ts';
import { brokenLimits } from './broken/limits.ts';
import { brokenOperatorAudits } from './broken/operator-audits.ts';
import { brokenPauses } from './broken/pauses.ts';
import { brokenPrunes } from './broken/prunes.ts';
import { brokenQueues } from './broken/queues.ts';
import { brokenReclaims } from './broken/reclaims.ts';
import { brokenReruns } from './broken/reruns.ts';
import { brokenUpdates } from './broken/updates.ts';
import { brokenScans } from './broken/scans.ts';
import { brokenSchedules } from './broken/schedules.ts';
import { brokenSeries } from './broken/series.ts';
import { brokenSessions } from './broken/sessions.ts';
import { brokenSignals } from './broken/signals.ts';
import { brokenStarting } from './broken/starting.ts';
import { brokenStartKeys } from './broken/start-keys.ts';
import { brokenBeginLimits } from './broken/begin-limits.ts';
import { brokenState } from './broken/state.ts';
import { brokenStops } from './broken/stops.ts';
import { brokenRecordedStreams } from './broken/recorded-streams.ts';
import { brokenStreams } from './broken/streams.ts';
import { brokenTakeovers } from './broken/takeovers.ts';
import { brokenTaskEnds } from './broken/task-ends.ts';
import { brokenTaskQueues } from './broken/task-queues.ts';
import { brokenTimerTurns } from './broken/timer-turns.ts';
import { brokenTransactions } from './broken/transactions.ts';
import { brokenTurnAcks } from './broken/turn-acks.ts';
import { brokenTurns } from './broken/turns.ts';
import { brokenUnclaimedWork } from './broken/unclaimed-work.ts';
import { brokenViews } from './broken/views.ts';
import { brokenWork } from './broken/work.ts';
import { brokenWorkers } from './broken/workers.ts';
import { SqliteFiles } from './sqlite-files.ts';

const brokenProviders: readonly BrokenProvider[] = [
  ...brokenFences,
  ...brokenLimits,
  ...brokenClaims,
  ...brokenKeptClaims,
  ...brokenTurns,
  ...brokenTurnAcks,
  ...brokenTimerTurns,
  ...brokenWork,
  ...brokenTransactions,
  ...brokenStops,
  ...brokenStarting,
  ...brokenStartKeys,
  ...brokenQueues,
  ...brokenInstances,
  ...brokenSignals,
  ...brokenLists,
  ...brokenDeletions,
  ...brokenDeletedInstances,
  ...brokenPrunes,
  ...brokenPauses,
  ...brokenSeries,
  ...brokenAudits,
  ...brokenOperatorAudits,
  ...brokenReclaims,
  ...brokenScans,
  ...brokenMetrics,
  ...brokenLeases,
  ...brokenTakeovers,
  ...brokenWorkers,
  ...brokenTaskQueues,
  ...brokenTaskEnds,
  ...brokenSchedules,
  ...brokenSessions,
  ...brokenJobs,
  ...brokenStreams,
  ...brokenRecordedStreams,
  ...brokenUnclaimedWork,
  ...brokenInspection,
  ...brokenReruns,
  ...brokenUpdates,
  ...brokenViews,
  ...brokenBeginLimits,
  ...brokenState,
];

const files = new SqliteFiles();
afterAll(() => files.remove());

/** Removes one guard from a provider. */
function breakProvider(
  provider: Provider,
  { override }: BrokenProvider,
  clock: Clock,
): Provider & { readonly intact: Provider } {
  const db = new Database(files.pathOf(provider));
  const broken = { ...provider, ...override({ provider, db, clock }) };
  return {
    intact: provider,
    ...broken,
    async close() {
      try {
        await broken.close();
      } finally {
        await provider.close();
        db.close();
      }
    },
  };
}

function findCase(id: string) {
  const found = conformanceCases.find((each) => each.id === id);
  assert.ok(found, `${id} is no case`);
  return found;
}

// The same cases pass on the intact provider: sqlite.test.ts runs all of them on such files.
describe('the conformance suite rejects a provider in which', () => {
  for (const broken of brokenProviders) {
    it.concurrent(
      `${broken.fault} [${broken.rejectedBy}]`,
      async () => {
        const conformanceCase = findCase(broken.rejectedBy);
        const { create, reopen } = files;
        let first: Provider | undefined;
        const rejection: unknown = await runCase(conformanceCase, {
          name: 'broken',
          create: async (options) => {
            const provider = breakProvider(await create(options), broken, options.clock);
            first = provider.intact;
            return provider;
          },
          reopen: async ({ clock }) => {
            assert.ok(first);
            return breakProvider(await reopen({ clock, first }), broken, clock);
          },
        }).catch((error: unknown) => error);
        // An assertion of the case, not an error of the broken provider.
        expect(rejection).toBeInstanceOf(assert.AssertionError);
        // All cases run concurrently, so each may wait for all others.
      },
      300_000,
    );
  }
});

describe('the list of broken providers', () => {
  it('every broken provider has a distinct fault', () => {
    const faults = brokenProviders.map(({ fault }) => fault);
    expect(new Set(faults).size).toBe(faults.length);
    expect(faults.length).toBeGreaterThanOrEqual(20);
  });
});
