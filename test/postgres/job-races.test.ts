/** Two stores submit, run, read, take, abandon, delete and end the jobs of three sessions concurrently. */
import { expect, it } from 'vitest';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { JobKey, SubmitJobResult } from '../../src/providers/contract/sessions.ts';
import { keyOf, newSession, taskJob } from '../../src/testing/conformance/job-helpers.ts';
import { querySql } from './helpers/server.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const sessions = ['one', 'two', 'three'];
const rounds = 30;
const perRound = 6;
const stop = { reason: 'gone', actor: null, cleanupMs: 1_000 };
const limits = { maxChunks: 4, maxBytes: 1_000 };

const sessionOf = (round: number): string => sessions[round % sessions.length] ?? 'one';

/** Emits chunks for every job that it can claim, and completes it. */
async function work(provider: Provider): Promise<void> {
  const items = await provider.fetchWorkItems({ max: 10, lockMs: 60_000, waitMs: 0 });
  await provider.appendChunks(
    items.map(({ lockToken }) => ({ lockToken, chunks: ['1', '2'], ...limits })),
  );
  await provider.ackWorkItems(
    items.map(({ lockToken }) => ({ lockToken, outcome: { kind: 'completed', payload: '1' } })),
  );
}

/** Submits jobs, then takes, abandons and deletes them concurrently. */
async function submit(
  provider: Provider,
  { round, answers }: { readonly round: number; readonly answers: SubmitJobResult['kind'][] },
): Promise<void> {
  const sessionId = sessionOf(round);
  const disposable = round % 2 === 0;
  const jobs = Array.from({ length: perRound }, (_, n) =>
    taskJob(`job ${round} ${n}`, { sessionId, disposable }),
  );
  const results = await provider.submitJobs(jobs);
  answers.push(...results.map(({ kind }) => kind));
  const keys = jobs.filter((_, n) => results[n]?.kind === 'created').map(keyOf);
  const half = keys.slice(0, perRound / 2);
  const isFirst = (key: JobKey) => half.includes(key);
  await Promise.all([
    provider.abandonJobs(half.map((key) => ({ ...key, ...stop }))),
    provider.takeJobs(keys),
    ...keys.map((key) => provider.readChunks({ ...key, after: 1, limit: 10 })),
    provider.abandonJobs(keys.toReversed().map((key) => ({ ...key, ...stop }))),
    provider.deleteInstancesAtomic(
      keys.filter(isFirst).map(({ instanceId }) => ({ instanceIds: [instanceId], force: true })),
    ),
  ]);
}

async function reap(provider: Provider): Promise<void> {
  const { sessionIds } = await provider.dueSessions(10);
  for (const sessionId of sessionIds) await provider.settleSession(sessionId, 3);
  await provider.renewSessions(sessions);
  const names = { orchestrations: [], tasks: ['task'] };
  const claimed = await provider.claimAbandoned({ ...names, limit: 5, lockMs: 60_000 });
  await provider.settleAbandoned(claimed.map(({ key }) => ({ key, retryInMs: null })));
}

async function untilEnded(provider: Provider, sessionId: string): Promise<void> {
  for (;;) {
    await reap(provider);
    await work(provider);
    const session = await provider.settleSession(sessionId, 50);
    if (session?.state === 'ended') return;
  }
}

it('racing job calls succeed and leave no open jobs, runs or orphaned chunks', async () => {
  const store = await temporaryStore();
  const [first, second] = [await store.open(), await store.open()];
  for (const id of sessions) await first.openSession(newSession(id));
  const answers: SubmitJobResult['kind'][] = [];
  for (let round = 0; round < rounds; round += 1) {
    const calls: Promise<unknown>[] = [
      submit(first, { round, answers }),
      submit(second, { round: round + rounds, answers }),
      work(first),
      work(second),
      reap(first),
      reap(second),
    ];
    if (round === rounds - 5) {
      calls.push(
        first.shutdownSession({ sessionId: 'one', mode: 'graceful', end: 'shutdown' }),
        second.shutdownSession({ sessionId: 'two', mode: 'forceful', end: 'goodbye' }),
      );
    }
    await Promise.all(calls);
  }
  expect(new Set(answers)).toEqual(new Set(['created', 'sessionClosed']));
  for (const sessionId of sessions) {
    await first.shutdownSession({ sessionId, mode: 'forceful', end: 'goodbye' });
  }
  await Promise.all(sessions.map((id, n) => untilEnded(n % 2 === 0 ? first : second, id)));
  const ended = await first.getSessions(sessions);
  expect(ended.map((session) => [session?.state, session?.openJobs])).toEqual(
    sessions.map(() => ['ended', 0]),
  );
  const left = await querySql(
    store.url,
    `SELECT (SELECT count(*)::int FROM perdure.chunks WHERE instance_key NOT IN (SELECT instance_key FROM perdure.jobs)) AS chunks,
       (SELECT count(*)::int FROM perdure.jobs JOIN perdure.instances USING (instance_key) WHERE ended_at IS NULL) AS runs,
       (SELECT count(*)::int FROM perdure.jobs WHERE instance_key NOT IN (SELECT instance_key FROM perdure.instances)) AS orphans`,
  );
  expect(left).toEqual([{ chunks: 0, runs: 0, orphans: 0 }]);
});
