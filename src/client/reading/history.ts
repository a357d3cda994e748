import { decodeEvent, isEventKind, type HistoryEvent } from '../../model/event.ts';
import { PerdureError, notFound } from '../../model/failures/errors.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import type { InstanceRecord, ExecutionRecord } from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { HistoryViewCall } from './history-view.ts';
import { readPayloadOptions, type PayloadOptions } from './payload-options.ts';
import {
  pendingOfExecution,
  summarize,
  type FailureSummary,
  type PendingWork,
} from './inspect-instance.ts';
import { maxPageLimit, readLimit, maxPageBytes } from './instance-list.ts';

/** Options of `history`. Any of `order`, `before`, `kinds`, `operation` and `payloads` omits `pending`. */
export interface HistoryOptions extends PayloadOptions {
  /** Default: the current execution. */
  readonly executionId?: number | undefined;
  /** Only events with a greater id. Default 0. */
  readonly after?: number | undefined;
  /** Only events with a smaller id. Default: no limit. */
  readonly before?: number | undefined;
  /** 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
  /** `desc`: the newest first. Default `asc`. */
  readonly order?: 'asc' | 'desc' | undefined;
  /** Only events of these kinds. A page examines at most 5,000 events, so it may be empty before the last one. */
  readonly kinds?: HistoryEvent['kind'] | readonly HistoryEvent['kind'][] | undefined;
  /** Only events of this operation. */
  readonly operation?: number | undefined;
}

/** An event with its id: its position in the history of its execution, from 1. */
export interface HistoryEntry {
  readonly id: number;
  readonly event: HistoryEvent;
  /** With `payloads: 'none'` or `'head'`: the size of the whole payload in bytes, if there is one. */
  readonly payloadBytes?: number;
}

/** A page of the events of one execution, in order. */
export interface HistoryPage {
  readonly executionId: number;
  /** May be fewer than `limit` before the last page: a page ends at 8 MiB. */
  readonly items: readonly HistoryEntry[];
  /** The `after` of the next page; absent if there are no more events yet. */
  readonly nextAfter?: number;
  /** With `order: 'desc'`: the `before` of the next page; absent on the last. */
  readonly nextBefore?: number;
  /** On the last page of the current execution: the first 20 entries of its pending work. */
  readonly pending?: readonly PendingWork[];
}

/** One execution as plain JSON, to replay newer code against. */
export interface ExportedHistory {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly events: readonly HistoryEvent[];
}

/** `HistoryOptions`, checked. */
export interface HistoryCall {
  /** `undefined`: the current execution. */
  readonly executionId?: number | undefined;
  readonly after: number;
  readonly limit: number;
}

/** Checks the options of `history()`. */
export function readHistoryOptions(options: unknown): HistoryCall | HistoryViewCall {
  const viewKeys = ['before', 'order', 'kinds', 'operation', 'payloads', 'headBytes'] as const;
  const keys = ['executionId', 'after', 'limit', ...viewKeys] as const;
  const fields = readFields(options, 'history()', keys);
  const { executionId, after, limit, before, order = 'asc', kinds, operation } = fields;
  const call = { executionId: readExecutionId(executionId), ...readEntryPage({ after, limit }) };
  if (viewKeys.every((key) => fields[key] === undefined)) return call;
  if (order !== 'asc' && order !== 'desc') throw invalid('order', order, `'asc' or 'desc'`);
  return {
    ...call,
    order,
    ...(before !== undefined && { before: readCount('before', before, 1) }),
    ...(kinds !== undefined && { kinds: readKinds(kinds) }),
    ...(operation !== undefined && { operation: readCount('operation', operation, 1) }),
    ...readPayloadOptions(fields),
  };
}

function readKinds(kinds: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(kinds) ? kinds : [kinds];
  const expected = 'one or more kinds of events, such as activityFailed';
  if (list.length === 0 || list.length > 50) throw invalid('kinds', kinds, expected);
  return list.map((kind) => {
    if (typeof kind === 'string' && isEventKind(kind)) return kind;
    throw invalid('kinds', kind, expected);
  });
}

/** Checks the options of `listExecutions()`. */
export function readExecutionListOptions(options: unknown): Omit<HistoryCall, 'executionId'> {
  return readEntryPage(readFields(options, 'listExecutions()', ['after', 'limit'] as const));
}

function readEntryPage({
  after = 0,
  limit,
}: {
  readonly after?: unknown;
  readonly limit?: unknown;
}) {
  return { after: readCount('after', after, 0), limit: readLimit(limit) };
}

/** Checks the id of an execution, if one was given. */
export function readExecutionId(executionId: unknown): number | undefined {
  return executionId === undefined ? undefined : readCount('executionId', executionId, 1);
}

/** Reads one page of a history. */
export async function readHistoryPage(
  provider: Provider,
  instanceId: string,
  { executionId: wanted, after, limit }: HistoryCall,
): Promise<HistoryPage> {
  const { executionId, isCurrent } = await findExecution(provider, instanceId, wanted);
  // One extra entry shows whether there is a next page.
  const request = { instanceId, executionId, after, limit: limit + 1 };
  const { entries, more } = await readEntries(provider, request);
  if (entries.length === 0) await assertNotPruned(provider, instanceId, executionId);
  const items = entries.slice(0, limit);
  const page = { executionId, items };
  if (more || entries.length > limit) return { ...page, nextAfter: after + items.length };
  const pending = isCurrent ? await pendingOfExecution(provider, instanceId, executionId) : [];
  return pending.length > 0 ? { ...page, pending } : page;
}

/** A whole history that is read lazily, page by page. */
export interface HistoryExport extends Omit<ExportedHistory, 'events'> {
  /** Rejects if the instance or the execution is deleted during the export. */
  readonly pages: AsyncGenerator<readonly HistoryEvent[], void, undefined>;
}

/** Reads a whole history. */
export async function exportHistory(
  provider: Provider,
  instanceId: string,
  executionId?: number,
): Promise<ExportedHistory> {
  const { pages, ...of } = await openHistoryExport(provider, instanceId, executionId);
  const events: HistoryEvent[] = [];
  for await (const page of pages) for (const event of page) events.push(event);
  return { ...of, events };
}

/** Opens a whole history; holds at most one page in memory. */
export async function openHistoryExport(
  provider: Provider,
  instanceId: string,
  givenExecutionId?: number,
): Promise<HistoryExport> {
  const { incarnation, executionId } = await findExecution(provider, instanceId, givenExecutionId);
  async function* read(): HistoryExport['pages'] {
    let after = 0;
    for (;;) {
      const wanted = { instanceId, executionId, after, limit: maxPageLimit };
      const { entries, more } = await readEntries(provider, wanted);
      // The id may have been reused by another instance.
      const [now] = await provider.getInstances([instanceId]);
      if (now?.incarnation !== incarnation) throw notFound(instanceId);
      after += entries.length;
      if (entries.length > 0) yield entries.map(({ event }) => event);
      if (!more && entries.length < maxPageLimit) break;
    }
    await assertNotPruned(provider, instanceId, executionId);
  }
  return { instanceId, incarnation, executionId, pages: read() };
}

async function findExecution(
  provider: Provider,
  instanceId: string,
  wanted: number | undefined,
): Promise<Pick<InstanceRecord, 'incarnation' | 'executionId'> & { readonly isCurrent: boolean }> {
  const [record] = await provider.getInstances([instanceId]);
  if (record === undefined) throw notFound(instanceId);
  const { incarnation, executionId: current } = record;
  if (wanted === undefined) return { incarnation, executionId: current, isCurrent: true };
  if (wanted <= current) return { incarnation, executionId: wanted, isCurrent: wanted === current };
  throw new PerdureError(
    'INVALID_INPUT',
    `Instance ${JSON.stringify(instanceId)} has no execution ${wanted}. The current one is ${record.executionId}.`,
  );
}

/** Throws if the execution was pruned while its pages were read: it would look like a short one. */
async function assertNotPruned(
  provider: Provider,
  instanceId: string,
  executionId: number,
): Promise<void> {
  const [found] = await provider.listExecutions({ instanceId, after: executionId - 1, limit: 1 });
  // An instance always has a current execution, so none means that it was deleted.
  if (found === undefined) throw notFound(instanceId);
  if (found.executionId === executionId) return;
  throw new PerdureError(
    'INVALID_INPUT',
    `Execution ${executionId} of instance ${JSON.stringify(instanceId)} was pruned. List the remaining executions with listExecutions().`,
  );
}

async function readEntries(
  provider: Provider,
  params: Parameters<Provider['readInstanceHistory']>[0],
): Promise<{ readonly entries: readonly HistoryEntry[]; readonly more: boolean }> {
  const read = await provider.readInstanceHistory({ ...params, maxBytes: maxPageBytes });
  // The event at which the page ended is last and has no data.
  const stored = read.filter(({ withheld }) => withheld !== true);
  const entries = stored.map((event, index) => {
    const id = params.after + index + 1;
    try {
      return { id, event: decodeEvent(event) };
    } catch (cause) {
      throw new PerdureError(
        'UNDECODABLE',
        `Event ${id} of execution ${params.executionId} of instance ${JSON.stringify(params.instanceId)} cannot be decoded. Continue with after: ${id}.`,
        { cause },
      );
    }
  });
  return { entries, more: stored.length < read.length };
}

function readCount(key: string, value: unknown, min: number): number {
  if (Number.isSafeInteger(value) && (value as number) >= min) return value as number;
  throw invalid(key, value, `a whole number of ${min} or more`);
}

/** Options of `listExecutions`. */
export interface ExecutionListOptions {
  /** Only executions with a greater id. Default 0. */
  readonly after?: number | undefined;
  /** 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
}

/** One execution of an instance. */
export interface ExecutionInfo extends Omit<ExecutionRecord, 'failure'> {
  /** Why an earlier execution failed. `null` for the current one. */
  readonly failure: FailureSummary | null;
}

/** A page of the executions of one instance, oldest first, without pruned ones. */
export interface ExecutionPage {
  readonly items: readonly ExecutionInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: number;
}

/** Reads one page of an instance's executions. */
export async function listExecutions(
  provider: Provider,
  instanceId: string,
  { after, limit }: Omit<HistoryCall, 'executionId'>,
): Promise<ExecutionPage> {
  // One extra entry shows whether there is a next page.
  const executions = await provider.listExecutions({ instanceId, after, limit: limit + 1 });
  if (executions.length === 0) await assertExists(provider, instanceId);
  const items = executions.slice(0, limit).map((execution): ExecutionInfo => ({
    ...execution,
    failure: execution.failure === null ? null : summarize(execution.failure),
  }));
  const last = items.at(-1);
  if (last === undefined || executions.length <= limit) return { items };
  return { items, nextAfter: last.executionId };
}

async function assertExists(provider: Provider, instanceId: string): Promise<void> {
  const [record] = await provider.getInstances([instanceId]);
  if (record === undefined) throw notFound(instanceId);
}
