import { decodeEvent } from '../../model/event.ts';
import type { InspectedInstance } from '../../providers/contract/inspection.ts';
import type { InstanceRecord } from '../../providers/contract/instances.ts';
import { ExplainContext, type ExplainParams } from './explain-context.ts';
import { findWaits } from './explain-instance.ts';
import { tooLarge, toPendingWork } from '../reading/inspect-instance.ts';
import { toSummary, type InstanceInfo } from '../reading/instance-info.ts';
import { OpenOperations, type OpenOperation, type OpenUpdate } from './open-operations.ts';
import { summarizeWaits } from './why-summary.ts';

/** An instance of a list, with what it does now. */
export interface ExplainedInstance {
  readonly id: string;
  /** The instance as in a list. */
  readonly instance: InstanceInfo;
  /** What it does, what it waits for, or how it ended: the `short` sentence of `why`. Names are in backticks. */
  readonly text: string;
  /** Work of it that has failed is tried again: an attempt after the first one is due or runs. */
  readonly retrying?: true;
  /** The worker that runs its turn, or the first of its activities and task attempts that run. */
  readonly worker?: string;
  /** When it last made progress, as far as it was read: its last event, claim or heartbeat. */
  readonly lastActiveAt?: number;
}

// A row names a few operations at most.
const maxPending = 10;
const maxEvents = 64;

/** Explains instances in one short sentence each, in the order of their ids. Unknown ids are left out. */
export async function explainInstances(
  params: ExplainParams,
  ids: readonly string[],
): Promise<readonly ExplainedInstance[]> {
  const context = new ExplainContext(params);
  const found = await context.provider.inspectInstances({
    instanceIds: ids,
    maxPending,
    maxEvents,
  });
  const explained: ExplainedInstance[] = [];
  for (const one of found) if (one !== undefined) explained.push(await explain(context, one));
  return explained;
}

async function explain(
  context: ExplainContext,
  { record: stored, turn, events, pending: items }: InspectedInstance,
): Promise<ExplainedInstance> {
  const record = withShownFailure(stored);
  const { open, updates, incomplete, lastEventAt } = openOperations(events, turn.historyLength);
  const pending = items.map(toPendingWork);
  const found = { record, turn, pending, open, updates };
  const { state, operations, job } = await findWaits(context, found, 0);
  const turnWait = state.find((wait) => wait.kind === 'turn');
  const worker = turnWait?.worker ?? pending.find((work) => work.worker !== undefined)?.worker;
  const retrying = pending.some(({ attempt }) => attempt > 1);
  const lastActiveAt = latest([
    lastEventAt,
    turnWait?.claimedAt,
    ...pending.flatMap(({ claimedAt, heartbeatAt }) => [claimedAt, heartbeatAt]),
  ]);
  const text = summarizeWaits([...state, ...operations, ...job], {
    nowMs: turn.nowMs,
    incomplete,
    hasMore: pending.length === maxPending,
  });
  return {
    id: record.instanceId,
    instance: toSummary(record),
    text,
    ...(retrying && { retrying }),
    ...(worker !== undefined && { worker }),
    ...(lastActiveAt !== undefined && { lastActiveAt }),
  };
}

function latest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

function withShownFailure(record: InstanceRecord): InstanceRecord {
  return record.failure === '' ? { ...record, failure: JSON.stringify(tooLarge) } : record;
}

function openOperations(
  events: InspectedInstance['events'],
  historyLength: number,
): {
  readonly open: readonly OpenOperation[];
  readonly updates: readonly OpenUpdate[];
  readonly incomplete: boolean;
  readonly lastEventAt: number | undefined;
} {
  // Without events, something else explains the state.
  let incomplete = events.length > 0 && events.length < historyLength;
  const operations = new OpenOperations({ isPartial: incomplete });
  // The events are the last ones.
  const first = historyLength - events.length + 1;
  let lastEventAt: number | undefined;
  for (const [index, stored] of events.entries()) {
    try {
      const event = decodeEvent(stored);
      operations.add(event, first + index);
      lastEventAt = event.at;
    } catch {
      incomplete = true;
    }
  }
  return { open: operations.all, updates: operations.updates, incomplete, lastEventAt };
}
