import type { Provider } from '../../../src/providers/contract/provider.ts';

/** Reports remaining rows of deleted instances, and queue entries after all instances have ended. */
export async function findRemainingRows(
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
      remains.push(`rows of the deleted ${instanceId} remain`);
    }
  }
  const { orchestrations, activities, messages } = await store.queueDepths();
  const waiting = [orchestrations, activities].map((of) => of.ready + of.delayed + of.claimed);
  if (messages > 0 || waiting.some((count) => count > 0)) {
    remains.push(
      `${messages} messages and ${waiting.join(' and ')} claims remain after all instances have ended`,
    );
  }
  return remains;
}
