import type { AuditNote } from '../model/audit-options.ts';
import { invalidOption } from '../model/option-fields.ts';
import { instanceStatuses, isTerminal, type TerminalStatus } from '../model/status.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { AuditEntry } from '../providers/contract/management.ts';

/** Validates a non-negative integer. */
export function readCount(option: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw invalidOption(option, value, 'a non-negative integer');
}

const maxTimeMs = 8.64e15;

/** Validates a time, past or future, and returns it in milliseconds since the epoch. */
export function readMoment(option: string, value: unknown): number {
  const ms = value instanceof Date ? value.getTime() : value;
  if (Number.isSafeInteger(ms) && (ms as number) >= 0 && (ms as number) <= maxTimeMs) {
    return ms as number;
  }
  throw invalidOption(option, value, 'a valid Date, or an integer of milliseconds since the epoch');
}

/** Validates a boolean. Default: false. */
export function readFlag(option: string, value: unknown): boolean {
  if (value === undefined || typeof value === 'boolean') return value ?? false;
  throw invalidOption(option, value, 'true or false');
}

/** Validates an `AbortSignal`. */
export function readSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal;
  throw invalidOption('signal', signal, 'an AbortSignal');
}

/** Throws `INVALID_OPTION` if the value is not a function. */
export function checkCallback(option: string, value: unknown): void {
  if (value === undefined || typeof value === 'function') return;
  throw invalidOption(option, value, 'a function');
}

const terminalStatuses = instanceStatuses.filter((status) => isTerminal(status));

/** Validates one or several terminal statuses. Default: all. */
export function readTerminalStatuses(option: string, value: unknown): readonly TerminalStatus[] {
  if (value === undefined) return terminalStatuses;
  const given: readonly unknown[] = Array.isArray(value) ? value : [value];
  const known = terminalStatuses.filter((status) => given.includes(status));
  if (given.length > 0 && given.every((status) => known.some((one) => one === status)))
    return known;
  throw invalidOption(
    option,
    value,
    `one or several of ${terminalStatuses.join(', ')}: cancel or terminate running instances first`,
  );
}

/** Selects the finished executions to prune. Conditions are combined with AND. The current execution always stays. */
export interface PruneConditions {
  /** Number of latest executions to keep, including the current one. 0 and 1 keep only the current one. */
  readonly keepLast?: number | undefined;
  /** Prunes executions that ended before this time. */
  readonly completedBefore?: Date | number | undefined;
}

/** Validated prune conditions. */
export interface CheckedPrune {
  readonly keepLast?: number;
  readonly endedBefore?: number;
}

/** Validates prune conditions. Throws `INVALID_OPTION`. */
export function readPruneConditions(given: {
  readonly keepLast?: unknown;
  readonly completedBefore?: unknown;
}): CheckedPrune {
  const { keepLast, completedBefore } = given;
  return {
    ...(keepLast !== undefined && { keepLast: readCount('keepLast', keepLast) }),
    ...(completedBefore !== undefined && {
      endedBefore: readMoment('completedBefore', completedBefore),
    }),
  };
}

/** The conditions as stored in the audit. */
export function pruneShape({ keepLast, endedBefore }: CheckedPrune): object {
  return {
    ...(keepLast !== undefined && { keepLast }),
    ...(endedBefore !== undefined && { executionsCompletedBefore: endedBefore }),
  };
}

/** Creates the audit entry of an operation. */
export function newAuditEntry(
  action: AuditEntry['action'],
  actor: string | null,
  shape: object,
  details: Pick<AuditEntry, 'reason' | 'instanceId'> = {},
): AuditEntry {
  return { auditId: randomToken(), action, actor, filter: JSON.stringify(shape), ...details };
}

/** Creates the audit entry of an action. */
export function noteEntry(
  action: AuditEntry['action'],
  { actor, reason }: AuditNote,
  shape: object,
): AuditEntry {
  return newAuditEntry(action, actor, shape, { reason });
}
