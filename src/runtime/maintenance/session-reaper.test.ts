import { expect, it, onTestFinished } from 'vitest';
import { silentLogger, type Logger } from '../../model/logger.ts';
import { Registry } from '../../orchestration/registry.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { openSqlite } from '../../providers/sqlite/provider.ts';
import { TaskRegistry, type TaskClient } from '../../tasks/task.ts';
import { FakeClock } from '../../testing/fake-clock.ts';
import { LateResults } from '../activities/late-results.ts';
import { SessionReaper } from './session-reaper.ts';

const defaultIdleMs = 2_000;
const session = { sessionId: 's', label: null, owner: null, leaseMs: 5_500, variables: {} };

/** Starts a reaper over a store that records its queries. */
async function startReaper(
  parts: Partial<Provider> = {},
  logger: Logger = silentLogger,
  idleMs = defaultIdleMs,
) {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  const queries: number[] = [];
  const broken: Provider = { ...provider, ...parts };
  const store: Provider = {
    ...broken,
    dueSessions(limit) {
      queries.push(clock.now());
      return broken.dueSessions(limit);
    },
  };
  const registry = new Registry({});
  const tasks = new TaskRegistry([]);
  const client = {} as TaskClient;
  const lateResults = new LateResults({ store, registry, tasks, client, logger });
  const reaper = new SessionReaper({ store, clock, logger, lateResults, idleMs });
  reaper.start();
  onTestFinished(async () => {
    await reaper.stop();
    await provider.close();
    expect(clock.alarmCount).toBe(0);
  });
  await clock.advance(0);
  return { clock, provider, reaper, queries };
}

it('SessionReaper queries every idleMs without sessions', async () => {
  const { clock, queries } = await startReaper();
  const start = clock.now();
  await clock.advance(5 * defaultIdleMs);
  expect(queries.map((at) => at - start)).toEqual([0, 1, 2, 3, 4, 5].map((n) => n * defaultIdleMs));
});

it('SessionReaper ends a session when its lease expires', async () => {
  const { clock, provider } = await startReaper();
  await provider.openSession(session);
  await clock.advance(session.leaseMs - 1);
  expect(await provider.getSessions(['s'])).toMatchObject([{ state: 'open' }]);
  await clock.advance(1);
  expect(await provider.getSessions(['s'])).toMatchObject([{ state: 'ended', end: 'expired' }]);
});

it('changed() wakes the reaper immediately', async () => {
  const { clock, provider, reaper, queries } = await startReaper();
  await provider.openSession(session);
  await provider.shutdownSession({ sessionId: 's', mode: 'graceful', end: 'shutdown' });
  reaper.changed();
  await clock.advance(0);
  expect(queries.length).toBeGreaterThanOrEqual(2);
  expect(await provider.getSessions(['s'])).toMatchObject([{ state: 'ended', end: 'shutdown' }]);
});

it('committed() wakes a reaper with a long poll interval once within 2 s', async () => {
  const { clock, provider, reaper, queries } = await startReaper({}, silentLogger, 100_000);
  const start = clock.now();
  await clock.advance(500);
  await provider.openSession(session);
  await provider.shutdownSession({ sessionId: 's', mode: 'graceful', end: 'shutdown' });
  for (let count = 0; count < 3; count++) reaper.committed();
  await clock.advance(1_499);
  expect(queries).toEqual([start]);
  await clock.advance(1);
  expect(await provider.getSessions(['s'])).toMatchObject([{ state: 'ended', end: 'shutdown' }]);
  await clock.advance(10_000);
  expect(queries[1]).toBe(start + 2_000);
  expect(queries.length).toBeLessThanOrEqual(3);
});

it('SessionReaper does not poll for late results that it cannot dispose of', async () => {
  const nextAt = 1;
  const due = { sessionIds: [], hasAbandoned: true, nextAt };
  const { clock, queries } = await startReaper({ dueSessions: async () => due });
  await clock.advance(3 * defaultIdleMs);
  expect(queries).toHaveLength(4);
});

it('SessionReaper logs a store error and continues', async () => {
  const warnings: string[] = [];
  const logger = { ...silentLogger, warn: (_: object, text: string) => void warnings.push(text) };
  const dueSessions = () => Promise.reject(new Error('store unavailable'));
  const { clock, queries } = await startReaper({ dueSessions }, logger);
  await clock.advance(3_000);
  expect(queries.length).toBeGreaterThanOrEqual(3);
  expect(warnings.length).toBe(queries.length);
});
