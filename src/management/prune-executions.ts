import { checkInstanceId } from '../model/values/names.ts';
import { notFound } from '../model/failures/not-found.ts';
import { readFields } from '../model/option-fields.ts';
import type { PruneResult } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { newAuditEntry } from './audit-entry.ts';
import { readActor, readFlag, readSignal } from './option-values.ts';
import { Pacer } from './pacer.ts';
import { pruneShape, readPruneConditions, type PruneConditions } from './prune-conditions.ts';
import { pruneBatch } from './prune-selected.ts';
import { reclaim } from './reclaim.ts';

/** How to prune the executions of one instance. */
export interface PruneOptions extends PruneConditions {
  /** Count what would go, and change nothing. */
  readonly dryRun?: boolean | undefined;
  /** Who asks, for the audit. */
  readonly actor?: string | undefined;
  /** Stops between two transactions; the call rejects with the signal's reason, and what went is gone. */
  readonly signal?: AbortSignal | undefined;
}

const optionKeys = ['keepLast', 'completedBefore', 'dryRun', 'actor', 'signal'] as const;

/** Deletes finished executions of one instance, whatever its status. */
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
    audit: newAuditEntry('prune', readActor(given.actor), shape),
    pacer,
  });
  if (found === 0) throw notFound(instanceId);
  if (result.executionsDeleted > 0 && !dryRun) await reclaim(store, pacer, result.eventsDeleted);
  return { ...result, instancesProcessed: 1 };
}
