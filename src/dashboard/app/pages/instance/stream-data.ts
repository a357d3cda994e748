import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { ApiError } from '../../api/api-error.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { follow } from '../../api/stream.ts';
import { isLive } from '../../state/live.ts';

export type StreamEntry = Exclude<ResponseBody<'streamInstance'>, { readonly kind: 'end' }>;

/** Older entries of a longer stream are not kept: a page that stays open must not grow without bound. */
const maxEntries = 5_000;
/** Entries that arrive within this time are rendered together. */
const flushMs = 50;

/** The stream of an instance, the newest entry first. */
export class StreamReader {
  readonly entries = signal<readonly StreamEntry[]>([]);
  readonly error = signal<ApiError | undefined>(undefined);
  readonly isLoading = signal(true);
  /** The number of entries that were read and are not kept. */
  readonly notKept = signal(0);
  /** Whether all chunks of an ended instance were read. */
  readonly hasEnded = signal(false);
  readonly #id: string;
  #cursor: string | undefined;
  #arrived: StreamEntry[] = [];
  #flush: ReturnType<typeof setTimeout> | undefined;

  constructor(id: string) {
    this.#id = id;
  }

  /** Reads on after the last known entry, until `stop` aborts or the stream ends. */
  read(stop: AbortController): void {
    if (this.hasEnded.peek()) return;
    const ready = setTimeout(() => (this.isLoading.value = false), 1_000);
    stop.signal.addEventListener('abort', () => clearTimeout(ready));
    void follow(
      'streamInstance',
      () => ({
        params: { id: this.#id },
        query: this.#cursor === undefined ? {} : { after: this.#cursor },
      }),
      {
        message: (message) => {
          if (message.kind === 'end') {
            this.#show();
            this.hasEnded.value = true;
            this.isLoading.value = false;
            stop.abort();
            return;
          }
          this.#cursor = message.cursor;
          this.#arrived.push(message);
          this.#flush ??= setTimeout(() => this.#show(), flushMs);
        },
        refused: (error) => {
          this.error.value = error;
          this.isLoading.value = false;
        },
      },
      stop.signal,
    );
  }

  #show(): void {
    clearTimeout(this.#flush);
    this.#flush = undefined;
    if (this.#arrived.length === 0) return;
    const all = [...this.#arrived.toReversed(), ...this.entries.peek()];
    this.#arrived = [];
    this.notKept.value += Math.max(0, all.length - maxEntries);
    this.entries.value = all.slice(0, maxEntries);
    this.isLoading.value = false;
  }
}

/** Reads the stream of an instance while it is shown and the page is live. */
export function useStream(id: string): StreamReader {
  const reader = useMemo(() => new StreamReader(id), [id]);
  useEffect(() => {
    let stop: AbortController | undefined;
    const dispose = isLive.subscribe((live) => {
      stop?.abort();
      if (!live) return;
      stop = new AbortController();
      reader.read(stop);
    });
    return () => {
      dispose();
      stop?.abort();
    };
  }, [reader]);
  return reader;
}
