/** Concurrent deletions, prunes and starts, while workers run, ack, signal and stop the same trees. */
import { expect, it } from 'vitest';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { TurnOutcome } from '../../src/providers/contract/turn.ts';
import {
  child,
  event,
  newInstance,
  newTurn,
  raised,
  startMessage,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { querySql } from './helpers/server.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const families = 8;
const rounds = 25;
const fetch = { max: 20, lockMs: 60_000, waitMs: 0 };
const continued = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;

const nameOf = (round: number): string => `family ${round % families}`;

function outcomeOf(historyLength: number, executionId: number): TurnOutcome {
  if (historyLength < 3) return { status: 'running' };
  return executionId < 3 ? continued : { status: 'completed', payload: '1' };
}

/**
 * Runs one turn of every instance that it can claim, and acks all work items that it can claim. Returns the number of
 * children that its turns started.
 */
async function work(provider: Provider): Promise<number> {
  const items = await provider.fetchOrchestrationItems(fetch);
  const acks = items.map((item) => {
    const { instanceId, executionId, historyLength, parent } = item;
    const kids = instanceId.length < 12 ? [1, 2] : [];
    return {
      lockToken: item.lockToken,
      messageKeys: item.messages.map(({ messageKey }) => messageKey),
      turn: newTurn({
        firstEventId: historyLength + 1,
        events: [event('turn')],
        workItems: [workItem(historyLength * 10 + 1), workItem(historyLength * 10 + 2)],
        children: kids.map((n) =>
          child(`${instanceId}-${executionId}${historyLength}${n}`, historyLength * 10 + n + 5),
        ),
        messages:
          parent === null
            ? []
            : [{ instanceId: parent.instanceId, message: raised('to a parent') }],
        outcome: outcomeOf(historyLength, executionId),
      }),
    };
  });
  const claimed = await provider.fetchWorkItems(fetch);
  const outcome = { kind: 'completed', payload: '1' } as const;
  const [results] = await Promise.all([
    provider.ackOrchestrationItems(acks),
    provider.renewWorkItemLocks(claimed, 60_000),
    provider.ackWorkItems(claimed.slice(1).map(({ lockToken }) => ({ lockToken, outcome }))),
  ]);
  return acks
    .filter((_, index) => results[index]?.ok === true)
    .reduce((sum, { turn }) => sum + turn.children.length, 0);
}

async function treeOf(provider: Provider, id: string): Promise<readonly string[]> {
  const [children = []] = await provider.listChildren([id]);
  const below = await Promise.all(children.map((one) => treeOf(provider, one)));
  return [...below.flat(), id];
}

/** Starts, signals, cancels, deletes and prunes. Returns what was created and deleted. */
async function manage(provider: Provider, round: number) {
  const [id, other] = [nameOf(round), nameOf(round + 3)];
  const stop = { reason: 'x', actor: null, cleanupMs: 60_000 };
  const trees = await Promise.all([treeOf(provider, id), treeOf(provider, other)]);
  const starts = [id, other, nameOf(round + 5)];
  const [created, deleted] = await Promise.all([
    provider.createInstances(starts.map((one) => newInstance(one))),
    round % 3 === 0
      ? provider.deleteInstancesAtomic(
          trees.map((instanceIds) => ({ instanceIds, force: round % 2 === 0 })),
        )
      : [],
    provider.enqueueMessages([{ instanceId: other, message: raised('x') }]),
    provider.pruneExecutionsAtomic([
      { instanceId: id, max: 10 },
      { instanceId: other, max: 10 },
    ]),
    round % 5 === 0 ? provider.requestCancel([{ instanceId: id, ...stop }]) : undefined,
    round % 7 === 0 ? provider.terminate([{ instanceId: other, ...stop, tree: true }]) : undefined,
  ]);
  return {
    kinds: deleted.map(({ kind }) => kind),
    created: created.filter(({ kind }) => kind === 'created').length,
    counts: deleted.flatMap((one) => (one.kind === 'deleted' ? one.counts : [])),
  };
}

// Rows of missing instances, and histories whose length is wrong.
const remains = `
  SELECT 'orphan' AS what, instance_id AS which FROM perdure.instances AS child
  WHERE parent_instance_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM perdure.instances AS parent WHERE parent.instance_id = child.parent_instance_id)
  UNION ALL
  SELECT part, instance_key::text FROM (
    SELECT 'message' AS part, instance_key FROM perdure.orchestrator_queue
    UNION ALL SELECT 'lock', instance_key FROM perdure.instance_locks
    UNION ALL SELECT 'item', instance_key FROM perdure.worker_queue
    UNION ALL SELECT 'execution', instance_key FROM perdure.executions
    UNION ALL SELECT 'event', instance_key FROM perdure.history) AS held
  WHERE NOT EXISTS (SELECT FROM perdure.instances WHERE instances.instance_key = held.instance_key)
  UNION ALL
  SELECT 'event of a pruned execution', instance_key::text FROM perdure.history AS event
  WHERE NOT EXISTS (SELECT FROM perdure.instances AS one
                    WHERE one.instance_key = event.instance_key AND one.execution_id = event.execution_id)
    AND NOT EXISTS (SELECT FROM perdure.executions AS one
                    WHERE one.instance_key = event.instance_key AND one.execution_id = event.execution_id)
  UNION ALL
  SELECT 'history', instance_id FROM perdure.instances AS one
  WHERE history_length <> (SELECT count(*) FROM perdure.history AS event
    WHERE event.instance_key = one.instance_key AND event.execution_id = one.execution_id)
  UNION ALL
  SELECT 'queue', lock.instance_key::text FROM perdure.instance_locks AS lock
  WHERE lock_token IS NULL AND next_at IS DISTINCT FROM greatest(held_until,
    (SELECT min(visible_at) FROM perdure.orchestrator_queue AS message WHERE message.instance_key = lock.instance_key))`;

it('racing deletions leave no orphans and no rows, and return exact counts', async () => {
  const { open, url } = await temporaryStore();
  const providers = await Promise.all([open(), open(), open()]);
  const [first] = providers;
  if (first === undefined) throw new Error('There is no store.');
  const [created, deleted] = [{ roots: 0, children: 0 }, { instances: 0 }];
  const kinds = new Set<string>();
  const managing = providers.map(async (provider, index) => {
    for (let round = 0; round < rounds; round += 1) {
      const managed = await manage(provider, round + index * 3);
      created.roots += managed.created;
      for (const { instancesDeleted } of managed.counts) deleted.instances += instancesDeleted;
      for (const kind of managed.kinds) kinds.add(kind);
    }
  });
  const done = new AbortController();
  const working = providers.map(async (provider) => {
    while (!done.signal.aborted) {
      const started = await work(provider);
      created.children += started;
    }
  });
  await Promise.all(managing);
  done.abort();
  await Promise.all(working);
  while ((await first.reclaimDeleted(1_000)).left);
  expect(await querySql(url, remains)).toEqual([]);
  expect([...kinds].toSorted()).toEqual(['deleted', 'orphan', 'running']);
  expect(created.children).toBeGreaterThan(50);
  expect(deleted.instances).toBeGreaterThan(50);
  const [left] = await querySql<{ count: string }>(url, 'SELECT count(*) FROM perdure.instances');
  expect(created.roots + created.children - deleted.instances).toBe(Number(left?.count));
}, 120_000);
