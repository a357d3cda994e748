import { signal } from '@preact/signals';
import type { ResponseBody } from '../../api/operations.ts';
import { ApiError } from '../../api/api-error.ts';
import { call } from '../../api/call.ts';
import { follow } from '../../api/stream.ts';
import { isActive } from '../../words/status.ts';
import type { Conditions } from './filter.ts';

/** An instance in a list. */
export type Row = ResponseBody<'listInstances'>['items'][number];
/** What an instance does now. */
export type Explained = Omit<ResponseBody<'explainInstances'>['items'][number], 'instance'>;

const pageSize = 100;
/** Rows that may be read by scrolling; a filter finds the others. */
const maxRows = 100_000;
const maxWatched = 200;
/** The delay before the visible rows are watched, so that scrolling opens no streams. */
const settleMs = 300;

/**
 * The rows of a list, read page by page. Visible rows follow their changes through one stream. New instances are counted,
 * not inserted, so that no row moves under the pointer.
 */
export class InstanceRows {
  readonly rows = signal<readonly Row[]>([]);
  readonly error = signal<ApiError | undefined>(undefined);
  readonly isLoading = signal(true);
  readonly isComplete = signal(false);
  /** Instances created since the list was read, up to one page. */
  readonly newCount = signal(0);
  /** What the visible rows wait for, by id. */
  readonly explanations = signal<ReadonlyMap<string, Explained>>(new Map());
  readonly #conditions: () => Conditions;
  readonly #stopped = new AbortController();
  #cursor: string | undefined;
  #reading = false;
  #watched = '';
  #watch: AbortController | undefined;
  #settle: ReturnType<typeof setTimeout> | undefined;

  constructor(conditions: () => Conditions) {
    this.#conditions = conditions;
  }

  stop(): void {
    this.#stopped.abort();
    this.#watch?.abort();
    clearTimeout(this.#settle);
  }

  /** Reads the first page again. */
  async refresh(): Promise<void> {
    this.#cursor = undefined;
    this.isComplete.value = false;
    await this.#read((items) => {
      this.rows.value = items;
      this.newCount.value = 0;
    });
  }

  /** Reads again after the connection was lost. */
  reconnect(isAtTop: boolean): Promise<void> {
    return this.error.peek() === undefined ? this.readNew(isAtTop) : this.refresh();
  }

  /** Reads the next page. */
  async readMore(): Promise<void> {
    if (this.isComplete.peek() || this.#cursor === undefined) return;
    await this.#read((items) => {
      const rows = this.rows.peek();
      // Pages overlap at their border only.
      const known = new Set(rows.slice(-2 * pageSize).map(({ id }) => id));
      this.rows.value = [...rows, ...items.filter(({ id }) => !known.has(id))];
    });
  }

  /** Counts what is new at the top. If the list is at its top, shows it. */
  async readNew(isAtTop: boolean): Promise<void> {
    if (this.#reading || this.error.peek() !== undefined) return;
    try {
      const { items, nextCursor } = await call(
        'listInstances',
        { query: { ...this.#conditions(), limit: pageSize } },
        this.#stopped.signal,
      );
      const rows = this.rows.peek();
      // Rows below the first page stay as they are: there may be many.
      const places = new Map(rows.slice(0, 4 * pageSize).map(({ id }, index) => [id, index]));
      const lastKnown = items.findLastIndex(({ id }) => places.has(id));
      const isWhole = nextCursor === undefined;
      // Older rows that moved up into the first page are read with the next one.
      const first = isWhole ? items : items.slice(0, lastKnown + 1);
      const end = isWhole ? rows.length : (places.get(items[lastKnown]?.id ?? '') ?? -1) + 1;
      const fresh = isWhole || lastKnown !== -1 ? first.filter(({ id }) => !places.has(id)) : items;
      if (!isAtTop) {
        // Rows that were deleted or no longer match are gone.
        const byId = new Map(first.map((row) => [row.id, row]));
        const known = rows.slice(0, end).flatMap(({ id }) => byId.get(id) ?? []);
        this.rows.value = [...known, ...rows.slice(end)];
        this.newCount.value = fresh.length;
      } else if (!isWhole && lastKnown === -1) {
        // More than a page is new: the rows below it are unknown.
        this.rows.value = items;
        this.#cursor = nextCursor;
        this.isComplete.value = false;
      } else this.rows.value = [...first, ...rows.slice(end)].slice(0, maxRows);
    } catch (error) {
      if (!this.#stopped.signal.aborted && !(error instanceof ApiError && error.isUnreachable)) {
        this.error.value = toApiError(error);
      }
    }
  }

  /** Follows the states of the visible rows. */
  watch(visible: readonly Row[]): void {
    const ids = visible
      .filter(({ status }) => isActive(status))
      .slice(0, maxWatched)
      .map(({ id }) => id);
    const key = ids.join('\n');
    if (key === this.#watched) return;
    this.#watched = key;
    clearTimeout(this.#settle);
    this.#settle = setTimeout(() => {
      this.#watch?.abort();
      if (ids.length === 0) return;
      const watch = new AbortController();
      this.#watch = watch;
      const versions = new Map<string, string>();
      const changed = (
        items: readonly { id: string; version: string; status: string | null }[],
      ): void => {
        const stale = items.filter(({ id, version }) => versions.get(id) !== version);
        for (const { id, version } of items) versions.set(id, version);
        const gone = new Set(stale.filter(({ status }) => status === null).map(({ id }) => id));
        if (gone.size > 0) this.rows.value = this.rows.peek().filter(({ id }) => !gone.has(id));
        const ids = stale.filter(({ status }) => status !== null).map(({ id }) => id);
        if (ids.length > 0) void this.#readRows(ids, watch.signal);
      };
      void follow(
        'watchInstances',
        () => ({ body: { ids } }),
        { message: ({ items }) => changed(items), reopened: () => versions.clear() },
        watch.signal,
      );
    }, settleMs);
  }

  async #readRows(ids: readonly string[], signal: AbortSignal): Promise<void> {
    try {
      const { items } = await call('explainInstances', { body: { ids: [...ids] } }, signal);
      const byId = new Map(items.map((item) => [item.id, item]));
      this.rows.value = this.rows.peek().map((row) => {
        const known = byId.get(row.id);
        return known?.instance === undefined ? row : known.instance;
      });
      const explanations = new Map(this.explanations.peek());
      for (const { instance: _, ...explained } of items) explanations.set(explained.id, explained);
      this.explanations.value = explanations;
    } catch (error) {
      if (error instanceof ApiError && !error.isUnreachable) this.error.value = error;
    }
  }

  async #read(take: (items: readonly Row[]) => void): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    this.isLoading.value = true;
    try {
      // A page may be empty before the last one, if the server examined many rows that do not match.
      const found: Row[] = [];
      do {
        const { items, nextCursor } = await call(
          'listInstances',
          {
            query: {
              ...this.#conditions(),
              limit: pageSize,
              ...(this.#cursor !== undefined && { cursor: this.#cursor }),
            },
          },
          this.#stopped.signal,
        );
        found.push(...items);
        this.#cursor = nextCursor;
      } while (this.#cursor !== undefined && found.length < pageSize / 2);
      take(found);
      this.isComplete.value = this.#cursor === undefined || this.rows.peek().length >= maxRows;
      this.error.value = undefined;
    } catch (error) {
      if (!this.#stopped.signal.aborted) this.error.value = toApiError(error);
    } finally {
      this.#reading = false;
      this.isLoading.value = false;
    }
  }
}

function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(-1, 'UNEXPECTED', String(error));
}
