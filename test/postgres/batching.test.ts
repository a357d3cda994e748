import { describe, expect, it } from 'vitest';
import {
  child,
  event,
  newInstance,
  newTurn,
  raised,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { querySql } from './helpers/server.ts';
import { watchStatements } from './helpers/statement-log.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const twice = [workItem(1), workItem(1)];

function begins(statements: readonly { readonly text: string }[]): number {
  return statements.filter(({ text }) => text.startsWith('BEGIN')).length;
}

/** The transactions of starts: with BEGIN, or of one statement. */
function starts(statements: ReturnType<ReturnType<typeof watchStatements>>): number {
  const single = statements.filter(({ name }) => name === 'perdure_start_pending');
  return begins(statements) + single.length;
}

describe('batching of calls made in one event-loop turn', () => {
  it('31 concurrent createInstances() calls share one transaction', async () => {
    const { open } = await temporaryStore();
    const provider = await open();
    const sent = watchStatements();
    const results = await Promise.all(
      Array.from({ length: 31 }, (_, index) => provider.createInstances([newInstance(`${index}`)])),
    );
    expect(results.flat().every(({ kind }) => kind === 'created')).toBe(true);
    expect(begins(sent())).toBe(1);
  });

  it('200 concurrent createInstances() calls share three transactions', async () => {
    const { open } = await temporaryStore();
    const provider = await open();
    await provider.createInstances([newInstance('warm up')]);
    const sent = watchStatements();
    const results = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        provider.createInstances([newInstance(`${index}`)]),
      ),
    );
    expect(results.flat().every(({ kind }) => kind === 'created')).toBe(true);
    // Two transactions of 32 calls run concurrently; the third takes the calls that queued meanwhile.
    expect(starts(sent())).toBe(3);
  });

  it('concurrent calls with 2,000 instances are split into four transactions', async () => {
    const { open } = await temporaryStore();
    const provider = await open();
    const sent = watchStatements();
    await Promise.all(
      Array.from({ length: 5 }, (_, call) =>
        provider.createInstances(
          Array.from({ length: 400 }, (__, index) => newInstance(`${call} ${index}`)),
        ),
      ),
    );
    // The first two calls fill one transaction each; the other three have 1,200 instances.
    expect(starts(sent())).toBe(4);
  });

  it('a call that violates a constraint is refused alone, and its batch commits', async () => {
    const { open } = await temporaryStore();
    const provider = await open();
    const results = await Promise.all(
      Array.from({ length: 9 }, async (_, index) => {
        const workItems = index === 4 ? twice : [workItem(1)];
        const firstTurn = newTurn({ events: [event('x')], workItems });
        const [result] = await provider.createInstances([newInstance(`${index}`, { firstTurn })]);
        return result?.kind;
      }),
    );
    expect(results).toEqual(results.map((_, index) => (index === 4 ? 'refused' : 'created')));
    const { instances: records } = await provider.listInstances({ filter: {}, limit: 100 });
    expect(records).toHaveLength(8);
  });

  it('concurrent enqueueMessages() calls keep their order across batched transactions', async () => {
    const { open } = await temporaryStore();
    const provider = await open();
    await provider.createInstances([newInstance('a')]);
    const labels = Array.from({ length: 60 }, (_, index) => `${index}`);
    const calls = labels.map(async (label, index) => {
      // Some calls arrive while a transaction runs.
      if (index % 20 === 19) await new Promise((resolve) => setImmediate(resolve));
      return provider.enqueueMessages([{ instanceId: 'a', message: raised(label) }]);
    });
    await Promise.all(calls);
    const [item] = await provider.fetchOrchestrationItems({ max: 1, lockMs: 1, waitMs: 0 });
    const read = item?.messages.slice(1).map(({ payload }) => JSON.parse(payload ?? '') as string);
    const inOrder = labels.filter((_, index) => index % 20 !== 19);
    expect(read?.filter((label) => inOrder.includes(label))).toEqual(inOrder);
    expect(read).toHaveLength(labels.length);
  });
});

it('a child that one turn of a paused tree starts and cancels leaves no row in a queue', async () => {
  const { open, url } = await temporaryStore();
  const provider = await open();
  await provider.createInstances([newInstance('a')]);
  const [item] = await provider.fetchOrchestrationItems({ max: 1, lockMs: 60_000, waitMs: 0 });
  const pause = { instanceId: 'a', reason: null, actor: null, tree: true };
  await provider.pauseInstances([pause]);
  const turn = newTurn({
    events: [event('x')],
    children: [child('b', 1)],
    childCancels: [{ instanceId: 'b', reason: 'lost the race' }],
  });
  const messageKeys = item?.messages.map(({ messageKey }) => messageKey) ?? [];
  await provider.ackOrchestrationItems([{ lockToken: item?.lockToken ?? '', messageKeys, turn }]);
  const rows = await querySql(
    url,
    `SELECT instance_id, status FROM perdure.instances JOIN perdure.instance_locks USING (instance_key)`,
  );
  expect(rows).toEqual([{ instance_id: 'a', status: 'running' }]);
});
