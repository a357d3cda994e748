import { cleanReason } from './cancel.ts';
import { readFields } from './option-fields.ts';
import { checkName } from './values/names.ts';

/** Who requests an operator action, and why. */
export interface AuditOptions {
  /** The actor in the audit. Absent: `null`, or over HTTP the name of the token. */
  readonly actor?: string | undefined;
  /** Why. Recorded in the audit; cut to 4,096 characters. */
  readonly reason?: string | undefined;
}

/** The checked options of an action for its audit record. */
export interface AuditNote {
  readonly actor: string | null;
  readonly reason: string | null;
}

/** Validates the actor and the reason of an action. */
export function readAuditOptions(options: unknown, call: string): AuditNote {
  const given = readFields(options, call, ['actor', 'reason'] as const);
  return { actor: readActor(given.actor), reason: readReason(given.reason) };
}

/** Cleans a reason. Default: `null`. */
export function readReason(reason: unknown): string | null {
  return reason === undefined ? null : cleanReason(reason);
}

/** Validates the actor of an operation. Default: `null`. */
export function readActor(actor: unknown): string | null {
  return actor === undefined || actor === null ? null : checkName(actor, 'Actor');
}
