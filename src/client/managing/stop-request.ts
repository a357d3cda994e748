import { cleanReason } from '../../model/cancel.ts';
import { toMs, type Duration } from '../../model/values/duration.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import type { TerminateInstance } from '../../providers/contract/cancellation.ts';
import { invalid, readFields } from '../../model/option-fields.ts';

/** Options of a cancel. */
export interface CancelOptions {
  /** Why. Stored with the instance and passed to its code and handlers. Cut to 4,096 characters. */
  readonly reason?: string | undefined;
  /** Who requests it. */
  readonly actor?: string | undefined;
  /** Time that its code has to clean up; then the instance ends without it. Default 5 minutes. */
  readonly cleanupTimeout?: Duration | undefined;
  /**
   * Resolve only when the instance has ended. If it ends as `canceled`, its handlers have stopped or exceeded their
   * grace, except those of `abandon` calls.
   */
  readonly wait?: boolean | undefined;
  /**
   * Identifies the request. A repeated cancel with the key within ten minutes changes nothing, also if the instance was retried
   * or replaced since. Default: a new key per call, for repeats by the client.
   */
  readonly key?: string | undefined;
}

/** Options of a termination. */
export interface TerminateOptions {
  readonly reason?: string | undefined;
  readonly actor?: string | undefined;
  /** Also terminate all its descendants. Default: false, they are canceled. */
  readonly tree?: boolean | undefined;
  /** Identifies the request: see `CancelOptions`. */
  readonly key?: string | undefined;
}

const defaultCleanup: Duration = '5m';

/** Checks the options of a cancel. */
export function readCancelOptions(options: CancelOptions | undefined): {
  readonly reason: string;
  readonly actor: string | null;
  readonly cleanupMs: number;
  readonly wait: boolean;
  readonly key?: string;
} {
  const { reason, actor, cleanupTimeout, wait, key } = readFields(options, 'cancel()', [
    'reason',
    'actor',
    'cleanupTimeout',
    'wait',
    'key',
  ] as const);
  return {
    reason: cleanReason(reason),
    actor: readActor(actor),
    cleanupMs: toMs((cleanupTimeout ?? defaultCleanup) as Duration, 'cleanupTimeout'),
    wait: readFlag('wait', wait),
    ...(key !== undefined && { key: checkName(key, 'Key') }),
  };
}

/** Checks the arguments of a termination. */
export function readTerminate(id: unknown, options: unknown): TerminateInstance {
  const given = readFields(options, 'terminate()', ['reason', 'actor', 'tree', 'key'] as const);
  return {
    instanceId: checkInstanceId(id),
    reason: given.reason === undefined ? 'terminated' : cleanReason(given.reason),
    actor: readActor(given.actor),
    tree: readFlag('tree', given.tree),
    ...(given.key !== undefined && { key: checkName(given.key, 'Key') }),
  };
}

/** Checks an optional flag. */
export function readFlag(option: string, value: unknown): boolean {
  if (value === undefined || typeof value === 'boolean') return value ?? false;
  throw invalid(option, value, 'true or false');
}

/** Checks an optional actor. */
export function readActor(actor: unknown): string | null {
  return actor === undefined || actor === null ? null : checkName(actor, 'Actor');
}
