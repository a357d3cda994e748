import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { InstanceRow } from '../tables/instance-rows.ts';
import type { Scope } from '../driver/scope.ts';
import type { OnFailEnd, RunEnd, TaskRows } from '../tables/task-rows.ts';

/** What a batch is going to write to task runs that it has locked. */
export class TaskChanges {
  readonly #ends: RunEnd[] = [];
  readonly #freed: number[] = [];
  readonly onFailEnds: OnFailEnd[] = [];

  /** Ends a run whose item is gone. */
  end({ effects, now }: Scope, run: InstanceRow, end: Omit<RunEnd, 'instanceKey'>): void {
    const { instanceKey, instanceId, incarnation } = run;
    this.#ends.push({ instanceKey, ...end });
    this.freeKey(run);
    // The item of a handler for it may be there from now on.
    if (end.status === 'failed') effects.due('work', now);
    if (end.status === 'completed') {
      effects.completed(instanceId, { incarnation, output: end.output ?? null });
    } else effects.finished.push(instanceId);
  }

  /** Frees the key of a run whose item is gone. */
  freeKey({ instanceKey, hasKey }: InstanceRow): void {
    if (hasKey) this.#freed.push(instanceKey);
  }

  /** Writes everything, in one round trip. */
  async write(
    { tx, now }: Scope,
    tables: { readonly taskRows: TaskRows; readonly dedupeKeys: DedupeKeys },
  ): Promise<void> {
    const { taskRows, dedupeKeys } = tables;
    await Promise.all([
      taskRows.end(tx, this.#ends, now),
      taskRows.endOnFail(tx, this.onFailEnds),
      dedupeKeys.free(tx, this.#freed),
    ]);
  }
}
