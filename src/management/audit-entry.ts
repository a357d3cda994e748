import { randomToken } from '../model/values/random-id.ts';
import type { AuditEntry } from '../providers/contract/management.ts';

/** Begins the record of an operation: who, what, and the shape of the filter. */
export function newAuditEntry(
  action: AuditEntry['action'],
  actor: string | null,
  shape: object,
): AuditEntry {
  return { auditId: randomToken(), action, actor, filter: JSON.stringify(shape) };
}
