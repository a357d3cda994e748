import { setTimeout } from 'node:timers';
import pg from 'pg';
import { randomToken } from '../../../model/values/random-id.ts';
import type { Topic } from '../../shared/effects.ts';
import type { Statement, Transaction } from '../driver/transaction.ts';

export interface NotificationsOptions {
  readonly client: pg.ClientConfig;
  readonly connectTimeoutMs: number;
  /** How long to wait for the answer of a statement. */
  readonly answerTimeoutMs: number;
  readonly channel: string;
  /** How long to tell of commits before anyone has answered a hello. Default 2 s. */
  readonly answerMs?: number;
  readonly onNews: (news: News) => void;
  /** Something may have been missed: the connection was lost, or is there again. */
  readonly onGap: () => void;
}

// The first commit is told at once; those that follow within this time are told together.
const spacingMs = 5;
const firstRetryMs = 20;
const maxRetryMs = 1_000;
const defaultAnswerMs = 2_000;
// Whoever is there answers a hello: two that are not answered, and nobody is there any more.
const helloEveryMs = 30_000;
const peerMs = 2.5 * helloEveryMs;

// What a transaction of the application tells comes from none of the processes: they all have to hear it.
const nobody = '';

const notify: Statement = {
  name: 'perdure_notify',
  text: 'SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload',
};
const notifyWithoutSync: Statement = {
  name: 'perdure_notify_without_sync',
  text: `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload)
    FROM unnest($2::text[]) AS payload`,
};

/**
 * Tells other processes of commits, and hears from them, on one connection of its own.
 *
 * N1. NOTIFY is never part of the work's transaction: it serialises commits. News are merged while one is under way.
 * N2. A process that hears of no other tells nothing: every process says hello when it begins to listen, and now and
 *     then while it has news, and is answered by those that listen already. Until they could answer it tells all.
 * N3. A lost connection is made anew, with jitter. News of that time are lost: `onGap` says so at both ends.
 */
export class Notifications {
  readonly #options: NotificationsOptions;
  readonly #from = randomToken();
  #greeting: 'hello' | 'here' | undefined;
  #news: Draft | undefined;
  #client: pg.Client | undefined;
  /** Until when somebody may be listening, as far as is known. */
  #peersUntil = Number.NEGATIVE_INFINITY;
  #helloAt = Number.NEGATIVE_INFINITY;
  #sending: Promise<void> | undefined;
  #retryMs = firstRetryMs;
  #retry: NodeJS.Timeout | undefined;
  #connecting: Promise<void> | undefined;
  #closed = false;

  constructor(options: NotificationsOptions) {
    this.#options = options;
  }

  /** Begins to listen; resolves after the first try, which later ones follow if it has failed. */
  start(): Promise<void> {
    this.#connecting ??= this.#connect();
    return this.#connecting;
  }

  /** Has a transaction of the application tell everybody when it commits, this process too. */
  async tellWithin(tx: Transaction, news: News): Promise<void> {
    const payloads = encodeAnnouncement({ from: nobody, kind: 'news', ...news });
    await tx.query(notify, [this.#options.channel, payloads]);
  }

  /** Tells the others soon, if there are any and the connection stands. */
  tell(news: News): void {
    if (this.#client === undefined) return;
    const now = performance.now();
    // Asked also when nobody was heard for long: they may only have had nothing to tell.
    if (now > this.#helloAt + helloEveryMs) {
      this.#greet('hello');
      this.#expectPeersFor(this.#options.answerMs ?? defaultAnswerMs);
    }
    if (now > this.#peersUntil) return;
    this.#news = addTo(this.#news, news);
    this.#sendSoon();
  }

  /** Finds out whether the connection is still alive: one that only listens would not notice. */
  probe(): void {
    if (this.#client !== undefined && !this.#closed) this.#greet('hello');
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    await this.#connecting;
    // What was said is heard out.
    await this.#sending;
    const client = this.#client;
    this.#client = undefined;
    if (client === undefined) return;
    // A connection that went silent would never confirm its end.
    const { stream } = client.connection;
    const giveUp = setTimeout(() => stream.destroy(), this.#options.answerTimeoutMs);
    await client.end();
    clearTimeout(giveUp);
  }

  async #connect(): Promise<void> {
    const { client: config, connectTimeoutMs, answerTimeoutMs, channel } = this.#options;
    const client = new pg.Client({
      ...config,
      connectionTimeoutMillis: connectTimeoutMs,
      query_timeout: answerTimeoutMs,
    });
    const onLost = (): void => this.#onLost(client);
    client.on('error', onLost);
    client.on('end', onLost);
    client.on('notification', ({ payload = '' }) => this.#onPayload(payload));
    this.#client = client;
    try {
      await client.connect();
      await client.query(`LISTEN ${pg.escapeIdentifier(channel)}`);
    } catch {
      // The pool meets the same trouble, with somebody to tell of it.
      await client.end();
      this.#onLost(client);
      return;
    }
    this.#retryMs = firstRetryMs;
    this.#greet('hello');
    this.#expectPeersFor(this.#options.answerMs ?? defaultAnswerMs);
    // Those who listen know of us before anything of ours can concern them.
    await this.#sending;
    this.#options.onGap();
  }

  #onLost(client: pg.Client): void {
    if (this.#client !== client || this.#closed) return;
    this.#client = undefined;
    this.#news = undefined;
    const retryMs = this.#retryMs * (0.5 + Math.random() / 2);
    this.#retryMs = Math.min(this.#retryMs * 2, maxRetryMs);
    this.#retry = setTimeout(() => {
      this.#connecting = this.#connect();
    }, retryMs);
    this.#options.onGap();
  }

  #onPayload(payload: string): void {
    const announcement = decodeAnnouncement(payload);
    if (announcement === undefined || announcement.from === this.#from || this.#closed) return;
    if (announcement.from !== nobody) this.#expectPeersFor(peerMs);
    if (announcement.kind === 'hello') this.#greet('here');
    if (announcement.kind === 'news') this.#options.onNews(announcement);
  }

  #expectPeersFor(ms: number): void {
    this.#peersUntil = Math.max(this.#peersUntil, performance.now() + ms);
  }

  #greet(greeting: 'hello' | 'here'): void {
    if (greeting === 'hello') this.#helloAt = performance.now();
    // A hello asks for answers, so it is the one to keep.
    this.#greeting = this.#greeting === 'hello' ? 'hello' : greeting;
    this.#sendSoon();
  }

  #sendSoon(): void {
    this.#sending ??= this.#flush();
  }

  /** What is to be told by now. */
  #takePayloads(): readonly string[] {
    const from = this.#from;
    const [kind, news] = [this.#greeting, this.#news];
    this.#greeting = undefined;
    this.#news = undefined;
    return [
      ...(kind === undefined ? [] : encodeAnnouncement({ from, kind })),
      ...(news === undefined ? [] : encodeAnnouncement({ from, kind: 'news', ...news })),
    ];
  }

  async #flush(): Promise<void> {
    // What is said in the same moment goes along.
    await Promise.resolve();
    for (;;) {
      const client = this.#client;
      const payloads = client === undefined ? [] : this.#takePayloads();
      if (client === undefined || payloads.length === 0) {
        this.#sending = undefined;
        return;
      }
      try {
        // The news must not wait for the disk: losing them in a crash harms nobody.
        await client.query({ ...notifyWithoutSync, values: [this.#options.channel, payloads] });
      } catch {
        // Only hints are lost; a connection that is gone says so itself.
        this.#onLost(client);
        await client.end();
      }
      await new Promise((resolve) => setTimeout(resolve, spacingMs));
    }
  }
}

/** News that are being collected. */
interface Draft extends News {
  readonly dueAt: Partial<Record<Topic, number>>;
  readonly finished: string[];
  readonly cancelRequested: string[];
  readonly emitted: string[];
  readonly statusSet: string[];
}

function newDraft(): Draft {
  return { dueAt: {}, finished: [], cancelRequested: [], emitted: [], statusSet: [], more: false };
}

function addTo(draft: Draft | undefined, news: News): Draft {
  const sum = draft ?? newDraft();
  for (const topic of ['orchestrations', 'work'] as const) {
    const at = news.dueAt[topic];
    if (at !== undefined) sum.dueAt[topic] = Math.min(at, sum.dueAt[topic] ?? Infinity);
  }
  // One by one: thousands may come at once, more than a call takes arguments.
  for (const id of news.finished) sum.finished.push(id);
  for (const token of news.cancelRequested) sum.cancelRequested.push(token);
  for (const id of news.statusSet) if (!sum.statusSet.includes(id)) sum.statusSet.push(id);
  for (const id of news.emitted) if (!sum.emitted.includes(id)) sum.emitted.push(id);
  return news.more ? { ...sum, more: true } : sum;
}

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
