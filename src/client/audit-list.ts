import type { AuditRecord } from '../providers/management.ts';
import type { Provider } from '../providers/provider.ts';
import { readPage, toCursor, type ListPage } from './instance-list.ts';

/** A page of the records of what was deleted and pruned, the newest first. */
export interface AuditPage {
  readonly items: readonly AuditRecord[];
  /** Where the next page begins; absent on the last. */
  readonly nextCursor?: string;
}

/** Reads one page of audit records. */
export async function listAudit(provider: Provider, page?: ListPage): Promise<AuditPage> {
  const { limit, beforeKey } = readPage(page);
  // One more than asked tells whether there is a next page.
  const records = await provider.listAudit({
    limit: limit + 1,
    ...(beforeKey !== undefined && { beforeKey }),
  });
  const items = records.slice(0, limit);
  const last = items.at(-1);
  if (last === undefined || records.length <= limit) return { items };
  return { items, nextCursor: toCursor(last.auditKey) };
}
