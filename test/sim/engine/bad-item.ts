import type { Provider } from '../../../src/providers/contract/provider.ts';
import { newInstance } from '../../../src/testing/conformance/sample-data.ts';
import type { World } from './scheduler.ts';

/** Calls that other calls may join in one transaction. */
export const joined: ReadonlySet<string> = new Set([
  'createInstances',
  'createTasks',
  'ackWorkItems',
  'ackTurns',
  'ackOrchestrationItems',
  'renewWorkItemLocks',
  'enqueueMessages',
  'requestCancel',
]);

/**
 * Sends a start whose message cannot be stored, as a client with a bug would. It fails after its first write, in the
 * transaction of the calls of the same step. The store must reject it alone.
 */
export function sendBadItem(world: World, store: Provider, number: number): void {
  const id = `bad${number}`;
  const instance = newInstance(id);
  const start = { ...instance.start, data: {} as never };
  void expectRefusal(world, id, store.createInstances([{ ...instance, start }]));
}

async function expectRefusal(
  world: World,
  id: string,
  created: ReturnType<Provider['createInstances']>,
): Promise<void> {
  try {
    const [result] = await created;
    if (result?.kind !== 'refused') world.violate(`the store accepted ${id}`);
  } catch (error) {
    world.violate(`${id} fails its call: ${String(error)}`);
  }
}
