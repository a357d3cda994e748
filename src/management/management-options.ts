import { invalidOption } from '../model/option-fields.ts';
import { instanceStatuses, isTerminal, type TerminalStatus } from '../model/status.ts';
import { checkName } from '../model/values/names.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { AuditEntry } from '../providers/contract/management.ts';

/** Reads a whole number of 0 or more. */
export function readCount(option: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw invalidOption(option, value, 'a whole number of 0 or more');
}

const maxTimeMs = 8.64e15;

/** Reads a moment, as a Date or as milliseconds since the epoch; one in the future is as good as any. */
export function readMoment(option: string, value: unknown): number {
  const ms = value instanceof Date ? value.getTime() : value;
  if (Number.isSafeInteger(ms) && (ms as number) >= 0 && (ms as number) <= maxTimeMs) {
    return ms as number;
  }
  throw invalidOption(option, value, 'a valid Date, or whole milliseconds since the epoch');
}

/** Reads a yes or no, by default no. */
export function readFlag(option: string, value: unknown): boolean {
  if (value === undefined || typeof value === 'boolean') return value ?? false;
  throw invalidOption(option, value, 'true or false');
}

/** Reads who asks, for the audit. */
export function readActor(actor: unknown): string | null {
  return actor === undefined || actor === null ? null : checkName(actor, 'Actor');
}

/** Reads a signal that stops long work. */
export function readSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal;
  throw invalidOption('signal', signal, 'an AbortSignal');
}

/** Refuses what cannot be called. */
export function checkCallback(option: string, value: unknown): void {
  if (value === undefined || typeof value === 'function') return;
  throw invalidOption(option, value, 'a function');
}

const terminalStatuses = instanceStatuses.filter((status) => isTerminal(status));

/** Reads which ends are meant; absent: any. What is not over is never meant. */
export function readTerminalStatuses(option: string, value: unknown): readonly TerminalStatus[] {
  if (value === undefined) return terminalStatuses;
  const given: readonly unknown[] = Array.isArray(value) ? value : [value];
  const known = terminalStatuses.filter((status) => given.includes(status));
  if (given.length > 0 && given.every((status) => known.some((one) => one === status)))
    return known;
  throw invalidOption(
    option,
    value,
    `one or several of ${terminalStatuses.join(', ')}; what is not over has to be canceled or terminated first`,
  );
}

/** Which finished executions go: all conditions must hold. The current execution never goes. */
export interface PruneConditions {
  /** Spare the last so many, the current one among them; with 0 or 1 only the current one is spared. */
  readonly keepLast?: number | undefined;
  /** Only those that ended before this moment. */
  readonly completedBefore?: Date | number | undefined;
}

/** Conditions that were checked. */
export interface CheckedPrune {
  readonly keepLast?: number;
  readonly endedBefore?: number;
}

/** Checks conditions; bad values are `INVALID_OPTION`. */
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

/** What is recorded of conditions. */
export function pruneShape({ keepLast, endedBefore }: CheckedPrune): object {
  return {
    ...(keepLast !== undefined && { keepLast }),
    ...(endedBefore !== undefined && { executionsCompletedBefore: endedBefore }),
  };
}

/** Begins the record of an operation: who, what, and the shape of the filter. */
export function newAuditEntry(
  action: AuditEntry['action'],
  actor: string | null,
  shape: object,
): AuditEntry {
  return { auditId: randomToken(), action, actor, filter: JSON.stringify(shape) };
}
