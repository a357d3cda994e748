import { decodePayload } from '../../model/values/payload.ts';
import type { RunningItem } from '../../providers/contract/cancellation.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { toInstanceInfo, type InstanceInfo } from './instance-info.ts';
import { toPendingWork, type PendingWork } from './pending-work.ts';

/** How much pending work `get` and `history` show. */
const maxShown = 20;
/** How much pending work `running` lists. */
const maxListed = 1_000;

/** Reads an instance with its input and its pending work; `undefined` for an unknown id. */
export async function inspectInstance(
  provider: Provider,
  instanceId: string,
): Promise<InstanceInfo | undefined> {
  const [record] = await provider.getInstances([instanceId]);
  if (record === undefined) return undefined;
  const [details, running] = await Promise.all([
    provider.inspectInstance({ instanceId, maxPending: maxShown }),
    record.status === 'canceling' ? provider.listRunningItems(instanceId) : undefined,
  ]);
  const info = { ...toInstanceInfo(record), ...(running !== undefined && { running }) };
  if (details === undefined) return info;
  const { input, pending } = details;
  const shown = { ...info, ...(pending.length > 0 && { pending: pending.map(toPendingWork) }) };
  if (input === null) return shown;
  try {
    return { ...shown, input: decodePayload(input) };
  } catch {
    return { ...shown, undecodable: [...(info.undecodable ?? []), 'input'] };
  }
}

/** Lists the first 1,000 entries of work that has no outcome yet, and what runs beyond; none for an unknown id. */
export async function listPendingWork(
  provider: Provider,
  instanceId: string,
): Promise<readonly PendingWork[]> {
  const details = await provider.inspectInstance({ instanceId, maxPending: maxListed });
  const pending = (details?.pending ?? []).map(toPendingWork);
  if (pending.length < maxListed) return pending;
  // What runs is listed, wherever it stands among the rest.
  const listed = new Set(pending.map(({ operation }) => operation));
  const running = await provider.listRunningItems(instanceId);
  return [...pending, ...running.filter(({ operation }) => !listed.has(operation)).map(toRunning)];
}

function toRunning({ worker, cancel, ...item }: RunningItem): PendingWork {
  return {
    ...item,
    kind: 'activity',
    state: 'running',
    ...(worker !== null && { worker }),
    ...(cancel !== null && { cancel }),
  };
}

/** The pending work of one execution, as a page of its history shows it. */
export async function pendingOfExecution(
  provider: Provider,
  instanceId: string,
  executionId: number,
): Promise<readonly PendingWork[]> {
  const details = await provider.inspectInstance({ instanceId, maxPending: maxShown });
  const own = (details?.pending ?? []).filter((item) => item.executionId === executionId);
  return own.map(toPendingWork);
}
