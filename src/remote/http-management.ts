import type { DeletionBackend } from '../client/client-backend.ts';
import type { ScheduledWork, ScheduleRequest } from '../client/managing/schedule-request.ts';
import type {
  BackfillCall,
  BackfillResult,
  NextTick,
  ScheduleBackend,
  ScheduleInfo,
  SchedulePage,
  ScheduleRun,
  TriggerCall,
  TriggerResult,
} from '../client/managing/schedules.ts';
import { addDeleted } from '../management/delete-selected.ts';
import type { BulkDeleteOptions, DeleteOptions } from '../management/delete-instance.ts';
import {
  assertHasCondition,
  readInstanceFilter,
  type InstanceFilter,
} from '../management/instance-filter.ts';
import {
  checkCallback,
  readFlag,
  readSignal,
  readPruneConditions,
} from '../management/management-options.ts';
import {
  readActor,
  readAuditOptions,
  type AuditNote,
  type AuditOptions,
} from '../model/audit-options.ts';
import type { BulkPruneOptions, PruneOptions } from '../management/prune-executions.ts';
import type { RetentionControl, RunRetentionOptions } from '../management/retention-control.ts';
import { readRetentionPolicies } from '../management/retention-policy.ts';
import type { RetentionReport, RetentionStatus } from '../management/retention-records.ts';
import { isPerdureError } from '../model/failures/errors.ts';
import { readFields } from '../model/option-fields.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { toWireStart } from '../client/starting/wire-settings.ts';
import { decodePayload } from '../model/values/payload.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { DeleteInstanceResult, PruneResult } from '../providers/contract/management.ts';
import type { ResponseBody, Request } from './operations.ts';
import { startOptions, type Transport } from './transport.ts';

type Filter = NonNullable<Request<'deleteInstances'>['body']['filter']>;
type DeleteResponse = ResponseBody<'deleteInstances'>;

const repeatable = { repeatable: true };
const bulkDeleteKeys = ['all', 'dryRun', 'actor', 'onProgress', 'signal'] as const;
const pruneKeys = ['keepLast', 'completedBefore', 'dryRun', 'actor', 'signal'] as const;
const bulkPruneKeys = [...pruneKeys, 'all', 'includeRunning', 'onProgress'] as const;

/**
 * Deletes and prunes. A deletion whose response was lost is not repeated: the id may have been reused. Bulk operations
 * take several requests, because the server limits the time of each.
 */
export class HttpDeletion implements DeletionBackend {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async deleteInstance(id: unknown, options?: DeleteOptions): Promise<DeleteInstanceResult> {
    const given = readFields(options, 'deleteInstance()', ['force', 'actor'] as const);
    const body = { force: readFlag('force', given.force), actor: actorOf(given.actor) };
    return this.#transport.call('deleteInstance', { params: { id: checkInstanceId(id) }, body });
  }

  async deleteInstanceBulk(
    filter?: InstanceFilter,
    options?: BulkDeleteOptions,
  ): Promise<DeleteInstanceResult> {
    const { limit, ...selection } = toWireFilter(filter);
    const given = readFields(options, 'deleteInstanceBulk()', bulkDeleteKeys);
    assertHasCondition(filter, given.all);
    checkCallback('onProgress', given.onProgress);
    const common = {
      all: readFlag('all', given.all),
      dryRun: readFlag('dryRun', given.dryRun),
      actor: actorOf(given.actor),
    };
    const signal = readSignal(given.signal);
    let sums: DeleteResponse | undefined;
    do {
      signal?.throwIfAborted();
      const seen = (sums?.rootsDeleted ?? 0) + (sums?.rootsSkipped ?? 0);
      const body = { filter: { ...selection, limit: Math.max(0, limit - seen) }, ...common };
      const part = await this.#transport.call('deleteInstances', { body }, { signal });
      sums = sumOf(sums, part);
      const { finished: _, ...progress } = sums;
      options?.onProgress?.(progress);
    } while (!sums.finished && !common.dryRun);
    const { finished: _, rootsDeleted: __, rootsSkipped: ___, ...result } = sums;
    return result;
  }

  async pruneExecutions(id: unknown, options?: PruneOptions): Promise<PruneResult> {
    const given = readFields(options, 'pruneExecutions()', pruneKeys);
    const request = { params: { id: checkInstanceId(id) }, body: toWirePrune(given) };
    const signal = readSignal(given.signal);
    return this.#transport.call('pruneExecutions', request, { ...repeatable, signal });
  }

  async pruneExecutionsBulk(
    filter?: InstanceFilter,
    options?: BulkPruneOptions,
  ): Promise<PruneResult> {
    const given = readFields(options, 'pruneExecutionsBulk()', bulkPruneKeys);
    const { keepLast, completedBefore } = given;
    assertHasCondition(filter, given.all, { keepLast, completedBefore });
    checkCallback('onProgress', given.onProgress);
    const body = {
      filter: toWireFilter(filter),
      all: readFlag('all', given.all),
      ...toWirePrune(given),
      includeRunning: readFlag('includeRunning', given.includeRunning),
    };
    const signal = readSignal(given.signal);
    const sums = { executionsDeleted: 0, eventsDeleted: 0 };
    for (;;) {
      signal?.throwIfAborted();
      const response = await this.#transport.call('pruneExecutionsBulk', { body }, { signal });
      const { finished, instancesProcessed, executionsDeleted, eventsDeleted } = response;
      sums.executionsDeleted += executionsDeleted;
      sums.eventsDeleted += eventsDeleted;
      // Each request starts again with the first instance, so only its own count is current.
      const result = { instancesProcessed, ...sums };
      options?.onProgress?.(result);
      if (finished || body.dryRun) return result;
    }
  }
}

function toWireFilter(filter: InstanceFilter | undefined): Filter & { readonly limit: number } {
  const { instanceIds, endedBefore, statuses, names, tags, limit } = readInstanceFilter(filter);
  return {
    ...(instanceIds !== undefined && { instanceIds: [...instanceIds] }),
    ...(endedBefore !== undefined && { completedBefore: endedBefore }),
    ...(filter?.status !== undefined && { status: [...statuses] }),
    ...(names !== undefined && { name: [...names] }),
    ...(tags !== undefined && { tags: { ...tags } }),
    limit,
  };
}

function toWirePrune(given: Readonly<Partial<Record<(typeof pruneKeys)[number], unknown>>>) {
  const { keepLast, endedBefore } = readPruneConditions(given);
  return {
    keepLast,
    completedBefore: endedBefore,
    dryRun: readFlag('dryRun', given.dryRun),
    actor: actorOf(given.actor),
  };
}

function actorOf(actor: unknown): string | undefined {
  return readActor(actor) ?? undefined;
}

function sumOf(sums: DeleteResponse | undefined, part: DeleteResponse): DeleteResponse {
  if (sums === undefined) return part;
  return {
    ...addDeleted(sums, part),
    rootsDeleted: sums.rootsDeleted + part.rootsDeleted,
    rootsSkipped: sums.rootsSkipped + part.rootsSkipped,
    finished: part.finished,
  };
}

/** Retention of a store that is open in a server. */
export class HttpRetention implements Pick<RetentionControl, keyof RetentionControl> {
  readonly #transport: Transport;
  readonly #assertOpen: () => void;

  constructor(transport: Transport, assertOpen: () => void) {
    this.#transport = transport;
    this.#assertOpen = assertOpen;
  }

  async status(): Promise<RetentionStatus> {
    this.#assertOpen();
    return this.#transport.call('getRetention', {});
  }

  async pause(options?: AuditOptions): Promise<void> {
    this.#assertOpen();
    const body = toWireNote(readAuditOptions(options, 'retention.pause()'));
    await this.#transport.call('pauseRetention', { body }, repeatable);
  }

  async resume(options?: AuditOptions): Promise<void> {
    this.#assertOpen();
    const body = toWireNote(readAuditOptions(options, 'retention.resume()'));
    await this.#transport.call('resumeRetention', { body }, repeatable);
  }

  async run(options?: RunRetentionOptions): Promise<RetentionReport | null> {
    this.#assertOpen();
    const given = readFields(options, 'retention.run()', [
      'policies',
      'dryRun',
      'actor',
      'signal',
    ] as const);
    if (given.policies !== undefined) readRetentionPolicies(given.policies);
    const body = {
      policies: given.policies,
      dryRun: readFlag('dryRun', given.dryRun),
      actor: readActor(given.actor) ?? undefined,
    } as Request<'runRetention'>['body'];
    const signal = readSignal(given.signal);
    const { report } = await this.#transport.call(
      'runRetention',
      { body },
      { ...repeatable, signal },
    );
    return report;
  }
}

/** Schedules in a store that is open in a server. */
export class HttpSchedules implements ScheduleBackend {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  put(
    name: string,
    request: ScheduleRequest,
    { note, trace }: Parameters<ScheduleBackend['put']>[2],
  ): Promise<ScheduleInfo> {
    const body = { ...toWireSchedule(request), ...toWireNote(note) };
    return this.#transport.call(
      'putSchedule',
      { params: { name }, body },
      { ...repeatable, trace },
    );
  }

  async pause(name: string, note: AuditNote): Promise<void> {
    const request = { params: { name }, body: toWireNote(note) };
    await this.#transport.call('pauseSchedule', request, repeatable);
  }

  async resume(name: string, note: AuditNote): Promise<void> {
    const request = { params: { name }, body: toWireNote(note) };
    await this.#transport.call('resumeSchedule', request, repeatable);
  }

  /** Not repeatable: another client may have put a new schedule with this name. */
  async delete(name: string, note: AuditNote): Promise<boolean> {
    const request = { params: { name }, body: toWireNote(note) };
    return (await this.#transport.call('deleteSchedule', request)).deleted;
  }

  async get(name: string): Promise<ScheduleInfo | undefined> {
    try {
      return await this.#transport.call('getSchedule', { params: { name } });
    } catch (error) {
      if (isPerdureError(error, 'SCHEDULE_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  list(query: Parameters<ScheduleBackend['list']>[0]): Promise<SchedulePage> {
    return this.#transport.call('listSchedules', { query });
  }

  async next(name: string, count: number): Promise<readonly NextTick[]> {
    const request = { params: { name }, query: { count } };
    return (await this.#transport.call('nextRuns', request)).ticks;
  }

  async runs(name: string, limit: number): Promise<readonly ScheduleRun[]> {
    const request = { params: { name }, query: { limit } };
    return (await this.#transport.call('listScheduleRuns', request)).items;
  }

  /** Repeatable: the key identifies the run. */
  trigger(name: string, { key, actor, reason, trace }: TriggerCall): Promise<TriggerResult> {
    const body = { key, actor: actor ?? undefined, reason, startKey: randomToken() };
    const request = { params: { name }, body };
    return this.#transport.call('triggerSchedule', request, { ...startOptions, trace });
  }

  /** Repeatable: runs that the first request started are counted as existing. */
  backfill(name: string, { actor, trace, ...call }: BackfillCall): Promise<BackfillResult> {
    const body = { ...call, actor: actor ?? undefined, startKey: randomToken() };
    const request = { params: { name }, body };
    return this.#transport.call('backfillSchedule', request, { ...startOptions, trace });
  }
}

/** The actor and reason of an action in a request. The server adds the name of the token. */
export function toWireNote({ actor, reason }: AuditNote): { actor?: string; reason?: string } {
  return { ...(actor !== null && { actor }), ...(reason !== null && { reason }) };
}

function toWireSchedule(request: ScheduleRequest): Request<'putSchedule'>['body'] {
  const { timing, startAt, endAt, catchUp, jitterMs, overlap, bufferLimit, work } = request;
  return {
    ...(timing.kind === 'cron'
      ? { cron: timing.expression, timeZone: timing.timeZone }
      : { every: timing.everyMs }),
    startAt,
    endAt,
    catchUp,
    jitter: jitterMs,
    overlap,
    bufferLimit,
    ...toWireWork(work),
  };
}

function toWireWork(work: ScheduledWork) {
  const input = decodePayload(work.payload);
  const { delay: _, runAt: __, debounce: ___, ...settings } = toWireStart(work);
  if (work.kind === 'orchestration') {
    const options = { version: work.version ?? undefined, ...settings };
    return { orchestration: work.name, input, options };
  }
  const { name, expiresInMs, onFail } = work;
  const options = { expiresIn: expiresInMs, ...settings };
  return { task: name, input, onFail, options };
}
