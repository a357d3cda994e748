import { expect, it, onTestFinished } from 'vitest';
import { silentLogger, type Logger } from '../../model/logger.ts';
import { Registry } from '../../orchestration/registry.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { openSqlite } from '../../providers/sqlite/provider.ts';
import { TaskRegistry, type TaskClient } from '../../tasks/task.ts';
import { FakeClock } from '../../testing/fake-clock.ts';
import { LateResults } from '../activities/late-results.ts';
import { SessionReaper } from './session-reaper.ts';

const idleMs = 2_000;
const session = { sessionId: 's', label: null, owner: null, leaseMs: 5_500, variables: {} };

/** A reaper over a store of which the looks are counted. */
async function startReaper(parts: Partial<Provider> = {}, logger: Logger = silentLogger) {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  const looks: number[] = [];
  const broken: Provider = { ...provider, ...parts };
  const store: Provider = {
    ...broken,
    dueSessions(limit) {
      looks.push(clock.now());
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
  return { clock, provider, reaper, looks };
}

it('looks once in a while when there are no sessions', async () => {
  const { clock, looks } = await startReaper();
  const start = clock.now();
  await clock.advance(5 * idleMs);
  expect(looks.map((at) => at - start)).toEqual([0, 1, 2, 3, 4, 5].map((n) => n * idleMs));
});

it('ends a session at the moment at which its lease runs out', async () => {
  const { clock, provider } = await startReaper();
  await provider.openSession(session);
  await clock.advance(session.leaseMs - 1);
  expect(await provider.getSessions(['s'])).toMatchObject([{ state: 'open' }]);
  await clock.advance(1);
  expect(await provider.getSessions(['s'])).toMatchObject([{ state: 'ended', end: 'expired' }]);
});

it('looks at once when a session of its process has changed', async () => {
  const { clock, provider, reaper, looks } = await startReaper();
  await provider.openSession(session);
  await provider.shutdownSession({ sessionId: 's', mode: 'graceful', end: 'shutdown' });
  reaper.changed();
  await clock.advance(0);
  expect(looks.length).toBeGreaterThanOrEqual(2);
  expect(await provider.getSessions(['s'])).toMatchObject([{ state: 'ended', end: 'shutdown' }]);
});

it('is not kept busy by late results that it cannot dispose of', async () => {
  const nextAt = 1;
  const due = { sessionIds: [], hasAbandoned: true, nextAt };
  const { clock, looks } = await startReaper({ dueSessions: async () => due });
  await clock.advance(3 * idleMs);
  expect(looks).toHaveLength(4);
});

it('goes on after the store has failed, and says so', async () => {
  const warnings: string[] = [];
  const logger = { ...silentLogger, warn: (_: object, text: string) => void warnings.push(text) };
  const dueSessions = () => Promise.reject(new Error('the store is away'));
  const { clock, looks } = await startReaper({ dueSessions }, logger);
  await clock.advance(3_000);
  expect(looks.length).toBeGreaterThanOrEqual(3);
  expect(warnings.length).toBe(looks.length);
});
