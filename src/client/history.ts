import { PerdureError } from '../model/errors.ts';
import { notFound } from '../model/not-found.ts';
import { decodeEvent, type HistoryEvent } from '../model/event.ts';
import type { InstanceRecord } from '../providers/instances.ts';
import type { Provider } from '../providers/provider.ts';

import { pendingOfExecution } from './inspect-instance.ts';
import type { PendingWork } from './pending-work.ts';
import { maxPageLimit, readLimit } from './instance-list.ts';
import { invalid, readFields } from '../model/option-fields.ts';

/** Which part of a history. */
export interface HistoryOptions {
  /** Default: the current execution. */
  readonly executionId?: number | undefined;
  /** Only events with a greater id. Default 0. */
  readonly after?: number | undefined;
  /** 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
}

/** An event with its id: its place in its execution's history, from 1. */
export interface HistoryEntry {
  readonly id: number;
  readonly event: HistoryEvent;
}

/** Some events of one execution, in order. */
export interface HistoryPage {
  readonly executionId: number;
  readonly items: readonly HistoryEntry[];
  /** The `after` of the next page; absent when there are no more events yet. */
  readonly nextAfter?: number;
  /** On the last page of a current execution: its work that has no outcome yet, the first 20 entries. */
  readonly pending?: readonly PendingWork[];
}

/** One execution as plain JSON: keep it in a repository and replay today's code against it. */
export interface ExportedHistory {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly events: readonly HistoryEvent[];
}

/** Reads one page of a history. */
export async function readHistoryPage(
  provider: Provider,
  instanceId: string,
  options?: HistoryOptions,
): Promise<HistoryPage> {
  const given = readFields(options, 'options', ['executionId', 'after', 'limit'] as const);
  const after = readCount('after', given.after ?? 0, 0);
  const limit = readLimit(given.limit);
  const found = await findExecution(provider, instanceId, given.executionId);
  const { executionId } = found;
  // One more than asked tells whether there is a next page.
  const entries = await readEntries(provider, { instanceId, executionId, after, limit: limit + 1 });
  if (entries.length === 0) await assertNotPruned(provider, instanceId, executionId);
  const page = { executionId, items: entries.slice(0, limit) };
  if (entries.length > limit) return { ...page, nextAfter: after + limit };
  const pending = found.isCurrent
    ? await pendingOfExecution(provider, instanceId, executionId)
    : [];
  return pending.length > 0 ? { ...page, pending } : page;
}

/** Reads a whole history. */
export async function exportHistory(
  provider: Provider,
  instanceId: string,
  givenExecutionId?: number,
): Promise<ExportedHistory> {
  const { incarnation, executionId } = await findExecution(provider, instanceId, givenExecutionId);
  const events: HistoryEvent[] = [];
  let page: readonly HistoryEntry[];
  do {
    const after = events.length;
    page = await readEntries(provider, { instanceId, executionId, after, limit: maxPageLimit });
    for (const { event } of page) events.push(event);
  } while (page.length === maxPageLimit);
  // A history grows only at its end, so pages fit together, unless the id was given to another instance meanwhile.
  const [now] = await provider.getInstances([instanceId]);
  if (now?.incarnation !== incarnation) throw notFound(instanceId);
  await assertNotPruned(provider, instanceId, executionId);
  return { instanceId, incarnation, executionId, events };
}

async function findExecution(
  provider: Provider,
  instanceId: string,
  executionId: unknown,
): Promise<Pick<InstanceRecord, 'incarnation' | 'executionId'> & { readonly isCurrent: boolean }> {
  const wanted = executionId === undefined ? undefined : readCount('executionId', executionId, 1);
  const [record] = await provider.getInstances([instanceId]);
  if (record === undefined) throw notFound(instanceId);
  const { incarnation, executionId: current } = record;
  if (wanted === undefined) return { incarnation, executionId: current, isCurrent: true };
  if (wanted <= current) return { incarnation, executionId: wanted, isCurrent: wanted === current };
  throw new PerdureError(
    'INVALID_INPUT',
    `Instance ${JSON.stringify(instanceId)} has no execution ${wanted}; the current one is ${record.executionId}.`,
  );
}

/** An execution that went while its pages were read must not look like one that was short. */
async function assertNotPruned(
  provider: Provider,
  instanceId: string,
  executionId: number,
): Promise<void> {
  const [found] = await provider.listExecutions({ instanceId, after: executionId - 1, limit: 1 });
  // There is always a current one, and none of its life is later than the one that was read.
  if (found === undefined) throw notFound(instanceId);
  if (found.executionId === executionId) return;
  throw new PerdureError(
    'INVALID_INPUT',
    `Execution ${executionId} of instance ${JSON.stringify(instanceId)} was pruned. See with listExecutions() which are left.`,
  );
}

async function readEntries(
  provider: Provider,
  params: Parameters<Provider['readInstanceHistory']>[0],
): Promise<readonly HistoryEntry[]> {
  const stored = await provider.readInstanceHistory(params);
  return stored.map((event, index) => {
    const id = params.after + index + 1;
    try {
      return { id, event: decodeEvent(event) };
    } catch (cause) {
      throw new PerdureError(
        'UNDECODABLE',
        `Event ${id} of execution ${params.executionId} of instance ${JSON.stringify(params.instanceId)} cannot be decoded. Read on with after: ${id}.`,
        { cause },
      );
    }
  });
}

function readCount(key: string, value: unknown, min: number): number {
  if (Number.isSafeInteger(value) && (value as number) >= min) return value as number;
  throw invalid(key, value, `a whole number of ${min} or more`);
}
