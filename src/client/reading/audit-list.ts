import type { AuditRecord } from '../../providers/contract/management.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { bytesOfTexts } from '../../providers/contract/page-bytes.ts';
import { readPage, toCursor, type ListPage } from './instance-list.ts';
import { maxPageBytes } from './page-bytes.ts';

/** A page of the records of what was deleted and pruned, the newest first. It may be shorter than `limit` and not the last. */
export interface AuditPage {
  readonly items: readonly AuditRecord[];
  /** Where the next page begins; absent on the last. */
  readonly nextCursor?: string;
}

// A record names up to 100 definitions in its filter, so few are read at once.
const readAtOnce = 100;

/** Reads one page of audit records, which ends at 8 MiB. */
export async function listAudit(provider: Provider, page?: ListPage): Promise<AuditPage> {
  const { limit, beforeKey: from } = readPage(page);
  const items: AuditRecord[] = [];
  let bytes = 0;
  let beforeKey = from;
  for (;;) {
    // One more than asked tells whether there is a next page.
    const wanted = Math.min(limit + 1 - items.length, readAtOnce);
    const records = await provider.listAudit({
      limit: wanted,
      ...(beforeKey !== undefined && { beforeKey }),
    });
    for (const record of records) {
      bytes += bytesOfTexts(record.filter, record.actor);
      const last = items.at(-1);
      const isFull = items.length === limit || bytes > maxPageBytes;
      if (isFull && last !== undefined) return { items, nextCursor: toCursor(last.auditKey) };
      items.push(record);
    }
    if (records.length < wanted) return { items };
    beforeKey = items.at(-1)?.auditKey;
  }
}
