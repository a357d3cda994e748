import type { Client, InstanceInfo, CancelRequest, Failure, InstanceStatus } from '../../index.ts';
import { activityNames, hasItems, type StepKind } from '../definition/graph.ts';
import { invalidFlow } from '../definition/flow-errors.ts';
import { FlowHistory } from './flow-history.ts';
import { statusOf } from '../definition/run-format.ts';
import { RunReader } from './run-reader.ts';

/** What has become of a step or an item. */
export type StepStatus =
  'pending' | 'queued' | 'running' | 'completed' | 'failed' | 'skipped' | 'canceled';

/** How something that runs once has gone so far. All times are milliseconds since the epoch. */
export interface StepState {
  readonly status: StepStatus;
  /** How often it was tried, as far as that is known: always for what has ended, and while it runs. */
  readonly attempts?: number;
  readonly queuedAt?: number;
  /** When a worker took it, for the last attempt; of a map, generator or reduce the first of its calls. */
  readonly startedAt?: number;
  readonly endedAt?: number;
  readonly output?: unknown;
  /** Its output is not shown, because those of the steps before it have 8 MiB; the history of the run has it. */
  readonly outputOmitted?: true;
  readonly failure?: Failure;
  /** The name of the worker that runs it, or ran it last; of items each has its own. */
  readonly worker?: string;
  /** Why it was canceled. */
  readonly reason?: string;
}

/** How many items there are in each status. */
export type ItemCounts = Readonly<Record<Exclude<StepStatus, 'skipped'>, number>>;

/** One step of a run. */
export interface FlowStep extends StepState {
  readonly name: string;
  readonly kind: StepKind;
  /** The items of a map or generator that are known so far; their outputs are read with `readFlowItems`. */
  readonly items?: ItemCounts;
}

/** One item of a map or generator. */
export interface FlowItem extends StepState {
  readonly index: number;
  readonly item?: unknown;
}

/** A run of a flow with its steps. */
export interface FlowRun {
  readonly id: string;
  readonly flow: string;
  readonly status: InstanceStatus;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly failure?: Failure;
  /** That of its steps that have none of their own. */
  readonly priority?: number;
  readonly createdAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** The first wish that it stop: why, who asked, and when. */
  readonly cancel?: CancelRequest;
  /** When it was canceled for good. */
  readonly canceledAt?: number;
  /** Why its turns are held back, and since when. */
  readonly blocked?: { readonly reason: string; readonly at: number };
  /** The step that completed the whole flow, and why. */
  readonly completedEarly?: { readonly step: string; readonly reason: string };
  /** Signals that were taken. */
  readonly signals: readonly string[];
  /** In the order of their definition. */
  readonly steps: readonly FlowStep[];
  /** The on-fail handler, if it was called. */
  readonly onFail?: StepState;
}

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
