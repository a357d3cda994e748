import { invalid } from '../../model/option-fields.ts';
import type { InstanceStatus } from '../../model/status.ts';
import { checkInstanceId } from '../../model/values/names.ts';

/** The visible state of a watched instance. */
export interface InstanceChange {
  readonly id: string;
  /** The name of its definition. Absent if there is no such instance. */
  readonly name?: string;
  /** `null`: there is no such instance, or it was deleted. */
  readonly status: InstanceStatus | null;
  readonly executionId: number;
  readonly customStatusVersion: number;
  /** Changes with every change of the instance. Opaque. */
  readonly version: string;
}

/** Maximum ids of one watch. */
const maxWatchedIds = 200;

/** Checks the ids of a watch. */
export function readWatchedIds(ids: unknown): readonly string[] {
  if (!Array.isArray(ids) || ids.length === 0 || ids.length > maxWatchedIds) {
    throw invalid('ids', ids, `an array of 1 to ${maxWatchedIds} instance ids`);
  }
  return [...new Set(ids.map(checkInstanceId))];
}
