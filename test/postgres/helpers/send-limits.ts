import type { Provider } from '../../../src/providers/contract/provider.ts';
import {
  event,
  newInstance,
  newTurn,
  workItem,
} from '../../../src/testing/conformance/sample-data.ts';
import { newTask } from '../../../src/testing/conformance/task-helpers.ts';

const lane = (key: string) => ({ key, weight: 1 });
const failure = '{"name":"Error","message":"no"}';

/** Sends every statement of limits. */
export async function sendLimits(provider: Provider): Promise<void> {
  const fetch = { max: 10, lockMs: 1_000, waitMs: 0 };
  await provider.declareLimits({
    buildId: 'build',
    definitions: [{ kind: 'task', name: 'limited', limits: { global: 5 } }],
  });
  await provider.setLimits({ kind: 'task', name: 'limited', override: { perKey: 2 } });
  const task = (id: string, key: string) =>
    newTask(id, { name: 'limited', lane: lane(key), onFail: { options: null } });
  for (const id of ['limited 1', 'limited 2', 'limited 3'])
    await provider.createTasks([task(id, 'a')]);
  // An id that is taken, by the general path.
  await provider.createTasks([task('limited 1', 'a'), task('limited 4', 'b')]);
  const replaced = { ...task('limited 4', 'c'), inputHash: 'another' };
  await provider.createTasks([{ ...replaced, onConflict: 'terminateExisting' }]);
  const firstTurn = (id: string) =>
    newInstance(id, {
      firstTurn: newTurn({
        events: [event('x')],
        workItems: [workItem(1, { name: 'keyed', lane: lane('a') })],
      }),
    });
  for (const id of ['keyed 1', 'keyed 2']) await provider.createInstances([firstTurn(id)]);
  await provider.inspectInstance({ instanceId: 'limited 3', maxPending: 10 });
  const [item] = await provider.fetchWorkItems(fetch);
  await provider.ackWorkItems([
    { lockToken: item?.lockToken ?? '', outcome: { kind: 'failed', failure } },
  ]);
  await provider.fetchWorkItems(fetch);
  await provider.createInstances([
    newInstance('begun', { name: 'gated', firstTurn: newTurn({ events: [event('x')] }) }),
  ]);
  const gated = { kind: 'orchestration', name: 'gated' } as const;
  await provider.declareLimits({
    buildId: 'build',
    definitions: [{ ...gated, limits: { global: 2, perKey: 1 } }],
  });
  for (const id of ['gated 1', 'gated 2'])
    await provider.createInstances([newInstance(id, { name: 'gated', lane: lane('a') })]);
  await provider.fetchOrchestrationItems(fetch);
  await provider.listLimits({ limit: 10 });
  await provider.listLanes({ kind: 'task', name: 'limited', limit: 10, order: 'key' });
  await provider.deleteInstancesAtomic([{ instanceIds: ['limited 4'], force: true }]);
}
