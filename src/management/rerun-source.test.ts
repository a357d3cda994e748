import { describe, expect, it } from 'vitest';
import type { ExecutionStarted } from '../model/event.ts';
import type { ListInstancesParams } from '../providers/contract/instances.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { readFixedChildIds } from './rerun-source.ts';

const startedAt = 1_000_000;

/** A store in which each instance has these children, in pages of two, and executions that start a day apart. */
function storeOf(children: Readonly<Record<string, readonly string[]>>) {
  const asked: ListInstancesParams[] = [];
  const store: Pick<Provider, 'listExecutions' | 'listInstances'> = {
    listExecutions: async ({ after }) => [
      {
        executionId: after + 1,
        status: 'failed',
        version: '1',
        startedAt: startedAt + after * 86_400_000,
        endedAt: null,
        historyLength: 1,
        failure: null,
        reason: null,
      },
    ],
    listInstances: async (params) => {
      asked.push(params);
      const all = children[params.filter.parentInstanceId ?? ''] ?? [];
      const left = all.slice(0, params.beforeKey);
      const page = left.slice(-2).toReversed();
      const nextKey = left.length > 2 ? left.length - 2 : null;
      const instances = page.map((instanceId) => ({ instanceId }));
      return { instances, nextKey } as unknown as Awaited<ReturnType<Provider['listInstances']>>;
    },
  };
  return { store: store as Provider, asked };
}

const started: ExecutionStarted = {
  kind: 'executionStarted',
  at: 1,
  name: 'order',
  version: '1',
  payload: null,
};

describe('readFixedChildIds()', () => {
  it('returns the ids that the code chose, without default ids', async () => {
    const ids = ['order-1/2.1', 'invoice', 'order-1/2.x', 'order-1/12.34', 'mail'];
    const { store } = storeOf({ 'order-1': ids });
    const execution = { instanceId: 'order-1', executionId: 2 };
    expect(
      (await readFixedChildIds(store, execution, { started, what: 'retried' })).toSorted(),
    ).toEqual(['invoice', 'mail', 'order-1/2.x']);
  });

  it('reads the children since the first execution that was copied, of each instance', async () => {
    const { store, asked } = storeOf({ copy: ['mine'], source: ['theirs'] });
    const inherited = [
      { instanceId: 'source', incarnation: 's', executionId: 3, events: 2 },
      { instanceId: 'copy', incarnation: 'c', executionId: 1, events: 4 },
    ];
    const known = { ...started, inherited, takenChildIds: ['earlier'] };
    const execution = { instanceId: 'copy', executionId: 2 };
    expect(await readFixedChildIds(store, execution, { started: known, what: 'retried' })).toEqual([
      'earlier',
      'mine',
      'theirs',
    ]);
    const day = 86_400_000;
    expect(asked.map(({ filter }) => filter)).toEqual([
      { parentInstanceId: 'copy', createdFrom: startedAt - 60_000 },
      { parentInstanceId: 'source', createdFrom: startedAt + 2 * day - 60_000 },
    ]);
  });

  it('rejects more than 1,000 ids', async () => {
    const ids = (count: number) => Array.from({ length: count }, (_, index) => `fixed ${index}`);
    const read = (count: number) =>
      readFixedChildIds(
        storeOf({ a: ids(count) }).store,
        { instanceId: 'a', executionId: 1 },
        { started, what: 'retried' },
      );
    expect(await read(1_000)).toHaveLength(1_000);
    await expect(read(1_001)).rejects.toMatchObject({ code: 'INSTANCE_NOT_RETRYABLE' });
  });
});
