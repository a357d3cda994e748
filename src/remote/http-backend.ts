import { HttpLimits } from './http-limits.ts';
import { HttpPauses } from './http-pauses.ts';
import type { ClientBackend, StartCall, TaskCall, StartedRun } from '../client/client-backend.ts';
import { toWireStart } from '../client/starting/wire-settings.ts';
import { describeWait } from '../client/explaining/describe-wait.ts';
import type {
  ExecutionPage,
  ExportedHistory,
  HistoryCall,
  HistoryPage,
} from '../client/reading/history.ts';
import type { DefinitionInfo } from '../client/reading/instance-counts.ts';
import type { HistoryViewCall } from '../client/reading/history-view.ts';
import type { PendingWork } from '../client/reading/inspect-instance.ts';
import type { InstanceInfo, MeasuredInstance } from '../client/reading/instance-info.ts';
import {
  toCursor,
  toEndCursor,
  type AuditCall,
  type AuditPage,
  type InstancePage,
  type ListCall,
} from '../client/reading/instance-list.ts';
import type { SeriesCall, SeriesMinute } from '../client/reading/series.ts';
import type { UnclaimedWorkInfo, WorkerInfo } from '../client/reading/workers.ts';
import type { Attention } from '../client/explaining/attention.ts';
import type { DefinitionQueueInfo } from '../client/reading/queues.ts';
import type { ExplainedInstance } from '../client/explaining/explain-instances.ts';
import type { Why } from '../client/explaining/why.ts';
import { clientClosed } from '../client/waiting/instance-errors.ts';
import { takeResult } from '../client/waiting/instance-result.ts';
import type { InstanceTree } from '../management/instance-tree.ts';
import type { ForkCall, RetryCall, RetryInfo } from '../management/rerun.ts';
import { systemClock } from '../model/clock.ts';
import { isPerdureError, PerdureError } from '../model/failures/errors.ts';
import { takeDecoded } from '../model/encoding/encoded-value.ts';
import { decodePayload, type Payload } from '../model/values/payload.ts';
import { randomToken } from '../model/values/random-id.ts';
import type {
  CancelInstance,
  StopResult,
  TerminateInstance,
} from '../providers/contract/cancellation.ts';
import type {
  CountInstancesParams,
  InstanceConditions,
  InstanceCount,
} from '../providers/contract/instances.ts';
import type { QueueDepths, SystemMetrics } from '../providers/contract/management.ts';
import { CompletionPoll } from './completion-poll.ts';
import type { CheckedConnect } from './connect-options.ts';
import { HttpBulk } from './http-bulk.ts';
import { HttpDeletion, HttpRetention, HttpSchedules } from './http-management.ts';
import { HttpJobs } from './http-jobs.ts';
import { HttpUpdates } from './http-updates.ts';
import { HttpStates } from './http-states.ts';
import { HttpViews } from './http-views.ts';
import type { Request } from './operations.ts';
import { assertEach } from './read-response.ts';
import { PollSlots } from './shared-poll.ts';
import { startOptions, Transport } from './transport.ts';
import { toWireEvent } from './wire-event.ts';

const repeatable = { repeatable: true };
const maxBatch = 1_000;
const maxBatchBytes = 2_000_000;

/** The backend of a client whose store is open in a server. */
export class HttpBackend implements ClientBackend {
  readonly clock = systemClock;
  readonly jobs: HttpJobs;
  readonly schedules: HttpSchedules;
  readonly pauses: HttpPauses;
  readonly limits: HttpLimits;
  readonly deletion: HttpDeletion;
  readonly bulk: HttpBulk;
  readonly views: HttpViews;
  readonly updates: HttpUpdates;
  readonly states: HttpStates;
  readonly #transport: Transport;
  readonly #completions: CompletionPoll;

  constructor(options: CheckedConnect) {
    const transport = new Transport(options);
    const slots = new PollSlots();
    this.#transport = transport;
    this.jobs = new HttpJobs(transport, slots);
    this.schedules = new HttpSchedules(transport);
    this.pauses = new HttpPauses(transport);
    this.limits = new HttpLimits(transport);
    this.deletion = new HttpDeletion(transport);
    this.bulk = new HttpBulk(transport);
    const describe = (id: string) => describeWait(this, id, 2_000);
    this.views = new HttpViews(transport);
    this.updates = new HttpUpdates(transport, slots);
    this.states = new HttpStates(transport, slots);
    this.#completions = new CompletionPoll(transport, slots, describe);
  }

  retention(assertOpen: () => void): HttpRetention {
    return new HttpRetention(this.#transport, assertOpen);
  }

  async start(call: StartCall): Promise<StartedRun> {
    const { id, name, version, payload, trace, event, onConflict, replaceKey } = call;
    const body = {
      id,
      name,
      ...inputOf(payload),
      ...(version !== null && { version }),
      ...toWireStart(call),
      ...(event !== undefined && { event: toWireEvent(event) }),
      ...(onConflict !== undefined && { onConflict }),
      ...(replaceKey !== undefined && { replaceKey }),
      startKey: randomToken(),
    };
    const options = { ...startOptions, trace };
    return this.#transport.call('startInstance', { body }, options);
  }

  async runTask(call: TaskCall): Promise<StartedRun> {
    const options = { ...startOptions, trace: call.trace };
    const run = await this.#transport.call('runTask', { body: toWireTask(call) }, options);
    return toTaskRun(call, run);
  }

  async runTasks(calls: readonly TaskCall[]): Promise<readonly StartedRun[]> {
    const all: StartedRun[] = [];
    for (const batch of inBatches(calls)) {
      const body = { requests: batch.map(toWireTask) };
      const options = { ...startOptions, trace: batch[0]?.trace };
      const { runs } = await this.#transport.call('runTasks', { body }, options);
      assertEach('runTasks', runs, batch);
      for (const [index, call] of batch.entries()) all.push(toTaskRun(call, runs[index]));
    }
    return all;
  }

  /** Repeatable: the key makes a repeat one event. */
  async raise({ id, trace, ...event }: Parameters<ClientBackend['raise']>[0]): Promise<void> {
    const request = { params: { id }, body: toWireEvent(event) };
    await this.#transport.call('raiseEvent', request, { ...repeatable, trace });
  }

  /** Repeatable, as `terminate` is: the key makes a repeat one request. */
  cancel({ instanceId, reason, actor, cleanupMs, key }: CancelInstance): Promise<StopResult> {
    const body = {
      reason,
      actor: actor ?? undefined,
      cleanupTimeout: cleanupMs,
      key: key ?? randomToken(),
    };
    return this.#transport.call('cancelInstance', { ...at(instanceId), body }, repeatable);
  }

  terminate({ instanceId, reason, actor, tree, key }: TerminateInstance): Promise<StopResult> {
    const body = { reason, actor: actor ?? undefined, tree, key: key ?? randomToken() };
    return this.#transport.call('terminateInstance', { ...at(instanceId), body }, repeatable);
  }

  /** Not repeatable: a lost response may hide a retry that failed again since. */
  retry({ id, from, ...call }: RetryCall): Promise<RetryInfo> {
    return this.#transport.call('retryInstance', { ...at(id), body: { from, ...rerunBody(call) } });
  }

  async fork({ id, newId, from, executionId, ...call }: ForkCall): Promise<void> {
    const body = { from, id: newId, executionId, ...rerunBody(call), startKey: randomToken() };
    await this.#transport.call('forkInstance', { ...at(id), body }, startOptions);
  }

  wait(id: string, timeoutMs: number | undefined): Promise<InstanceInfo> {
    return this.#completions.wait(id, timeoutMs);
  }

  async result(id: string, timeoutMs: number | undefined): Promise<unknown> {
    return resultOf(await this.wait(id, timeoutMs));
  }

  async get(id: string): Promise<InstanceInfo | undefined> {
    try {
      return await this.#transport.call('getInstance', at(id));
    } catch (error) {
      if (isPerdureError(error, 'INSTANCE_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  async running(id: string): Promise<readonly PendingWork[]> {
    return (await this.#transport.call('listRunning', at(id))).items;
  }

  why(id: string): Promise<Why> {
    return this.#transport.call('explainInstance', at(id));
  }

  async explain(ids: readonly string[]): Promise<readonly ExplainedInstance[]> {
    const request = { body: { ids: [...ids] } };
    return (await this.#transport.call('explainInstances', request, repeatable)).items;
  }

  list({ filter, payloads, ...page }: ListCall): Promise<InstancePage> {
    const query = {
      ...toFilterQuery(filter),
      ...toListPageQuery(page),
      ...(payloads && { payloads }),
    };
    return this.#transport.call('listInstances', { query });
  }

  count({ filter, cap }: CountInstancesParams): Promise<InstanceCount> {
    return this.#transport.call('countInstances', { query: { ...toFilterQuery(filter), cap } });
  }

  async definitions(): Promise<readonly DefinitionInfo[]> {
    return (await this.#transport.call('listDefinitions', {})).items;
  }

  history(id: string, call: HistoryCall | HistoryViewCall): Promise<HistoryPage> {
    const query = { ...call } as Request<'getHistory'>['query'];
    return this.#transport.call('getHistory', { ...at(id), query });
  }

  listExecutions(
    id: string,
    { after, limit }: Omit<HistoryCall, 'executionId'>,
  ): Promise<ExecutionPage> {
    return this.#transport.call('listExecutions', { ...at(id), query: { after, limit } });
  }

  exportHistory(id: string, executionId: number | undefined): Promise<ExportedHistory> {
    return this.#transport.call('exportHistory', { ...at(id), query: { executionId } });
  }

  measure(id: string): Promise<MeasuredInstance> {
    return this.#transport.call('measureInstance', at(id));
  }

  tree(id: string): Promise<InstanceTree> {
    return this.#transport.call('getInstanceTree', at(id));
  }

  listAudit({ filter, ...page }: AuditCall): Promise<AuditPage> {
    const { actions, before, ...others } = filter;
    const query = {
      ...others,
      ...toPageQuery(page),
      ...(actions !== undefined && { action: [...actions] }),
      ...(before !== undefined && { to: before }),
    };
    return this.#transport.call('listAudit', { query });
  }

  async queues(): Promise<readonly DefinitionQueueInfo[]> {
    return (await this.#transport.call('listQueues', {})).items;
  }

  attention(): Promise<Attention> {
    return this.#transport.call('getAttention', {});
  }

  queueDepths(): Promise<QueueDepths> {
    return this.#transport.call('queueDepths', {});
  }

  systemMetrics(): Promise<SystemMetrics> {
    return this.#transport.call('systemMetrics', {});
  }

  async workers(): Promise<readonly WorkerInfo[]> {
    return (await this.#transport.call('listWorkers', {})).items;
  }

  async unclaimedWork(): Promise<readonly UnclaimedWorkInfo[]> {
    return (await this.#transport.call('listUnclaimedWork', {})).items;
  }

  async series(call: SeriesCall): Promise<readonly SeriesMinute[]> {
    return (await this.#transport.call('getSeries', { query: { ...call } })).items;
  }

  async close(lastCalls: Promise<void>): Promise<void> {
    this.#completions.close(clientClosed());
    this.updates.close();
    this.states.close(clientClosed());
    this.#transport.closeStreams();
    await lastCalls;
    this.#transport.close();
  }
}

function at(id: string): { readonly params: { readonly id: string } } {
  return { params: { id } };
}

function inputOf(payload: Payload | null): { readonly input?: unknown } {
  return payload === null ? {} : { input: decodePayload(payload) };
}

function toPageQuery({ limit, beforeKey }: { limit: number; beforeKey?: number | undefined }) {
  return { limit, ...(beforeKey !== undefined && { cursor: toCursor(beforeKey) }) };
}

function toListPageQuery(
  page: Pick<ListCall, 'limit' | 'orderBy' | 'beforeKey' | 'beforeEndedAt'>,
) {
  const { limit, orderBy, beforeKey, beforeEndedAt } = page;
  if (orderBy === 'created') return toPageQuery({ limit, beforeKey });
  const cursor = beforeKey === undefined ? undefined : toEndCursor(beforeEndedAt, beforeKey);
  return { limit, orderBy, ...(cursor !== undefined && { cursor }) };
}

function toFilterQuery({ status, names, parentInstanceId, tags, ...others }: InstanceConditions) {
  return {
    ...others,
    ...(status !== undefined && { status: [...status] }),
    ...(names !== undefined && { name: [...names] }),
    ...(parentInstanceId !== undefined && { parentId: parentInstanceId }),
    ...(tags !== undefined && {
      tag: Object.entries(tags).map(([name, value]) => `${name}=${value}`),
    }),
  };
}

function toWireTask(call: TaskCall): Request<'runTask'>['body'] {
  const { id, name, payload, expiresInMs, expiresAt, onFail, onConflict, replaceKey } = call;
  return {
    id,
    task: name,
    ...inputOf(payload),
    ...toWireStart(call),
    ...(onConflict !== undefined && { onConflict }),
    ...(replaceKey !== undefined && { replaceKey }),
    startKey: randomToken(),
    expiresIn: expiresInMs,
    expiresAt,
    onFail,
  };
}

/** A run with a generated id was created by this call, even if an earlier response was lost. */
function toTaskRun({ id, hasGeneratedId }: TaskCall, run: StartedRun | undefined): StartedRun {
  if (run === undefined) throw new Error('The server returned no result for a task.');
  return { id: run.id, created: run.created || (hasGeneratedId && run.id === id) };
}

function* inBatches(calls: readonly TaskCall[]): Iterable<readonly TaskCall[]> {
  let batch: TaskCall[] = [];
  let bytes = 0;
  for (const call of calls) {
    const size = call.payload?.length ?? 0;
    const isFull = batch.length === maxBatch || bytes + size > maxBatchBytes;
    if (isFull && batch.length > 0) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(call);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}

/** Returns the output of a completed instance; throws the error of any other end. */
export function resultOf(info: InstanceInfo): unknown {
  if (info.undecodable?.includes('output') === true) {
    throw new PerdureError(
      'UNDECODABLE',
      'A stored payload is not valid JSON. The store is damaged, or another program wrote to it.',
    );
  }
  takeDecoded(info.output);
  if (info.status === 'completed') return info.output;
  return takeResult({
    instanceId: info.id,
    name: info.name,
    status: info.status,
    output: null,
    failure: info.failure === undefined ? null : JSON.stringify(info.failure),
    cancel: info.cancel ?? null,
    terminated: info.terminated ?? null,
  });
}

function rerunBody({ payload, actor, reason }: Omit<RetryCall, 'id' | 'from'>) {
  return {
    ...(payload !== undefined && { input: decodePayload(payload) }),
    actor: actor ?? undefined,
    reason: reason ?? undefined,
  };
}
