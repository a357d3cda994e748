import type { CreateTaskResult, NewTask } from '../../contract/tasks.ts';
import { planExistingTask, replacedReason, taskTimes } from '../../rules/starts.ts';
import { replacedStarts } from '../../shared/deleted-starts.ts';
import type { Scope } from '../driver/scope.ts';
import type { Batch, Changes } from '../batches/batch.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { InstanceRows } from '../tables/instance-rows.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { ReplacedRows } from '../tables/replaced-rows.ts';
import type { ReplacedTasks } from './replaced-tasks.ts';

/** The parts of the store that find or replace the run of a task whose id is taken. */
export type ExistingTaskParts = Pick<StoreAccess, 'newBatch'> &
  Parameters<Changes['write']>[1] & {
    readonly stops: {
      terminate(
        batch: Batch,
        requests: readonly {
          readonly instanceKey: number;
          readonly reason: string;
          readonly actor: string | null;
          readonly cleanupMs: number;
          readonly tree: boolean;
        }[],
      ): Promise<unknown>;
    };
    readonly deadlines: InstanceDeadlines;
    readonly dedupeKeys: DedupeKeys;
    readonly definitions: Definitions;
    readonly deletedStarts: DeletedStarts;
    readonly instances: InstanceRows;
    readonly instanceTags: InstanceTags;
    readonly replacedRows: ReplacedRows;
    readonly replacedTasks: ReplacedTasks;
  };

/** Returns the result of a task with `onConflict` whose id is taken: the existing run, or one that replaces it. */
export async function useExistingTask(
  store: ExistingTaskParts,
  scope: Scope,
  task: NewTask,
): Promise<CreateTaskResult> {
  const { tx, now, effects } = scope;
  const { instanceId } = task;
  const batch = store.newBatch(scope);
  await batch.instances.lock({ ids: [instanceId] });
  const row = batch.instances.find(instanceId);
  const [start] = await store.instances.selectStarts(tx, [instanceId]);
  // Deleted between the statements: the caller repeats the call.
  if (row === undefined || start === undefined) return { kind: 'conflict', name: task.name };
  await store.definitions.load(tx, [start.definitionKey]);
  const { kind, name } = store.definitions.get(start.definitionKey);
  const existing = { kind, name, inputHash: start.inputHash, incarnation: row.incarnation };
  const plan = planExistingTask(existing, task);
  if (plan !== 'replace')
    return plan === 'exists' ? { kind: 'exists' } : { kind: 'conflict', name };
  const { instanceKey } = row;
  const isHeldBack =
    (await store.replacedRows.hasJob(tx, instanceKey)) ||
    (await store.replacedTasks.hasOnFail(tx, instanceKey));
  if (isHeldBack) return { kind: 'conflict', name };
  const termination = { reason: replacedReason, actor: null, cleanupMs: 0, tree: true };
  await store.stops.terminate(batch, [{ instanceKey, ...termination }]);
  await batch.changes.write(scope, store);
  await store.dedupeKeys.free(tx, [instanceKey]);
  await store.deletedStarts.add(tx, replacedStarts(row, now), now);
  const times = taskTimes(task, now);
  await store.replacedTasks.reopen(tx, instanceKey, task, { ...times, now });
  await store.deadlines.replace(tx, { instanceKey, times: task }, now);
  await store.instanceTags.replace(tx, { instanceKey, tags: task.tags });
  const { runAt, expiresAt } = times;
  effects.due('work', Math.min(Math.max(runAt ?? now, now), expiresAt ?? Infinity));
  return { kind: 'created', instanceKey };
}
