import { deleteInstanceBulk, deleteInstance } from '../management/delete-instance.ts';
import { readInstanceTree, type InstanceTree } from '../management/instance-tree.ts';
import { pruneExecutionsBulk, pruneExecutions } from '../management/prune-executions.ts';
import { forkInstance, retryInstance } from '../management/rerun.ts';
import type { ForkCall, RetryCall, RetryInfo } from '../management/rerun.ts';
import { RetentionControl } from '../management/retention-control.ts';
import type { BulkBackend, BulkCall, BulkResult } from '../management/bulk-call.ts';
import { runBulkSlice } from '../management/bulk-slice.ts';
import { newAuditEntry } from '../management/management-options.ts';
import type { Clock } from '../model/clock.ts';
import { ProviderError, notFound } from '../model/failures/errors.ts';
import { invalidOption } from '../model/option-fields.ts';
import { nextIteration } from '../model/platform.ts';
import { defaultMaxPendingEvents } from '../model/admission-options.ts';
import { generateEventKey } from '../model/event-key.ts';
import { randomToken } from '../model/values/random-id.ts';
import type {
  CancelInstance,
  StopResult,
  TerminateInstance,
} from '../providers/contract/cancellation.ts';
import type {
  CreateResult,
  EnqueueResult,
  NewInstance,
  CountInstancesParams,
  InstanceCount,
} from '../providers/contract/instances.ts';
import type { AuditEntry, QueueDepths, SystemMetrics } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { CreateTaskResult, NewTask } from '../providers/contract/tasks.ts';
import type {
  ClientBackend,
  DeletionBackend,
  StartCall,
  StartedRun,
  TaskCall,
} from './client-backend.ts';
import { LocalJobs, toNewTask } from './local-jobs.ts';
import { listQueues, type DefinitionQueueInfo } from './reading/queues.ts';
import { readSeries, type SeriesCall, type SeriesMinute } from './reading/series.ts';
import {
  findUnclaimedWork,
  listWorkers,
  type UnclaimedWorkInfo,
  type WorkerInfo,
} from './reading/workers.ts';
import { toEventMessage, toNewInstance, withIdentity } from './starting/new-instance.ts';
import { LocalLimits } from './managing/local-limits.ts';
import { LocalPauses } from './managing/local-pauses.ts';
import { LocalSchedules } from './local-schedules.ts';
import { LocalStates } from './local-states.ts';
import { LocalViews } from './local-views.ts';
import type { Attention } from './explaining/attention.ts';
import { findAttention } from './explaining/find-attention.ts';
import { readAttention } from './explaining/read-attention.ts';
import { describeWait } from './explaining/describe-wait.ts';
import { explainInstance } from './explaining/explain-instance.ts';
import { explainInstances, type ExplainedInstance } from './explaining/explain-instances.ts';
import {
  exportHistory,
  listExecutions,
  readHistoryPage,
  type ExecutionPage,
  type ExportedHistory,
  type HistoryCall,
  type HistoryPage,
} from './reading/history.ts';
import { listDefinitions, type DefinitionInfo } from './reading/instance-counts.ts';
import { isView, readHistoryView, type HistoryViewCall } from './reading/history-view.ts';
import { inspectInstance, listPendingWork, type PendingWork } from './reading/inspect-instance.ts';
import {
  toInstanceInfo,
  type InstanceInfo,
  type MeasuredInstance,
} from './reading/instance-info.ts';
import {
  listAudit,
  listInstances,
  type AuditCall,
  type AuditPage,
  type InstancePage,
  type ListCall,
} from './reading/instance-list.ts';
import type { Why } from './explaining/why.ts';
import { LocalUpdates } from './updating/local-updates.ts';
import { CompletionWaiter } from './waiting/completion-waiter.ts';
import { alreadyExists, eventRejected } from './waiting/instance-errors.ts';
import { takeResult } from './waiting/instance-result.ts';

export interface LocalBackendOptions {
  readonly provider: Provider;
  readonly clock: Clock;
  /** Maximum events buffered for one instance. Default 2,000. */
  readonly maxPendingEvents?: number | undefined;
  /** Polling interval of waits for changes without a hint, in milliseconds. Default 1,000. */
  readonly recheckMs?: number | undefined;
  /** Returns a worker of this process that creates an instance together with its first turn. */
  readonly starter?: (() => InstanceStarter | undefined) | undefined;
  /** Notifies the workers of this process of a changed schedule. */
  readonly onScheduleChanged?: (() => void) | undefined;
  /** Notifies the workers of this process of a session that was opened or is to end. */
  readonly onSessionChanged?: (() => void) | undefined;
}

/** Creates instances together with their first turn. */
export interface InstanceStarter {
  /** Returns `undefined` if it cannot create this instance; the store then does. */
  start(instance: NewInstance): Promise<CreateResult> | undefined;
}

// Bounds how many encoded payloads are in memory. A provider creates the runs in smaller transactions. See decision 042.
const maxBatch = 10_000;

/** Maximum runs per read of a repeated call. */
const maxRead = 500;

/** The duration of a part of a bulk operation: its progress is reported this often. */
const sliceMs = 250;
const instancesPerSlice = 1_000;

/** Bulk operations on a store that is open in this process. */
export class LocalBulk implements BulkBackend {
  readonly #provider: Provider;
  readonly #maxPendingEvents: number;

  constructor(provider: Provider, maxPendingEvents: number) {
    this.#provider = provider;
    this.#maxPendingEvents = maxPendingEvents;
  }

  run(call: BulkCall, signal: AbortSignal | undefined, maxMs = sliceMs): Promise<BulkResult> {
    return runBulkSlice(this.#provider, call, {
      maxMs,
      maxInstances: instancesPerSlice,
      maxPendingEvents: this.#maxPendingEvents,
      signal,
    });
  }
}

/** The backend of a client whose store is open in this process. */
export class LocalBackend implements ClientBackend {
  readonly clock: Clock;
  readonly provider: Provider;
  readonly completions: CompletionWaiter;
  readonly jobs: LocalJobs;
  readonly schedules: LocalSchedules;
  readonly pauses: LocalPauses;
  readonly limits: LocalLimits;
  readonly deletion: DeletionBackend;
  readonly bulk: LocalBulk;
  readonly views: LocalViews;
  readonly updates: LocalUpdates;
  readonly states: LocalStates;
  readonly #maxPendingEvents: number;
  readonly #starter: () => InstanceStarter | undefined;

  constructor(options: LocalBackendOptions) {
    const { provider, clock } = options;
    this.clock = clock;
    this.provider = provider;
    this.#maxPendingEvents = checkCount(
      'maxPendingEvents',
      options.maxPendingEvents ?? defaultMaxPendingEvents,
    );
    this.#starter = options.starter ?? (() => undefined);
    const describe = (id: string) => describeWait(this, id, 1_000);
    this.completions = new CompletionWaiter({ ...options, describeWait: describe });
    this.jobs = new LocalJobs({ ...options, completions: this.completions });
    this.views = new LocalViews(provider, options.recheckMs);
    this.updates = new LocalUpdates(options);
    this.states = new LocalStates(options);
    this.pauses = new LocalPauses(provider);
    this.limits = new LocalLimits(provider);
    this.schedules = new LocalSchedules(provider, options.onScheduleChanged);
    this.bulk = new LocalBulk(provider, this.#maxPendingEvents);
    this.deletion = {
      deleteInstance: (...args) => deleteInstance(provider, ...args),
      deleteInstanceBulk: (...args) => deleteInstanceBulk(provider, ...args),
      pruneExecutions: (...args) => pruneExecutions(provider, ...args),
      pruneExecutionsBulk: (...args) => pruneExecutionsBulk(provider, ...args),
    };
  }

  retention(assertOpen: () => void): RetentionControl {
    return new RetentionControl(this.provider, this.clock, assertOpen);
  }

  async start(call: StartCall): Promise<StartedRun> {
    const { id: instanceId, replaceKey, startKey, isRepeat } = call;
    const incarnation = replaceKey ?? startKey ?? randomToken();
    const wanted = toNewInstance(call, { instanceId, incarnation, isRepeat });
    const identity = withEventKey(call, startKey ?? generateEventKey(this.clock.now()));
    const instance = withIdentity(wanted, identity, this.#maxPendingEvents);
    const { recentStarts } = this.completions;
    const start = recentStarts.begin(instance);
    let isRepeated = isRepeat === true;
    let result: CreateResult | undefined;
    try {
      result = await this.#create(instance, () => (isRepeated = true));
    } finally {
      recentStarts.settle(start, result);
    }
    if (result.kind === 'refused') throw result.error;
    if (result.kind === 'conflict') throw alreadyExists(instance, result.name);
    const id = result.kind === 'active' ? result.instanceId : instanceId;
    if (result.kind !== 'created' && result.event !== undefined) {
      confirmRaised(id, call.event?.name ?? '', result.event);
    }
    const sent = { ...instance, isRepeat: isRepeated };
    return theOnly(
      await this.#completeRepeats([sent], [{ id, created: result.kind === 'created' }]),
    );
  }

  async runTask(call: TaskCall): Promise<StartedRun> {
    const task = toNewTask(call, this.clock.now());
    let sent = task;
    const result = await this.completions.recentStarts.during(task, async () => {
      const created = await this.#createTasks([task]);
      [sent = task] = created.tasks;
      return created.results[0];
    });
    return theOnly(await this.#completeRepeats([sent], [toTaskRun(sent, result)]));
  }

  async runTasks(calls: readonly TaskCall[]): Promise<readonly StartedRun[]> {
    const tasks = calls.map((call) => toNewTask(call, this.clock.now()));
    const all: { readonly task: NewTask; readonly result: CreateTaskResult | undefined }[] = [];
    for (let from = 0; from < tasks.length; from += maxBatch) {
      const { tasks: sent, results } = await this.#createTasks(tasks.slice(from, from + maxBatch));
      for (const [index, task] of sent.entries()) all.push({ task, result: results[index] });
    }
    return this.#completeRepeats(
      all.map(({ task }) => task),
      all.map(({ task, result }) => toTaskRun(task, result)),
    );
  }

  async raise({ id, trace, ...event }: Parameters<ClientBackend['raise']>[0]): Promise<void> {
    const keyed = { ...event, key: event.key ?? generateEventKey(this.clock.now()) };
    const message = toEventMessage(keyed, trace, this.#maxPendingEvents);
    const [result] = await twice(() =>
      this.provider.enqueueMessages([{ instanceId: id, ...message }]),
    );
    confirmRaised(id, event.name, result);
  }

  async cancel(call: CancelInstance): Promise<StopResult> {
    const request = { ...withKey(call), ...stopAudit('cancel', call) };
    return theOnly(await twice(() => this.provider.requestCancel([request])));
  }

  async terminate(call: TerminateInstance): Promise<StopResult> {
    const request = { ...withKey(call), ...stopAudit('terminate', call) };
    return theOnly(await twice(() => this.provider.terminate([request])));
  }

  retry(call: RetryCall): Promise<RetryInfo> {
    return retryInstance(this.provider, call);
  }

  fork(call: ForkCall): Promise<void> {
    return forkInstance(this.provider, call);
  }

  async wait(id: string, timeoutMs: number | undefined): Promise<InstanceInfo> {
    return toInstanceInfo(await this.completions.wait(id, timeoutMs));
  }

  async result(id: string, timeoutMs: number | undefined): Promise<unknown> {
    return takeResult(await this.completions.waitForOutput(id, timeoutMs));
  }

  get(id: string): Promise<InstanceInfo | undefined> {
    return inspectInstance(this.provider, id);
  }

  running(id: string): Promise<readonly PendingWork[]> {
    return listPendingWork(this.provider, id);
  }

  why(id: string): Promise<Why> {
    return explainInstance({ provider: this.provider }, id);
  }

  explain(ids: readonly string[]): Promise<readonly ExplainedInstance[]> {
    return explainInstances({ provider: this.provider }, ids);
  }

  list(call: ListCall): Promise<InstancePage> {
    return listInstances(this.provider, call);
  }

  count(call: CountInstancesParams): Promise<InstanceCount> {
    return this.provider.countInstances(call);
  }

  definitions(): Promise<readonly DefinitionInfo[]> {
    return listDefinitions(this.provider);
  }

  async history(id: string, call: HistoryCall | HistoryViewCall): Promise<HistoryPage> {
    const page = isView(call)
      ? await readHistoryView(this.provider, id, call)
      : await readHistoryPage(this.provider, id, call);
    // SQLite reads synchronously: a caller that reads page after page would block the event loop.
    if (page.nextAfter !== undefined || page.nextBefore !== undefined) await nextIteration();
    return page;
  }

  listExecutions(id: string, call: Omit<HistoryCall, 'executionId'>): Promise<ExecutionPage> {
    return listExecutions(this.provider, id, call);
  }

  exportHistory(id: string, executionId: number | undefined): Promise<ExportedHistory> {
    return exportHistory(this.provider, id, executionId);
  }

  async measure(id: string): Promise<MeasuredInstance> {
    const info = await this.get(id);
    const size = info && (await this.provider.measureInstance(id));
    if (info === undefined || size === undefined) throw notFound(id);
    return { ...info, size };
  }

  async tree(id: string): Promise<InstanceTree> {
    const [record] = await this.provider.getInstances([id]);
    if (record === undefined) throw notFound(id);
    return readInstanceTree(this.provider, id);
  }

  listAudit(call: AuditCall): Promise<AuditPage> {
    return listAudit(this.provider, call);
  }

  queueDepths(): Promise<QueueDepths> {
    return this.provider.queueDepths();
  }

  queues(): Promise<readonly DefinitionQueueInfo[]> {
    return listQueues(this.provider);
  }

  async attention(): Promise<Attention> {
    return findAttention(await readAttention(this.provider));
  }

  systemMetrics(): Promise<SystemMetrics> {
    return this.provider.systemMetrics();
  }

  workers(): Promise<readonly WorkerInfo[]> {
    return listWorkers(this.provider);
  }

  unclaimedWork(): Promise<readonly UnclaimedWorkInfo[]> {
    return findUnclaimedWork(this.provider);
  }

  series(call: SeriesCall): Promise<readonly SeriesMinute[]> {
    return readSeries(this.provider, call);
  }

  async close(lastCalls: Promise<void>): Promise<void> {
    this.completions.close();
    this.views.close();
    this.updates.close();
    this.states.close();
    await lastCalls;
  }

  /** Repeats a start whose outcome is unknown: the second one finds the instance of the first, also if it was deleted. */
  #create(instance: NewInstance, onRepeat: () => void): Promise<CreateResult> {
    const starter = isImmediate(instance) ? this.#starter() : undefined;
    const created = starter?.start(instance) ?? this.#createInStore(instance);
    return created.catch((error: unknown) => {
      if (!isOutcomeUnknown(error)) throw error;
      onRepeat();
      return this.#createInStore({ ...instance, isRepeat: true });
    });
  }

  /** Creates runs. Repeats a call whose outcome is unknown: the second one finds the runs of the first. */
  async #createTasks(tasks: readonly NewTask[]): Promise<{
    readonly tasks: readonly NewTask[];
    readonly results: readonly CreateTaskResult[];
  }> {
    try {
      return { tasks, results: await this.provider.createTasks(tasks) };
    } catch (error) {
      if (!isOutcomeUnknown(error)) throw error;
      const repeats = tasks.map((task) => ({ ...task, isRepeat: true }));
      return { tasks: repeats, results: await this.provider.createTasks(repeats) };
    }
  }

  /** Sets `created` for repeated starts that have found the instance of their first attempt. */
  async #completeRepeats(
    starts: readonly Pick<NewInstance, 'instanceId' | 'incarnation' | 'isRepeat'>[],
    runs: readonly StartedRun[],
  ): Promise<readonly StartedRun[]> {
    if (!starts.some(({ isRepeat }) => isRepeat === true)) return runs;
    const completed = [...runs];
    const unsure = [...starts.entries()].filter(([index, { instanceId, isRepeat }]) => {
      const run = runs[index];
      return isRepeat === true && run?.created === false && run.id === instanceId;
    });
    for (let from = 0; from < unsure.length; from += maxRead) {
      const part = unsure.slice(from, from + maxRead);
      const ids = part.map(([, { instanceId }]) => instanceId);
      const records = await this.provider.getInstances(ids);
      for (const [place, [index, { instanceId, incarnation }]] of part.entries()) {
        const { [place]: record } = records;
        // The store only finds a deleted instance for the start that has created it.
        const created = record === undefined || record.incarnation === incarnation;
        completed[index] = { id: instanceId, created };
      }
    }
    return completed;
  }

  async #createInStore(instance: NewInstance): Promise<CreateResult> {
    return theOnly(await this.provider.createInstances([instance]));
  }
}

/** Repeats a write whose outcome is unknown once. Its key makes that harmless. */
async function twice<Value>(write: () => Promise<Value>): Promise<Value> {
  try {
    return await write();
  } catch (error) {
    if (!isOutcomeUnknown(error)) throw error;
    return write();
  }
}

function isOutcomeUnknown(error: unknown): boolean {
  return error instanceof ProviderError && error.outcomeUnknown;
}

function withKey<Call extends CancelInstance | TerminateInstance>(call: Call): Call {
  return call.key === undefined ? { ...call, key: randomToken() } : call;
}

/** Gives the event of a start a key, so that a repeated start does not raise it again. */
function withEventKey(call: StartCall, key: string): StartCall {
  const { event } = call;
  if (event === undefined || event.key !== undefined) return call;
  return { ...call, event: { ...event, key } };
}

/** Whether the first turn of an instance may run before the instance exists. */
function isImmediate(instance: NewInstance): boolean {
  const { delayMs, runAt, event, dedupeKey, onConflict, isRepeat } = instance;
  return (
    isRepeat === undefined &&
    delayMs === undefined &&
    runAt === undefined &&
    event === undefined &&
    dedupeKey === undefined &&
    onConflict === undefined
  );
}

/** Throws if the store rejected an event. A repeated key was raised before. */
function confirmRaised(id: string, name: string, result: EnqueueResult | undefined): void {
  if (result !== 'enqueued' && result !== 'repeated') throw eventRejected(id, name, result);
}

/** The audit entry of a stop. Without an actor it is a request of a program, not of an operator. */
function stopAudit(
  action: 'cancel' | 'terminate',
  { actor, reason, instanceId }: CancelInstance | TerminateInstance,
): { readonly audit?: AuditEntry } {
  if (actor === null) return {};
  return { audit: newAuditEntry(action, actor, { instanceIds: 1 }, { reason, instanceId }) };
}

function toTaskRun(task: NewTask, result: CreateTaskResult | undefined): StartedRun {
  switch (result?.kind) {
    case 'created':
      return { id: task.instanceId, created: true };
    case 'exists':
      return { id: task.instanceId, created: false };
    case 'active':
      return { id: result.instanceId, created: false };
    case 'conflict':
      throw alreadyExists(task, result.name);
    case 'refused':
      throw result.error;
    case undefined:
      throw new Error('createTasks returned no result.');
  }
}

function theOnly<Value>([value]: readonly Value[]): Value {
  if (value === undefined) throw new Error('The store returned no result.');
  return value;
}

function checkCount(option: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number;
  throw invalidOption(option, value, 'an integer of 1 or more');
}
