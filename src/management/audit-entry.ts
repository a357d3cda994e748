import { randomToken } from '../model/random-id.ts';
import type { AuditEntry } from '../providers/management.ts';

/** Begins the record of an operation: who, what, and the shape of the filter. */
export function newAuditEntry(
  action: AuditEntry['action'],
  actor: string | null,
  shape: object,
): AuditEntry {
  return { auditId: randomToken(), action, actor, filter: JSON.stringify(shape) };
}
