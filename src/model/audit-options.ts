import { cleanReason } from './cancel.ts';
import { readFields } from './option-fields.ts';
import { checkName } from './values/names.ts';

/** Who requests an operator action, and why. */
export interface AuditOptions {
  /** The actor in the audit. Without an actor, the call is not audited. */
  readonly actor?: string | undefined;
  /** Why. Recorded in the audit; cut to 4,096 characters. */
  readonly reason?: string | undefined;
}

/** The checked options of an action that is audited if it has an actor. */
export interface AuditNote {
  readonly actor: string;
  readonly reason: string | null;
}

/** Validates the actor and the reason of an action. Returns `undefined` without an actor. */
export function readAuditOptions(options: unknown, call: string): AuditNote | undefined {
  const given = readFields(options, call, ['actor', 'reason'] as const);
  const actor = readActor(given.actor);
  const reason = readReason(given.reason);
  return actor === null ? undefined : { actor, reason };
}

/** Cleans a reason. Default: `null`. */
export function readReason(reason: unknown): string | null {
  return reason === undefined ? null : cleanReason(reason);
}

/** Validates the actor of an operation. Default: `null`. */
export function readActor(actor: unknown): string | null {
  return actor === undefined || actor === null ? null : checkName(actor, 'Actor');
}
