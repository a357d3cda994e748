import { useEffect, useMemo } from 'preact/hooks';
import { signal, type ReadonlySignal } from '@preact/signals';
import { ApiError } from '../../../api/api-error.ts';
import { call } from '../../../api/call.ts';
import type { Item, Mark, Timeline } from './timeline-item.ts';

export type { Item } from './timeline-item.ts';

/** The operations of one execution. */
export interface TimelineData {
  readonly items: readonly Item[];
  readonly marks: readonly Mark[];
  readonly isComplete: boolean;
}

// The server reads up to 10,000 events for one response.
const pageEvents = 10_000;

/** Reads the timeline of an execution page by page, and what is new each time `version` changes. */
export function useTimeline(
  id: string,
  executionId: number | undefined,
  version: string,
): {
  readonly data: ReadonlySignal<TimelineData | undefined>;
  readonly error: ReadonlySignal<ApiError | undefined>;
} {
  const reader = useMemo(() => new TimelineReader(id, executionId), [id, executionId]);
  useEffect(() => () => reader.stop(), [reader]);
  useEffect(() => void reader.read(), [reader, version]);
  return reader;
}

class TimelineReader {
  readonly data = signal<TimelineData | undefined>(undefined);
  readonly error = signal<ApiError | undefined>(undefined);
  readonly #id: string;
  readonly #executionId: number | undefined;
  readonly #stopped = new AbortController();
  readonly #items = new Map<number, Item>();
  readonly #marks = new Map<number, Mark>();
  #after = 0;
  #reading = false;
  #again = false;

  constructor(id: string, executionId: number | undefined) {
    this.#id = id;
    this.#executionId = executionId;
  }

  stop(): void {
    this.#stopped.abort();
  }

  async read(): Promise<void> {
    if (this.#reading) {
      this.#again = true;
      return;
    }
    this.#reading = true;
    try {
      let next: number | undefined;
      do {
        const page = await call(
          'getTimeline',
          {
            params: { id: this.#id },
            query: {
              after: this.#after,
              limit: pageEvents,
              ...(this.#executionId !== undefined && { executionId: this.#executionId }),
            },
          },
          this.#stopped.signal,
        );
        this.#take(page);
        next = page.nextAfter;
        if (next !== undefined) this.#after = next;
        this.data.value = this.#toData(next === undefined);
      } while (next !== undefined);
      this.error.value = undefined;
    } catch (error) {
      if (this.#stopped.signal.aborted) return;
      this.error.value =
        error instanceof ApiError ? error : new ApiError(-1, 'UNEXPECTED', String(error));
    } finally {
      this.#reading = false;
      if (this.#again) {
        this.#again = false;
        void this.read();
      }
    }
  }

  // Operations whose events are on several pages are on each of them, with the fields that the page knows.
  #take({ items, marks }: Timeline): void {
    for (const item of items) {
      const known = this.#items.get(item.operation);
      this.#items.set(item.operation, known === undefined ? item : { ...known, ...item });
    }
    for (const mark of marks) this.#marks.set(mark.id, mark);
  }

  #toData(isComplete: boolean): TimelineData {
    // A change of state takes no time, so it has no bar. The history shows it.
    const items = [...this.#items.values()]
      .filter(({ kind }) => kind !== 'state')
      .sort((a, b) => a.operation - b.operation);
    const marks = [...this.#marks.values()];
    return { items, marks, isComplete };
  }
}
