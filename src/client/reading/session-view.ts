import type { JobInfo, SessionInfo } from '../../jobs/session-info.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import type { Withheld } from '../../providers/contract/page-bytes.ts';
import type { JobRecord, SessionRecord } from '../../providers/contract/sessions.ts';

/** A session as it is shown. */
export function toSessionInfo(record: SessionRecord): SessionInfo {
  const { label, owner, end, endedAt } = record;
  return {
    id: record.sessionId,
    ...(label !== null && { label }),
    ...(owner !== null && { owner }),
    state: record.state,
    ...(end !== null && { end }),
    idleTimeoutMs: record.leaseMs,
    createdAt: record.createdAt,
    expiresAt: record.expiresAt,
    ...(endedAt !== null && { endedAt }),
    variables: record.variables,
    openJobs: record.openJobs,
  };
}

/** A job as operators see it. */
export function toJobInfo(record: JobRecord): JobInfo {
  const { instanceId, kind, name, status, createdAt, abandonedAt } = record;
  return {
    id: instanceId,
    kind,
    name,
    status,
    createdAt,
    ...(abandonedAt !== null && { abandonedAt }),
  };
}

/** The first items of one more than asked for, up to one that is withheld, and where the next page begins. */
export function toPage<Row extends object, Item>(
  rows: readonly Row[],
  limit: number,
  { show, keyOf }: { readonly show: (row: Row) => Item; readonly keyOf: (row: Row) => number },
): { readonly items: readonly Item[]; readonly nextAfter?: string } {
  const shown = rows.slice(0, limit).filter((row) => (row as Withheld).withheld !== true);
  const items = shown.map(show);
  const last = shown.at(-1);
  if (last === undefined || rows.length === shown.length) return { items };
  return { items, nextAfter: String(keyOf(last)) };
}

/** Where a page begins, as the page before told. */
export function readAfter(after: string | undefined): { readonly after?: number } {
  if (after === undefined) return {};
  if (/^\d{1,15}$/.test(after)) return { after: Number(after) };
  throw new PerdureError('INVALID_INPUT', 'after must be the nextAfter of the page before.');
}
