import type { DeletionBackend } from '../client/client-backend.ts';
import type { BulkDeleteOptions } from '../management/delete-instance-bulk.ts';
import type { DeleteOptions } from '../management/delete-instance.ts';
import {
  assertMeant,
  readInstanceFilter,
  type InstanceFilter,
} from '../management/instance-filter.ts';
import { checkCallback, readActor, readFlag, readSignal } from '../management/option-values.ts';
import { readPruneConditions } from '../management/prune-conditions.ts';
import type { BulkPruneOptions } from '../management/prune-executions-bulk.ts';
import type { PruneOptions } from '../management/prune-executions.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { readFields } from '../model/option-fields.ts';
import type { DeleteInstanceResult, PruneResult } from '../providers/contract/management.ts';
import type { ResponseBody, Request } from './operations.ts';
import type { Transport } from './transport.ts';

type Filter = NonNullable<Request<'deleteInstances'>['body']['filter']>;
type DeleteAnswer = ResponseBody<'deleteInstances'>;

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
    assertMeant(filter, given.all);
    checkCallback('onProgress', given.onProgress);
    const common = {
      all: readFlag('all', given.all),
      dryRun: readFlag('dryRun', given.dryRun),
      actor: actorOf(given.actor),
    };
    const signal = readSignal(given.signal);
    let sums: DeleteAnswer | undefined;
    do {
      signal?.throwIfAborted();
      const seen = (sums?.rootsDeleted ?? 0) + (sums?.rootsSkipped ?? 0);
      const body = { filter: { ...selection, limit: Math.max(0, limit - seen) }, ...common };
      const part = await this.#transport.call('deleteInstances', { body }, { signal });
      sums = addDeleted(sums, part);
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
    return this.#transport.call('pruneExecutions', request, { repeatable: true, signal });
  }

  async pruneExecutionsBulk(
    filter?: InstanceFilter,
    options?: BulkPruneOptions,
  ): Promise<PruneResult> {
    const given = readFields(options, 'pruneExecutionsBulk()', bulkPruneKeys);
    const { keepLast, completedBefore } = given;
    assertMeant(filter, given.all, { keepLast, completedBefore });
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
      const answer = await this.#transport.call('pruneExecutionsBulk', { body }, { signal });
      const { finished, instancesProcessed, executionsDeleted, eventsDeleted } = answer;
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
  const { instanceIds, endedBefore, statuses, names, limit } = readInstanceFilter(filter);
  return {
    ...(instanceIds !== undefined && { instanceIds: [...instanceIds] }),
    ...(endedBefore !== undefined && { completedBefore: endedBefore }),
    ...(filter?.status !== undefined && { status: [...statuses] }),
    ...(names !== undefined && { name: [...names] }),
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

function addDeleted(sums: DeleteAnswer | undefined, part: DeleteAnswer): DeleteAnswer {
  if (sums === undefined) return part;
  return {
    instancesDeleted: sums.instancesDeleted + part.instancesDeleted,
    executionsDeleted: sums.executionsDeleted + part.executionsDeleted,
    eventsDeleted: sums.eventsDeleted + part.eventsDeleted,
    queueMessagesDeleted: sums.queueMessagesDeleted + part.queueMessagesDeleted,
    rootsDeleted: sums.rootsDeleted + part.rootsDeleted,
    rootsSkipped: sums.rootsSkipped + part.rootsSkipped,
    finished: part.finished,
  };
}
