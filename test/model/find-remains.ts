import type { Provider } from '../../src/providers/contract/provider.ts';

/** Says what is left of instances that were deleted, and what waits although everything is over. */
export async function findRemains(
  store: Provider,
  gone: ReadonlySet<string>,
): Promise<readonly string[]> {
  const remains: string[] = [];
  const ids = [...gone];
  const children = await store.listChildren(ids);
  for (const [index, instanceId] of ids.entries()) {
    const events = await store.readInstanceHistory({
      instanceId,
      executionId: 1,
      after: 0,
      limit: 1,
    });
    const running = await store.listRunningItems(instanceId);
    const isThere = (await store.measureInstance(instanceId)) !== undefined;
    if (isThere || events.length > 0 || running.length > 0 || children[index]?.length !== 0) {
      remains.push(`something is left of ${instanceId}, though it was deleted`);
    }
  }
  const { orchestrations, activities, messages } = await store.queueDepths();
  const waiting = [orchestrations, activities].map((of) => of.ready + of.delayed + of.claimed);
  if (messages > 0 || waiting.some((count) => count > 0)) {
    remains.push(`${messages} messages and ${waiting.join(' and ')} claims wait for nobody`);
  }
  return remains;
}
