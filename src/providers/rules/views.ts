import type { InstanceStatus } from '../../model/status.ts';
import type { ReadEventsParams } from '../contract/views.ts';

/** The sizes of an event that matches a page's filter. */
export interface EventSize {
  readonly eventId: number;
  readonly dataBytes: number;
  readonly payloadBytes: number | null;
}

/** How many events a page has to examine: without a filter, one more than it returns. */
export function eventsToExamine(params: ReadEventsParams): number {
  const isFiltered = params.kinds !== undefined || params.dataIncludes !== undefined;
  const max = Math.max(params.maxScanned, 1);
  return isFiltered ? max : Math.min(max, params.limit + 1);
}

/** Chooses the events of a page, and where the next page starts. */
export function chooseEvents<Row extends EventSize>(
  params: ReadEventsParams,
  found: {
    /** Matching events in page order, up to one more than the limit. */
    readonly matching: readonly Row[];
    readonly examined: number;
    readonly lastExamined: number | null;
  },
): { readonly taken: readonly Row[]; readonly next: number | null } {
  const { limit, maxBytes, headBytes = Number.POSITIVE_INFINITY } = params;
  const taken: Row[] = [];
  let bytes = 0;
  for (const row of found.matching) {
    bytes += row.dataBytes + Math.min(row.payloadBytes ?? 0, headBytes);
    const isFull = taken.length === limit || (bytes > maxBytes && taken.length > 0);
    if (isFull) return { taken, next: taken.at(-1)?.eventId ?? null };
    taken.push(row);
  }
  const reachedEnd = found.examined < eventsToExamine(params);
  return { taken, next: reachedEnd ? null : found.lastExamined };
}

/** Cuts a text to at most `maxBytes` bytes of UTF-8, between characters. */
export function cutText(text: string, maxBytes: number): string {
  // A character has at least one byte, and three bytes per UTF-16 unit at most.
  if (text.length * 3 <= maxBytes) return text;
  const bytes = Buffer.from(text.slice(0, maxBytes + 1));
  if (bytes.byteLength <= maxBytes && text.length <= maxBytes) return text;
  let end = Math.min(maxBytes, bytes.byteLength);
  // A byte 10xxxxxx continues a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}

/** The columns that make up the version of an instance. */
export interface VersionColumns {
  readonly instanceKey: number;
  readonly status: InstanceStatus;
  readonly executionId: number;
  readonly historyLength: number;
  readonly customStatusVersion: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly cancelRequestedAt: number | null;
  readonly leaked: number;
  readonly failures: number | null;
  readonly onFail: string | null;
  readonly blockedAt: number | null;
  readonly pausedAt: number | null;
}

/** Formats the version of an instance. Keys are never reused, so a later instance of an id has another one. */
export function versionOf(row: VersionColumns): string {
  return [
    row.instanceKey,
    row.status,
    row.executionId,
    row.historyLength,
    row.customStatusVersion,
    row.startedAt,
    row.endedAt,
    row.cancelRequestedAt,
    row.leaked,
    row.failures,
    row.onFail,
    row.blockedAt,
    row.pausedAt,
  ].join('.');
}

/** Whether keys form a path from the root downwards: each row is a child of the one before it. */
export function isPath(
  rootId: string,
  rows: readonly (
    | { readonly instanceId: string; readonly parentInstanceId: string | null }
    | undefined
  )[],
): boolean {
  return rows.every((row, index) =>
    index === 0
      ? row?.instanceId === rootId
      : row !== undefined && row.parentInstanceId === rows[index - 1]?.instanceId,
  );
}
