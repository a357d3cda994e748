import { cleanReason } from '../../model/cancel.ts';
import { toMs, type Duration } from '../../model/values/duration.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import type { TerminateInstance } from '../../providers/contract/cancellation.ts';
import { readFields } from '../../model/option-fields.ts';

/** How to ask an instance to stop. */
export interface CancelOptions {
  /** Why, for whoever looks later; handlers and code see it too. Text above 4,096 characters is cut. */
  readonly reason?: string | undefined;
  /** Who asks. */
  readonly actor?: string | undefined;
  /** How long its code may clean up before the instance is ended without it. Default 5 minutes. */
  readonly cleanupTimeout?: Duration | undefined;
  /** Resolve only when the instance is over and nothing of it runs any more. */
  readonly wait?: boolean | undefined;
}

/** How to end an instance at once. */
export interface TerminateOptions {
  readonly reason?: string | undefined;
  readonly actor?: string | undefined;
  /** Also terminate its children, and theirs; by default they are asked to stop. */
  readonly tree?: boolean | undefined;
}

const defaultCleanup: Duration = '5m';

/** Reads how something is to be asked to stop. */
export function readCancelOptions(options: CancelOptions | undefined): {
  readonly reason: string;
  readonly actor: string | null;
  readonly cleanupMs: number;
  readonly wait: boolean;
} {
  const { reason, actor, cleanupTimeout, wait } = readFields(options, 'cancel()', [
    'reason',
    'actor',
    'cleanupTimeout',
    'wait',
  ] as const);
  return {
    reason: cleanReason(reason),
    actor: readActor(actor),
    cleanupMs: toMs((cleanupTimeout ?? defaultCleanup) as Duration, 'cleanupTimeout'),
    wait: readFlag('wait', wait),
  };
}

/** Reads who is to be ended at once, and why. */
export function readTerminate(id: unknown, options: unknown): TerminateInstance {
  const given = readFields(options, 'terminate()', ['reason', 'actor', 'tree'] as const);
  return {
    instanceId: checkInstanceId(id),
    reason: given.reason === undefined ? 'terminated' : cleanReason(given.reason),
    actor: readActor(given.actor),
    tree: readFlag('tree', given.tree),
  };
}

/** A yes or no, by default no. */
function readFlag(option: string, value: unknown): boolean {
  if (value === undefined || typeof value === 'boolean') return value ?? false;
  throw new PerdureError('INVALID_INPUT', `${option} must be true or false.`);
}

function readActor(actor: unknown): string | null {
  return actor === undefined || actor === null ? null : checkName(actor, 'Actor');
}
