import type { Client, InstanceInfo } from '../../index.ts';
import { FlowHistory } from './flow-history.ts';
import type { FlowItem, FlowRun } from './flow-run.ts';
import { statusOf } from './flow-status.ts';
import { activityNames, hasItems } from '../definition/graph.ts';
import { RunReader } from './run-reader.ts';
import { invalidFlow } from '../definition/invalid-flow.ts';

/** Which items to read. */
export interface ItemPageOptions {
  /** Only items after this place. Default: from the first. */
  readonly after?: number | undefined;
  /** Default 100. */
  readonly limit?: number | undefined;
}

// As every page: an item that is larger comes alone.
const maxPageBytes = 8 * 1024 * 1024;

/** Some items of a map or generator, in order. A page ends at 8 MiB, so it may be shorter than its limit. */
export interface FlowItemPage {
  readonly items: readonly FlowItem[];
  /** The `after` of the next page; absent when there are no more items yet. */
  readonly nextAfter?: number;
}

/**
 * Reads a run with the state of every step, from what the store knows: its row, its history, and what workers hold.
 * Items of large maps are counted; `readFlowItems` lists them. `undefined` for an unknown id.
 */
export async function readFlowRun(client: Client, id: string): Promise<FlowRun | undefined> {
  const info = await client.get(id);
  if (info === undefined) return undefined;
  const history = await FlowHistory.read(client, id);
  const reader = new RunReader(info, history);
  const { completedEarly, signals } = statusOf(info);
  const onFail = reader.onFail();
  return {
    ...ofInstance(info),
    flow: info.name,
    ...(history.run?.input !== undefined && { input: history.run.input }),
    ...(history.run?.priority !== undefined && { priority: history.run.priority }),
    ...(completedEarly !== undefined && { completedEarly }),
    signals: Object.keys(signals ?? {}),
    steps: reader.steps(),
    ...(onFail !== undefined && { onFail }),
  };
}

/** Reads a page of the items of a map or generator step, with their inputs and outputs. */
export async function readFlowItems(
  client: Client,
  id: string,
  step: string,
  options: ItemPageOptions = {},
): Promise<FlowItemPage> {
  const { after = -1, limit = 100 } = options;
  const info = await client.handle(id).status();
  const focus = { step, after, limit, maxBytes: maxPageBytes };
  const history = await FlowHistory.read(client, id, focus);
  const flow = history.run?.flow;
  const node = flow?.steps.find(({ name }) => name === step);
  if (flow === undefined) return { items: [] };
  if (node === undefined || !hasItems(node.kind)) {
    throw invalidFlow(`Flow '${flow.name}' has no map or generator step '${step}'.`);
  }
  const calls = history.calls(activityNames[node.kind](flow.name, step));
  const reader = new RunReader(info, history);
  const end = Math.min(after + 1 + limit, history.cutAt);
  const items = calls.slice(after + 1, end).map((call) => reader.item(call));
  const last = end - 1;
  return calls.length > last + 1 ? { items, nextAfter: last } : { items };
}

function ofInstance(info: InstanceInfo) {
  const { id, status, output, failure, createdAt, startedAt, endedAt, cancel, blocked } = info;
  return {
    id,
    status,
    ...(output !== undefined && { output }),
    ...(failure !== undefined && { failure }),
    createdAt,
    ...(startedAt !== undefined && { startedAt }),
    ...(endedAt !== undefined && { endedAt }),
    ...(cancel !== undefined && { cancel }),
    ...(status === 'canceled' && endedAt !== undefined && { canceledAt: endedAt }),
    ...(blocked !== undefined && { blocked }),
  };
}
