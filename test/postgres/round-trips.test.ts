import { expect, it } from 'vitest';
import type { Provider } from '../../src/providers/provider.ts';
import {
  child,
  event,
  newInstance,
  newTurn,
  raised,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { watchStatements } from './statement-log.ts';
import { temporaryStore } from './temporary-store.ts';

const lockMs = 60_000;
const fetch = { lockMs, waitMs: 0 };

function ids(prefix: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix} ${index}`);
}

/** A life of several instances, as batches of one size; answers how many statements each kind of call took. */
async function liveThrough(
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

it('the number of statements does not depend on the size of the batch', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  const sent = watchStatements();
  // Names are made known once for each process.
  await liveThrough(provider, sent, { prefix: 'first', count: 1 });
  const one = await liveThrough(provider, sent, { prefix: 'one', count: 1 });
  const many = await liveThrough(provider, sent, { prefix: 'many', count: 200 });
  expect(many).toEqual(one);
  expect(Math.max(...Object.values(many))).toBeLessThanOrEqual(20);
}, 60_000);

it('a start with its first turn is one statement, and the turn that ends it one round trip', async () => {
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
      'BEGIN ISOLATION LEVEL READ COMMITTED',
      'perdure_lock_for_plain_turns',
      'perdure_lock_items_for_plain_turns',
      'perdure_commit_plain_turns',
      'COMMIT',
    ]);
  }
});
