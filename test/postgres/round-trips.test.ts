import { expect, it, vi } from 'vitest';
import type { Provider } from '../../src/providers/contract/provider.ts';
import {
  child,
  event,
  newInstance,
  newTurn,
  raised,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { keyOf, newSession, taskJob } from '../../src/testing/conformance/job-helpers.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { newTask, outcomes } from '../../src/testing/conformance/task-helpers.ts';
import { querySql } from './helpers/server.ts';
import { watchStatements } from './helpers/statement-log.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const lockMs = 60_000;
const fetch = { lockMs, waitMs: 0 };

function ids(prefix: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix} ${index}`);
}

/** Runs instances through every provider call in batches of `count`. Returns the number of statements per call. */
async function runLifecycle(
  provider: Provider,
  sent: () => readonly unknown[],
  { prefix, count }: { readonly prefix: string; readonly count: number },
): Promise<Readonly<Record<string, number>>> {
  const counts: Record<string, number> = {};
  const counted = async <T>(name: string, call: () => Promise<T>): Promise<T> => {
    sent();
    const result = await call();
    counts[name] = sent().length;
    return result;
  };
  const all = ids(prefix, count);
  // After a claim that finds nothing, the next one queries first.
  await provider.fetchOrchestrationItems({ ...fetch, max: 1 });
  await counted('create', () => provider.createInstances(all.map((id) => newInstance(id))));
  const claimed = await counted('fetch', () =>
    provider.fetchOrchestrationItems({ ...fetch, max: count }),
  );
  expect(claimed).toHaveLength(count);
  await counted('renew instances', () =>
    provider.renewOrchestrationLocks(
      claimed.map(({ lockToken }) => lockToken),
      lockMs,
    ),
  );
  const acked = await counted('ack', () =>
    provider.ackOrchestrationItems(
      claimed.map(({ lockToken, messages, instanceId }) => ({
        lockToken,
        messageKeys: messages.map(({ messageKey }) => messageKey),
        turn: newTurn({
          events: [event('begun')],
          workItems: [workItem(1), workItem(2)],
          timers: [{ operation: 3, fireAt: Date.now() + 3_600_000 }],
          children: [child(`${instanceId} child`, 4, { name: 'child' })],
        }),
      })),
    ),
  );
  expect(acked.every(({ ok }) => ok)).toBe(true);
  const items = await counted('fetch work', () =>
    provider.fetchWorkItems({ ...fetch, max: count }),
  );
  expect(items).toHaveLength(count);
  const renewals = items.map(({ lockToken }) => ({ lockToken, heartbeat: '1' }));
  await counted('renew work', () => provider.renewWorkItemLocks(renewals, lockMs));
  const outcome = { kind: 'completed', payload: '1' } as const;
  await counted('ack work', () =>
    provider.ackWorkItems(items.map(({ lockToken }) => ({ lockToken, outcome }))),
  );
  await counted('enqueue', () =>
    provider.enqueueMessages(
      all.map((instanceId) => ({ instanceId, message: raised('x'), maxPending: 10 })),
    ),
  );
  await counted('cancel', () =>
    provider.requestCancel(
      all.map((instanceId) => ({ instanceId, reason: 'x', actor: null, cleanupMs: lockMs })),
    ),
  );
  await counted('terminate', () =>
    provider.terminate(
      all.map((instanceId) => ({ instanceId, reason: 'x', actor: null, tree: true })),
    ),
  );
  await counted('read', () => provider.getInstances(all));
  return counts;
}

it('the number of statements per call does not depend on the batch size', async () => {
  const { open } = await temporaryStore();
  // After 250 ms without a due query, a claim takes the general path.
  const provider = await open({ clock: new FakeClock() });
  const sent = watchStatements();
  // The first use of a name takes extra statements per process.
  await runLifecycle(provider, sent, { prefix: 'first', count: 1 });
  // Up to 8 cancels try a single statement first.
  const few = await runLifecycle(provider, sent, { prefix: 'few', count: 9 });
  const many = await runLifecycle(provider, sent, { prefix: 'many', count: 200 });
  expect(many).toEqual(few);
  expect(Math.max(...Object.values(many))).toBeLessThanOrEqual(20);
}, 60_000);

it('starts, claims, turns and cancels in different processes take one round trip each', async () => {
  const { open } = await temporaryStore();
  // After 250 ms without a due query, a claim takes the general path.
  const provider = await open({ clock: new FakeClock() });
  const sent = watchStatements();
  const fetch = { max: 10, lockMs, waitMs: 0 };
  let counts: Record<string, number> = {};
  // The first round interns the names, and its claim takes the general path.
  for (const prefix of ['first', 'second']) {
    const counted = async <T>(what: string, run: () => Promise<T>): Promise<T> => {
      sent();
      const result = await run();
      counts[what] = sent().filter(({ name }) => name.startsWith('perdure_')).length;
      return result;
    };
    counts = {};
    const all = ids(prefix, 5);
    await counted('start', () =>
      provider.createInstances(all.map((id) => newInstance(id, { version: '1' }))),
    );
    const items = await counted('claim', () => provider.fetchOrchestrationItems(fetch));
    expect(items).toHaveLength(5);
    const acked = await counted('turn', () =>
      provider.ackOrchestrationItems(
        items.map(({ instanceId, lockToken, messages }) => ({
          instanceId,
          lockToken,
          messageKeys: messages.map(({ messageKey }) => messageKey),
          turn: newTurn({
            turnId: instanceId,
            events: [event('begun')],
            workItems: [workItem(1, { claimMs: lockMs })],
          }),
        })),
      ),
    );
    const stop = { reason: 'x', actor: null, cleanupMs: lockMs };
    await counted('cancel', () =>
      provider.requestCancel(all.map((instanceId) => ({ instanceId, ...stop }))),
    );
    const tokens = acked.flatMap((result) => (result.ok ? result.claimed : []));
    const renewed = await counted('renew', () =>
      provider.renewWorkItemLocks(
        tokens.map(({ lockToken }) => ({ lockToken })),
        lockMs,
      ),
    );
    expect(renewed).toMatchObject(all.map(() => ({ held: true, cancel: { reason: 'x' } })));
    const canceled = await counted('claim to cancel', () =>
      provider.fetchOrchestrationItems(fetch),
    );
    expect(canceled).toHaveLength(5);
    await counted('canceled turn', () =>
      provider.ackOrchestrationItems(
        canceled.map(({ instanceId, lockToken, messages }) => ({
          instanceId,
          lockToken,
          messageKeys: messages.map(({ messageKey }) => messageKey),
          turn: newTurn({
            turnId: `${instanceId} end`,
            firstEventId: 2,
            events: [event('canceled')],
            outcome: { status: 'canceled', reason: 'x', cleanupSkipped: false },
          }),
        })),
      ),
    );
  }
  expect(counts).toEqual({
    start: 1,
    claim: 1,
    turn: 2,
    cancel: 2,
    renew: 2,
    'claim to cancel': 1,
    'canceled turn': 2,
  });
});

it('starts with a first turn take one statement, final turns one transaction', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  const sent = watchStatements();
  for (const prefix of ['first', 'second']) {
    sent();
    const created = await provider.createInstances(
      ids(prefix, 50).map((id) =>
        newInstance(id, {
          incarnation: id,
          firstTurn: newTurn({
            turnId: id,
            events: [event('begun')],
            workItems: [workItem(1, { claimMs: lockMs })],
          }),
        }),
      ),
    );
    const creating = sent();
    const acks = created.map((result, index) => {
      if (result.kind !== 'created') throw new Error(result.kind);
      const id = `${prefix} ${index}`;
      return {
        instanceKey: result.instanceKey,
        incarnation: id,
        executionId: 1,
        lastTurn: id,
        lockTokens: result.claimed.map(({ lockToken }) => lockToken),
        turn: newTurn({
          firstEventId: 2,
          events: [event('done')],
          outcome: { status: 'completed', payload: '1' },
        }),
      };
    });
    const results = await provider.ackTurns(acks);
    expect(results.every(({ ok }) => ok)).toBe(true);
    const acking = sent();
    if (prefix === 'first') continue;
    expect(creating.map(({ name }) => name)).toEqual(['perdure_start_plainly']);
    expect(acking.map(({ name, text }) => (name === '' ? text : name))).toEqual([
      // One message, with the statement that locks the rows.
      'perdure_commit_plain_turns_with_ends',
    ]);
  }
});

it('creating, claiming and ending 300 tasks takes one statement each', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  const sent = watchStatements();
  const outcome = { kind: 'completed', payload: '1' } as const;
  const statements: (readonly string[])[] = [];
  for (const [prefix, count] of [
    ['first', 1],
    ['second', 1],
    ['third', 300],
  ] as const) {
    sent();
    const created = await provider.createTasks(
      ids(prefix, count).map((id) => newTask(id, { dedupeKey: id })),
    );
    expect(created.every(({ kind }) => kind === 'created')).toBe(true);
    const items = await provider.fetchWorkItems({ ...fetch, max: count, names: [] });
    const acked = await provider.ackWorkItems(
      items.map(({ lockToken }) => ({ lockToken, outcome })),
    );
    expect(acked).toEqual(items.map(() => ({ ok: true, claimed: [], ended: 'completed' })));
    expect(items).toHaveLength(count);
    statements.push(sent().map(({ name }) => name));
  }
  // The first round registers the name and finds the queue busy.
  for (const names of statements.slice(1)) {
    expect(names).toEqual([
      'perdure_create_tasks_plainly_with_options',
      'perdure_claim_plainly',
      'perdure_end_runs_plainly',
    ]);
  }
});

it('createTasks() of 2,500 tasks reads the clock and sends a statement per 1,000', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  await provider.createTasks([newTask('known')]);
  const sent = watchStatements();
  const created = await provider.createTasks(ids('run', 2_500).map((id) => newTask(id)));
  expect(created.every(({ kind }) => kind === 'created')).toBe(true);
  expect(created).toHaveLength(2_500);
  const insert = 'perdure_create_tasks_plainly';
  expect(sent().map(({ name, text }) => name || text.split(' ')[0])).toEqual([
    'perdure_clock',
    insert,
    insert,
    insert,
  ]);
});

it('abandonJobs() of 300 running jobs takes one statement', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  await provider.openSession(newSession('s'));
  const sent = watchStatements();
  for (const [prefix, count] of [
    ['one', 1],
    ['many', 300],
  ] as const) {
    const jobs = ids(prefix, count).map((id) => taskJob(id, { sessionId: 's' }));
    await provider.submitJobs(jobs);
    const items = await provider.fetchWorkItems({ ...fetch, max: count, names: [] });
    expect(items).toHaveLength(count);
    sent();
    const stop = { reason: 'gone', actor: null, cleanupMs: 1_000 };
    const stopped = await provider.abandonJobs(jobs.map((job) => ({ ...keyOf(job), ...stop })));
    expect(stopped).toEqual(jobs.map(() => ({ found: true, changed: true, status: 'canceling' })));
    expect(sent().map(({ name }) => name)).toEqual(['perdure_abandon_plainly']);
    const renewed = await provider.renewWorkItemLocks(
      items.map(({ lockToken }) => ({ lockToken })),
      1_000,
    );
    for (const one of renewed)
      expect(one).toMatchObject({ held: true, cancel: { reason: 'gone' } });
  }
});

it('more than 70% of task row updates are HOT updates', async () => {
  const { open, url } = await temporaryStore();
  const provider = await open();
  const outcome = { kind: 'completed', payload: '1' } as const;
  await provider.createTasks(ids('run', 500).map((id) => newTask(id)));
  for (let ended = 0; ended < 500; ended += 100) {
    const items = await provider.fetchWorkItems({ ...fetch, max: 100, names: [] });
    await provider.ackWorkItems(items.map(({ lockToken }) => ({ lockToken, outcome })));
  }
  // The server writes the statistics when a connection ends; PostgreSQL 14 writes them later.
  await provider.close();
  await vi.waitFor(
    async () => {
      const rows = await querySql<{ readonly relname: string; readonly share: number }>(
        url,
        `SELECT relname, n_tup_hot_upd::float / n_tup_upd AS share FROM pg_stat_user_tables
         WHERE relname IN ('instances', 'worker_queue') AND n_tup_upd >= 500 ORDER BY relname`,
      );
      expect(rows.map(({ relname }) => relname)).toEqual(['instances', 'worker_queue']);
      for (const { share } of rows) expect(share).toBeGreaterThan(0.7);
    },
    { timeout: 10_000, interval: 100 },
  );
});

it('acking 200 mixed outcomes takes as many statements as acking four', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  const sent = watchStatements();
  const counts: number[] = [];
  for (const [prefix, count] of [
    ['first', 4],
    ['one', 4],
    ['many', 200],
  ] as const) {
    const tasks = ids(prefix, count).map((id) => newTask(id, { onFail: { options: null } }));
    await provider.createTasks(tasks);
    const items = await provider.fetchWorkItems({ ...fetch, max: count, names: [] });
    sent();
    const acked = await provider.ackWorkItems(
      items.map(({ lockToken }, index) => ({
        lockToken,
        outcome: outcomes[index % outcomes.length] ?? { kind: 'skipped' },
      })),
    );
    expect(acked.every(({ ok }) => ok)).toBe(true);
    counts.push(sent().length);
    await provider.terminate(
      tasks.map(({ instanceId }) => ({ instanceId, reason: 'x', actor: null, tree: false })),
    );
    const handlers = await provider.fetchWorkItems({ ...fetch, max: count, names: [] });
    expect(handlers).toHaveLength(count / 4);
    await provider.ackWorkItems(
      handlers.map(({ lockToken }) => ({
        lockToken,
        outcome: { kind: 'completed', payload: null },
      })),
    );
  }
  expect(counts[2]).toBe(counts[1]);
  expect(counts[2]).toBeLessThanOrEqual(8);
});
