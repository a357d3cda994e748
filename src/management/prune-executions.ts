import { notFound } from '../model/failures/errors.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { readFields } from '../model/option-fields.ts';
import type { InstanceStatus } from '../model/status.ts';
import type { PruneResult } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { assertHasCondition, readInstanceFilter, type InstanceFilter } from './instance-filter.ts';
import {
  checkCallback,
  newAuditEntry,
  pruneShape,
  readFlag,
  readPruneConditions,
  readSignal,
  type PruneConditions,
} from './management-options.ts';
import { readActor } from '../model/audit-options.ts';
import { Pacer, reclaim } from './pacer.ts';
import { addPruned, nothingPruned, pruneBatch, pruneSelected } from './prune-selected.ts';

/** Options of `pruneExecutions`. */
export interface PruneOptions extends PruneConditions {
  /** Only counts the executions to prune. Default: false. */
  readonly dryRun?: boolean | undefined;
  /** The actor in the audit. */
  readonly actor?: string | undefined;
  /** Stops before the next transaction and rejects with the signal's reason. Committed prunes stay. */
  readonly signal?: AbortSignal | undefined;
}

const optionKeys = ['keepLast', 'completedBefore', 'dryRun', 'actor', 'signal'] as const;

/** Prunes finished executions of one instance, whatever its status. */
export async function pruneExecutions(
  store: Provider,
  id: string,
  options?: PruneOptions,
): Promise<PruneResult> {
  const instanceId = checkInstanceId(id);
  const given = readFields(options, 'pruneExecutions()', optionKeys);
  const conditions = readPruneConditions(given);
  const dryRun = readFlag('dryRun', given.dryRun);
  const shape = { instanceIds: 1, ...pruneShape(conditions) };
  const pacer = new Pacer(readSignal(given.signal));
  const { found, result } = await pruneBatch(store, {
    targets: [{ instanceId, conditions }],
    dryRun,
    audit: newAuditEntry('prune', readActor(given.actor), shape, { instanceId }),
    pacer,
  });
  if (found === 0) throw notFound(instanceId);
  if (result.executionsDeleted > 0 && !dryRun) await reclaim(store, pacer, result.eventsDeleted);
  return { ...result, instancesProcessed: 1 };
}

/** Options of `pruneExecutionsBulk`. */
export interface BulkPruneOptions extends PruneOptions {
  /** Confirms a call without conditions: in the filter, `keepLast` or `completedBefore`. Default: false. */
  readonly all?: boolean | undefined;
  /** Includes instances that have not ended, such as those that continue as new forever. Default: false. */
  readonly includeRunning?: boolean | undefined;
  /** Called after each batch, with the totals so far. */
  readonly onProgress?: ((progress: PruneResult) => void) | undefined;
}

const bulkOptionKeys = [
  'all',
  'keepLast',
  'completedBefore',
  'includeRunning',
  'dryRun',
  'actor',
  'onProgress',
  'signal',
] as const;

const runningStatuses: readonly InstanceStatus[] = ['pending', 'running', 'canceling'];

/** Prunes finished executions of the instances that match a filter, in small transactions. */
export async function pruneExecutionsBulk(
  store: Provider,
  filter?: InstanceFilter,
  options?: BulkPruneOptions,
): Promise<PruneResult> {
  const { limit, shape, statuses, ...selection } = readInstanceFilter(filter);
  const given = readFields(options, 'pruneExecutionsBulk()', bulkOptionKeys);
  const conditions = readPruneConditions(given);
  const { keepLast, completedBefore } = given;
  assertHasCondition(filter, given.all, { keepLast, completedBefore });
  const includeRunning = readFlag('includeRunning', given.includeRunning);
  checkCallback('onProgress', given.onProgress);
  const dryRun = readFlag('dryRun', given.dryRun);
  const pacer = new Pacer(readSignal(given.signal));
  let sum = nothingPruned;
  await pruneSelected(store, {
    selection: {
      ...selection,
      statuses: includeRunning ? [...statuses, ...runningStatuses] : statuses,
      rootsOnly: false,
      withFinishedExecutions: true,
    },
    conditionsOf: () => conditions,
    limit,
    dryRun,
    audit: newAuditEntry('pruneBulk', readActor(given.actor), {
      ...shape,
      ...pruneShape(conditions),
      ...(includeRunning && { includeRunning }),
    }),
    pacer,
    onStep: (result) => {
      sum = addPruned(sum, result);
      options?.onProgress?.(sum);
    },
  });
  if (!dryRun && sum.executionsDeleted > 0) await reclaim(store, pacer);
  return sum;
}
