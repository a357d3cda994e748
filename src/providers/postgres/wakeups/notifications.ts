import { setTimeout } from 'node:timers';
import pg from 'pg';
import { randomToken } from '../../../model/values/random-id.ts';
import type { Topic } from '../../shared/effects.ts';
import type { Statement, Transaction } from '../driver/transaction.ts';

export interface NotificationsOptions {
  readonly client: pg.ClientConfig;
  readonly connectTimeoutMs: number;
  /** Maximum time for a statement. */
  readonly answerTimeoutMs: number;
  readonly channel: string;
  /** How long to notify after a `hello` without a reply from a peer. Default: 2 s. */
  readonly answerMs?: number;
  readonly onCommit: (notice: CommitNotice) => void;
  /** Called when the connection is lost and when it is restored: notifications may be missing. */
  readonly onGap: () => void;
}

// Mean time between NOTIFY statements. Commits that wait share one.
const spacingMs = 5;
// A process that was silent sends this many without a wait.
const maxBurst = 4;
const firstRetryMs = 20;
const maxRetryMs = 1_000;
const defaultAnswerMs = 2_000;
// A peer replies to each hello. After two hellos without a reply, no peer is expected.
const helloEveryMs = 30_000;
const peerMs = 2.5 * helloEveryMs;

// Sender of notifications from application transactions: every process handles them, this one too.
const applicationSender = '';

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
 * Sends commit notices to other processes and receives theirs, on a connection of its own.
 *
 * N1. NOTIFY is never part of the work's transaction, because it serializes commits. Notices are merged while one is sent.
 * N2. A process without peers sends no notices. It discovers peers with `hello`, sent when it starts to listen and every
 *     30 s while it commits; each peer replies `here`. Until the time for replies has passed, it sends all notices.
 * N3. A lost connection is restored with backoff and jitter. Notices of that time are lost; `onGap` is called at both ends.
 */
export class Notifications {
  readonly #options: NotificationsOptions;
  readonly #from = randomToken();
  #greeting: 'hello' | 'here' | undefined;
  #pending: MergedNotice | undefined;
  #client: pg.Client | undefined;
  /** Until when peers are expected. */
  #peersUntil = Number.NEGATIVE_INFINITY;
  #helloAt = Number.NEGATIVE_INFINITY;
  #sending: Promise<void> | undefined;
  /** When the statements sent so far would have ended, with the mean time between them. */
  #freeAt = Number.NEGATIVE_INFINITY;
  #retryMs = firstRetryMs;
  #retry: NodeJS.Timeout | undefined;
  #connecting: Promise<void> | undefined;
  #closed = false;

  constructor(options: NotificationsOptions) {
    this.#options = options;
  }

  /** Starts listening. Resolves after the first attempt; a failed one is retried in the background. */
  start(): Promise<void> {
    this.#connecting ??= this.#connect();
    return this.#connecting;
  }

  /** Notifies all processes, this one too, when the application's transaction commits. */
  async notifyWithin(tx: Transaction, notice: CommitNotice): Promise<void> {
    const payloads = encodePayloads({ from: applicationSender, kind: 'news', ...notice });
    await tx.query(notify, [this.#options.channel, payloads]);
  }

  /** Notifies peers soon, if any are expected and the connection is up. */
  notify(notice: CommitNotice): void {
    if (this.#client === undefined) return;
    const now = performance.now();
    // Also after long silence: peers that had no commits are silent too.
    if (now > this.#helloAt + helloEveryMs) {
      this.#greet('hello');
      this.#expectPeersFor(this.#options.answerMs ?? defaultAnswerMs);
    }
    if (now > this.#peersUntil) return;
    this.#pending = merge(this.#pending, notice);
    this.#sendSoon();
  }

  /** Sends a hello: a connection that only listens would not detect its loss. */
  checkConnection(): void {
    if (this.#client !== undefined && !this.#closed) this.#greet('hello');
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    await this.#connecting;
    await this.#sending;
    const client = this.#client;
    this.#client = undefined;
    if (client === undefined) return;
    // A dead connection would never confirm its end.
    const { stream } = client.connection;
    const timer = setTimeout(() => stream.destroy(), this.#options.answerTimeoutMs);
    await client.end();
    clearTimeout(timer);
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
      // Callers get the same error from the pool.
      await client.end();
      this.#onLost(client);
      return;
    }
    this.#retryMs = firstRetryMs;
    this.#greet('hello');
    this.#expectPeersFor(this.#options.answerMs ?? defaultAnswerMs);
    // Other processes are notified of this process before its first commit.
    await this.#sending;
    this.#options.onGap();
  }

  #onLost(client: pg.Client): void {
    if (this.#client !== client || this.#closed) return;
    this.#client = undefined;
    this.#pending = undefined;
    const retryMs = this.#retryMs * (0.5 + Math.random() / 2);
    this.#retryMs = Math.min(this.#retryMs * 2, maxRetryMs);
    this.#retry = setTimeout(() => {
      this.#connecting = this.#connect();
    }, retryMs);
    this.#options.onGap();
  }

  #onPayload(payload: string): void {
    const notification = decodePayload(payload);
    if (notification === undefined || notification.from === this.#from || this.#closed) return;
    if (notification.from !== applicationSender) this.#expectPeersFor(peerMs);
    if (notification.kind === 'hello') this.#greet('here');
    if (notification.kind === 'news') this.#options.onCommit(notification);
  }

  #expectPeersFor(ms: number): void {
    this.#peersUntil = Math.max(this.#peersUntil, performance.now() + ms);
  }

  #greet(greeting: 'hello' | 'here'): void {
    if (greeting === 'hello') this.#helloAt = performance.now();
    // A hello also serves as a reply.
    this.#greeting = this.#greeting === 'hello' ? 'hello' : greeting;
    this.#sendSoon();
  }

  #sendSoon(): void {
    this.#sending ??= this.#flush();
  }

  #takePayloads(): readonly string[] {
    const from = this.#from;
    const [kind, notice] = [this.#greeting, this.#pending];
    this.#greeting = undefined;
    this.#pending = undefined;
    return [
      ...(kind === undefined ? [] : encodePayloads({ from, kind })),
      ...(notice === undefined ? [] : encodePayloads({ from, kind: 'news', ...notice })),
    ];
  }

  async #flush(): Promise<void> {
    // Calls of the same microtask share the first statement.
    await Promise.resolve();
    for (;;) {
      const client = this.#client;
      const payloads = client === undefined ? [] : this.#takePayloads();
      if (client === undefined || payloads.length === 0) {
        this.#sending = undefined;
        return;
      }
      try {
        // No sync to disk: a notice may be lost in a crash.
        await client.query({ ...notifyWithoutSync, values: [this.#options.channel, payloads] });
      } catch {
        // Only hints are lost.
        this.#onLost(client);
        await client.end();
      }
      const waitMs = this.#takeTurn();
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }

  /** Counts a statement. Returns how long to wait until the next one. */
  #takeTurn(): number {
    const now = performance.now();
    this.#freeAt = Math.max(this.#freeAt, now - maxBurst * spacingMs) + spacingMs;
    return this.#freeAt - now;
  }
}

/** Notices that are merged until they are sent. */
interface MergedNotice extends CommitNotice {
  readonly dueAt: Partial<Record<Topic, number>>;
  readonly definitions: Partial<Record<Topic, readonly number[]>>;
  readonly finished: string[];
  readonly cancelRequested: string[];
  readonly emitted: string[];
  readonly statusSet: string[];
  readonly messages: string[];
}

/** A notice of nothing. */
export function emptyNotice(): MergedNotice {
  return {
    dueAt: {},
    definitions: {},
    finished: [],
    cancelRequested: [],
    emitted: [],
    statusSet: [],
    messages: [],
    more: false,
  };
}

function merge(pending: MergedNotice | undefined, notice: CommitNotice): MergedNotice {
  const sum = pending ?? emptyNotice();
  for (const topic of ['orchestrations', 'work'] as const) {
    const at = notice.dueAt[topic];
    if (at === undefined) continue;
    const before = sum.dueAt[topic];
    const known = before === undefined ? [] : sum.definitions[topic];
    const added = notice.definitions[topic];
    sum.dueAt[topic] = Math.min(at, before ?? Infinity);
    const both = known && added && [...new Set([...known, ...added])];
    if (both !== undefined && both.length <= maxDefinitions) sum.definitions[topic] = both;
    else delete sum.definitions[topic];
  }
  // One push per id: a spread would exceed the maximum number of arguments.
  for (const id of notice.finished) sum.finished.push(id);
  for (const token of notice.cancelRequested) sum.cancelRequested.push(token);
  for (const id of notice.statusSet) if (!sum.statusSet.includes(id)) sum.statusSet.push(id);
  for (const key of notice.messages) if (!sum.messages.includes(key)) sum.messages.push(key);
  for (const id of notice.emitted) if (!sum.emitted.includes(id)) sum.emitted.push(id);
  return {
    ...sum,
    ...(notice.more && { more: true }),
    ...(notice.registered === true && { registered: true }),
  };
}

/** The effects of commits that other processes need. */
export interface CommitNotice {
  /** The earliest time at which new work of the topic is due. */
  readonly dueAt: Readonly<Partial<Record<Topic, number>>>;
  /** The keys of the definitions of that work. Absent: any. */
  readonly definitions: Readonly<Partial<Record<Topic, readonly number[]>>>;
  readonly finished: readonly string[];
  readonly cancelRequested: readonly string[];
  /** Runs whose streams got chunks or were read. */
  readonly emitted: readonly string[];
  /** Instances whose custom status was set. */
  readonly statusSet: readonly string[];
  /** Keys of claimed instances that got messages. */
  readonly messages: readonly string[];
  /** The lists are incomplete: receivers have to query. */
  readonly more: boolean;
  /** The sender has registered as a process that claims work. */
  readonly registered?: true;
}

/** A notification. `hello`: the sender started to listen; `here`: the reply to it. */
type Notification = { readonly from: string } & (
  | { readonly kind: 'hello' | 'here' }
  | ({ readonly kind: 'news' } & CommitNotice)
);

// PostgreSQL limits a payload to less than 8,000 bytes.
const maxBytes = 7_900;
// A notice of more definitions names none.
export const maxDefinitions = 16;
// Reserved for the fields that are not lists, and the keys of the definitions.
const headBytes = 700;
// Enough for 2,000 lock tokens. Beyond that, receivers query.
const maxPayloads = 20;

/** Encodes a notification as payloads for NOTIFY. */
export function encodePayloads(notification: Notification): readonly string[] {
  if (notification.kind !== 'news') return [JSON.stringify(notification)];
  const { from, dueAt, definitions } = notification;
  const { finished, cancelRequested, emitted, statusSet, messages } = notification;
  const ends = split(finished);
  const requests = split(cancelRequested);
  const streams = split(emitted);
  const statuses = split(statusSet);
  const keys = split(messages);
  const parts = [
    ...ends.parts.map((ids) => ({ finished: ids })),
    ...requests.parts.map((tokens) => ({ cancelRequested: tokens })),
    ...streams.parts.map((ids) => ({ emitted: ids })),
    ...statuses.parts.map((ids) => ({ statusSet: ids })),
    ...keys.parts.map((part) => ({ messages: part })),
  ];
  const isCut =
    parts.length > maxPayloads ||
    [ends, requests, streams, statuses, keys].some(({ leftOut }) => leftOut);
  const head = {
    from,
    kind: 'news',
    dueAt,
    ...(Object.keys(definitions).length > 0 && { definitions }),
    ...((isCut || notification.more) && { more: true }),
    ...(notification.registered === true && { registered: true }),
  };
  const [first = {}, ...rest] = parts.slice(0, maxPayloads);
  return [{ ...head, ...first }, ...rest.map((part) => ({ from, kind: 'news', ...part }))].map(
    (payload) => JSON.stringify(payload),
  );
}

/** Decodes a payload. Returns `undefined` for one of another program or a later version. */
export function decodePayload(payload: string): Notification | undefined {
  let read: unknown;
  try {
    read = JSON.parse(payload);
  } catch {
    return undefined;
  }
  if (typeof read !== 'object' || read === null) return undefined;
  const {
    from,
    kind,
    dueAt = {},
    definitions = {},
    ...lists
  } = read as Partial<Notification & CommitNotice>;
  if (typeof from !== 'string') return undefined;
  if (kind === 'hello' || kind === 'here') return { from, kind };
  if (kind !== 'news') return undefined;
  const { finished = [], cancelRequested = [], emitted = [], statusSet = [] } = lists;
  const { messages = [], more = false } = lists;
  return {
    from,
    kind,
    dueAt,
    definitions,
    finished,
    cancelRequested,
    emitted,
    statusSet,
    messages,
    more,
    ...(lists.registered === true && { registered: true }),
  };
}

/** Splits a list so that each part fits into one payload. Omits a text that fits into none. */
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
