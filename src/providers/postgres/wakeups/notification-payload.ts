import type { Topic } from '../../shared/effects.ts';

/** What one process tells the others of its commits. */
export interface News {
  /** The earliest time at which something of the topic may be claimed that could not be before. */
  readonly dueAt: Readonly<Partial<Record<Topic, number>>>;
  readonly finished: readonly string[];
  readonly cancelRequested: readonly string[];
  /** Runs whose streams have grown or been read. */
  readonly emitted: readonly string[];
  /** Instances whose custom status was set. */
  readonly statusSet: readonly string[];
  /** There was more than fits: whoever waits looks for itself. */
  readonly more: boolean;
}

/** What travels: news, or that a process listens from now on, or that it does already. */
export type Announcement = { readonly from: string } & (
  { readonly kind: 'hello' | 'here' } | ({ readonly kind: 'news' } & News)
);

// NOTIFY takes less than 8,000 bytes.
const maxBytes = 7_900;
// For all that is not a list.
const headBytes = 250;
// 2,000 lock tokens fit; what is more than that is looked up.
const maxPayloads = 20;

/** Writes an announcement as few payloads of NOTIFY as it fits into. */
export function encodeAnnouncement(announcement: Announcement): readonly string[] {
  if (announcement.kind !== 'news') return [JSON.stringify(announcement)];
  const { from, dueAt, finished, cancelRequested, emitted, statusSet } = announcement;
  const ends = split(finished);
  const requests = split(cancelRequested);
  const streams = split(emitted);
  const statuses = split(statusSet);
  const parts = [
    ...ends.parts.map((ids) => ({ finished: ids })),
    ...requests.parts.map((tokens) => ({ cancelRequested: tokens })),
    ...streams.parts.map((ids) => ({ emitted: ids })),
    ...statuses.parts.map((ids) => ({ statusSet: ids })),
  ];
  const isCut =
    parts.length > maxPayloads ||
    [ends, requests, streams, statuses].some(({ leftOut }) => leftOut);
  const head = { from, kind: 'news', dueAt, ...((isCut || announcement.more) && { more: true }) };
  const [first = {}, ...rest] = parts.slice(0, maxPayloads);
  return [{ ...head, ...first }, ...rest.map((part) => ({ from, kind: 'news', ...part }))].map(
    (payload) => JSON.stringify(payload),
  );
}

/** Reads a payload; undefined for one that is none of ours, say of a later version. */
export function decodeAnnouncement(payload: string): Announcement | undefined {
  let read: unknown;
  try {
    read = JSON.parse(payload);
  } catch {
    return undefined;
  }
  if (typeof read !== 'object' || read === null) return undefined;
  const { from, kind, dueAt = {}, ...lists } = read as Partial<Announcement & News>;
  if (typeof from !== 'string') return undefined;
  if (kind === 'hello' || kind === 'here') return { from, kind };
  if (kind !== 'news') return undefined;
  const { finished = [], cancelRequested = [], emitted = [], statusSet = [], more = false } = lists;
  return { from, kind, dueAt, finished, cancelRequested, emitted, statusSet, more };
}

/** Cuts a list such that each part fits into one payload; leaves out a text that fits into none. */
function split(texts: readonly string[]): {
  readonly parts: string[][];
  readonly leftOut: boolean;
} {
  const parts: string[][] = [];
  let leftOut = false;
  let bytes = Infinity;
  for (const text of texts) {
    const size = Buffer.byteLength(JSON.stringify(text)) + 1;
    if (headBytes + size > maxBytes) {
      leftOut = true;
      continue;
    }
    if (bytes + size > maxBytes) {
      parts.push([]);
      bytes = headBytes;
    }
    parts.at(-1)?.push(text);
    bytes += size;
  }
  return { parts, leftOut };
}
