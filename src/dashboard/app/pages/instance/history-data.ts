import { useEffect, useMemo } from 'preact/hooks';
import { signal } from '@preact/signals';
import { ApiError } from '../../api/api-error.ts';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { follow } from '../../api/stream.ts';
import { isLive } from '../../state/live.ts';

export type Entry = ResponseBody<'getHistory'>['items'][number];

const pageSize = 200;
const headBytes = 256;

/** The history of an execution, the newest event first, read page by page; new events are added as they are recorded. */
export class HistoryReader {
  readonly entries = signal<readonly Entry[]>([]);
  readonly error = signal<ApiError | undefined>(undefined);
  readonly isLoading = signal(true);
  readonly isComplete = signal(false);
  readonly #id: string;
  readonly #executionId: number;
  readonly #kinds: readonly string[];
  readonly #stopped = new AbortController();
  #before: number | undefined;
  #reading = false;

  constructor(id: string, executionId: number, kinds: readonly string[]) {
    this.#id = id;
    this.#executionId = executionId;
    this.#kinds = kinds;
  }

  stop(): void {
    this.#stopped.abort();
  }

  async readMore(): Promise<void> {
    if (this.#reading || this.isComplete.peek()) return;
    this.#reading = true;
    this.isLoading.value = true;
    try {
      // A page with kinds may be empty before the last one.
      let found = 0;
      do {
        const page = await this.#page(this.#before);
        this.entries.value = [...this.entries.peek(), ...page.items];
        found += page.items.length;
        this.#before = page.nextBefore;
      } while (this.#before !== undefined && found < pageSize / 4);
      this.isComplete.value = this.#before === undefined;
      this.error.value = undefined;
    } catch (error) {
      if (!this.#stopped.signal.aborted) {
        this.error.value =
          error instanceof ApiError ? error : new ApiError(-1, 'UNEXPECTED', String(error));
      }
    } finally {
      this.#reading = false;
      this.isLoading.value = false;
    }
  }

  /** Adds events that are recorded from now on. */
  watch(signal: AbortSignal): void {
    const position = (): string => `${this.#executionId}.${this.entries.peek()[0]?.id ?? 0}`;
    void follow(
      'watchHistory',
      () => ({
        params: { id: this.#id },
        query: { after: position(), payloads: 'head' as const, headBytes },
      }),
      {
        message: (message) => {
          if (message.kind !== 'event' || message.executionId !== this.#executionId) return;
          if (message.id <= (this.entries.peek()[0]?.id ?? 0)) return;
          if (this.#kinds.length > 0 && !this.#kinds.includes(message.event.kind)) return;
          const { id, event, payloadBytes } = message;
          this.entries.value = [
            { id, event, ...(payloadBytes !== undefined && { payloadBytes }) },
            ...this.entries.peek(),
          ];
        },
      },
      signal,
    );
  }

  #page(before: number | undefined): Promise<ResponseBody<'getHistory'>> {
    return call(
      'getHistory',
      {
        params: { id: this.#id },
        query: {
          executionId: this.#executionId,
          order: 'desc',
          limit: pageSize,
          payloads: 'head',
          headBytes,
          ...(before !== undefined && { before }),
          ...(this.#kinds.length > 0 && { kinds: this.#kinds as Entry['event']['kind'][] }),
        },
      },
      this.#stopped.signal,
    );
  }
}

/** Reads the history of an execution while the component is shown. */
export function useHistory(
  id: string,
  executionId: number,
  { kinds = [], follows }: { readonly kinds?: readonly string[]; readonly follows: boolean },
): HistoryReader {
  const reader = useMemo(
    () => new HistoryReader(id, executionId, kinds),
    [id, executionId, kinds.join(' ')],
  );
  useEffect(() => {
    let watch: AbortController | undefined;
    let dispose: (() => void) | undefined;
    let isShown = true;
    const start = async (): Promise<void> => {
      await reader.readMore();
      if (!follows || !isShown) return;
      dispose = isLive.subscribe((live) => {
        watch?.abort();
        if (!live) return;
        watch = new AbortController();
        reader.watch(watch.signal);
      });
    };
    void start();
    return () => {
      isShown = false;
      dispose?.();
      watch?.abort();
      reader.stop();
    };
  }, [reader, follows]);
  return reader;
}
