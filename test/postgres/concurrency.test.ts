import { expect, it } from 'vitest';
import type { Provider } from '../../src/providers/contract/provider.ts';
import {
  child,
  event,
  newInstance,
  newTurn,
  raised,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { querySql } from './helpers/server.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const families = 12;
const rounds = 12;
const fetch = { max: 20, lockMs: 60_000, waitMs: 0 };

/** Runs one turn of every instance that it can claim, and acks all work items that it can claim. */
async function work(provider: Provider): Promise<void> {
  const items = await provider.fetchOrchestrationItems(fetch);
  const acks = items.map((item) => {
    const isFirst = item.historyLength === 0;
    const isParent = item.parent === null;
    const isDone = item.historyLength > 3;
    const notifiesParent = item.parent !== null && (isFirst || isDone);
    return {
      lockToken: item.lockToken,
      messageKeys: item.messages.map(({ messageKey }) => messageKey),
      turn: newTurn({
        firstEventId: item.historyLength + 1,
        events: [event('turn')],
        workItems: isFirst ? [workItem(1), workItem(2)] : [],
        children:
          isFirst && isParent ? [1, 2, 3].map((n) => child(`${item.instanceId}-${n}`, 10 + n)) : [],
        messages: notifiesParent
          ? [{ instanceId: item.parent?.instanceId ?? '', message: raised('from a child') }]
          : [],
        outcome: isDone ? { status: 'completed', payload: '1' } : { status: 'running' },
      }),
    };
  });
  const claimed = await provider.fetchWorkItems(fetch);
  const outcome = { kind: 'completed', payload: '1' } as const;
  await Promise.all([
    provider.ackOrchestrationItems(acks),
    provider.renewWorkItemLocks(claimed, 60_000),
    provider.ackWorkItems(claimed.map(({ lockToken }) => ({ lockToken, outcome }))),
  ]);
}

/** Signals several trees, and stops a root or a child. */
async function signalAndStop(provider: Provider, round: number): Promise<void> {
  const parent = `family ${round % families}`;
  const ids = [`${parent}-2`, parent, `${parent}-1`, `family ${(round + 5) % families}`];
  const stop = { reason: 'x', actor: null, cleanupMs: 60_000 };
  await Promise.all([
    provider.enqueueMessages(ids.map((instanceId) => ({ instanceId, message: raised('x') }))),
    round % 3 === 0 ? provider.requestCancel([{ instanceId: `${parent}-1`, ...stop }]) : undefined,
    round % 4 === 1
      ? provider.terminate([{ instanceId: parent, ...stop, tree: round % 8 === 1 }])
      : undefined,
  ]);
}

it('concurrent turns, acks, signals and stops of the same trees cause no deadlock', async () => {
  const { open, url } = await temporaryStore();
  const providers = await Promise.all([open(), open(), open()]);
  const [first] = providers;
  await first?.createInstances(
    Array.from({ length: families }, (_, index) => newInstance(`family ${index}`)),
  );
  await Promise.all(
    providers.flatMap((provider, index) => [
      (async () => {
        for (let round = 0; round < rounds; round += 1) await work(provider);
      })(),
      (async () => {
        for (let round = 0; round < rounds; round += 1)
          await signalAndStop(provider, round + index);
      })(),
    ]),
  );
  // The locks match the queued messages, and the history lengths match the histories.
  const inconsistent = await querySql(
    url,
    `SELECT instance_key FROM perdure.orchestrator_queue LEFT JOIN perdure.instance_locks USING (instance_key)
     WHERE instance_locks.instance_key IS NULL
     UNION ALL
     SELECT instance_key FROM perdure.instance_locks AS lock
     WHERE lock_token IS NULL AND next_at IS DISTINCT FROM greatest(held_until,
       (SELECT min(visible_at) FROM perdure.orchestrator_queue WHERE instance_key = lock.instance_key))
     UNION ALL
     SELECT instance_key FROM perdure.instances AS instance
     WHERE history_length <> (SELECT count(*) FROM perdure.history
       WHERE history.instance_key = instance.instance_key AND history.execution_id = instance.execution_id)`,
  );
  expect(inconsistent).toEqual([]);
  // The server writes the statistics when a connection ends.
  for (const provider of providers) await provider.close();
  const [row] = await querySql<{ deadlocks: string }>(
    url,
    `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`,
  );
  expect(Number(row?.deadlocks)).toBe(0);
}, 60_000);
