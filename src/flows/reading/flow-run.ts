import type { CancelRequest, Client, Failure, InstanceInfo, InstanceStatus } from '../../index.ts';
import { invalidFlow, quote } from '../definition/flow-errors.ts';
import { activityNames, hasItems, type StepKind } from '../definition/graph.ts';
import { statusOf } from '../definition/run-format.ts';
import { FlowHistory } from './flow-history.ts';
import { RunReader } from './run-reader.ts';

/** The status of a step or an item. */
export type StepStatus =
  | 'pending'
  | 'queued'
  | 'running'
  | 'completed'
  | 'failed'
  | 'skipped'
  | 'canceled';

/** The state of a step, an item or an on-fail handler. All times are milliseconds since the epoch. */
export interface StepState {
  readonly status: StepStatus;
  /** The number of attempts. Known while it runs and after it has completed or failed. */
  readonly attempts?: number;
  readonly queuedAt?: number;
  /** When a worker claimed its last attempt; for a map, generator or reduce, the first of its calls. */
  readonly startedAt?: number;
  readonly endedAt?: number;
  readonly output?: unknown;
  /** Set if the output is omitted, because earlier outputs reached 8 MiB. The history has it. */
  readonly outputOmitted?: true;
  readonly failure?: Failure;
  /** The name of the worker that runs it, or ran it last. For maps and generators, see their items. */
  readonly worker?: string;
  /** The reason of its cancel. */
  readonly reason?: string;
}

/** The number of items in each status. */
export type ItemCounts = Readonly<Record<Exclude<StepStatus, 'skipped'>, number>>;

/** One step of a run. */
export interface FlowStep extends StepState {
  readonly name: string;
  readonly kind: StepKind;
  /** Counts of the items of a map or generator known so far. `readFlowItems` returns the items. */
  readonly items?: ItemCounts;
}

/** One item of a map or generator. */
export interface FlowItem extends StepState {
  readonly index: number;
  readonly item?: unknown;
}

/** A flow run with the state of its steps. */
export interface FlowRun {
  readonly id: string;
  readonly flow: string;
  readonly status: InstanceStatus;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly failure?: Failure;
  /** The default priority of its steps. */
  readonly priority?: number;
  readonly createdAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** The first cancel request: its reason, actor and time. */
  readonly cancel?: CancelRequest;
  /** When its status became `canceled`. */
  readonly canceledAt?: number;
  /** Set while the run is blocked. */
  readonly blocked?: NonNullable<InstanceInfo['blocked']>;
  /** The step that called `completeEarly`, and its reason. */
  readonly completedEarly?: { readonly step: string; readonly reason: string };
  /** The names of the signals that the run has received. */
  readonly signals: readonly string[];
  /** The steps in definition order. */
  readonly steps: readonly FlowStep[];
  /** The on-fail handler, if it was called. */
  readonly onFail?: StepState;
}

/** A page of items to read. */
export interface ItemPageOptions {
  /** Return items after this index. Default: from the first. */
  readonly after?: number | undefined;
  /** Maximum items per page. Default: 100. */
  readonly limit?: number | undefined;
}

// An item above this size is returned on a page of its own.
const maxPageBytes = 8 * 1024 * 1024;

/** A page of items in index order. It ends at 8 MiB, so it may have fewer items than `limit`. */
export interface FlowItemPage {
  readonly items: readonly FlowItem[];
  /** The `after` of the next page. Absent if there are no more items yet. */
  readonly nextAfter?: number;
}

/**
 * Reads a run with the state of every step; `undefined` for an unknown id. Items of maps and generators are only counted:
 * `readFlowItems` returns them.
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

/**
 * Reads a page of the items of a map or generator step, with inputs and outputs. Throws `INVALID_FLOW` for any other
 * step.
 */
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
    throw invalidFlow(`Flow ${quote(flow.name)} has no map or generator step ${quote(step)}.`);
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
