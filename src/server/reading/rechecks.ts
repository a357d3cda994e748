interface Entry {
  /** Rejects where the caller may no longer use what is open. */
  readonly check: () => Promise<void>;
  readonly end: (error: unknown) => void;
}

/** Checks streams and waits that are open again and again, and ends those that are refused by then. */
export class Rechecks {
  readonly #everyMs: number;
  readonly #entries = new Set<Entry>();
  readonly #checking = new Set<Entry>();
  #timer: NodeJS.Timeout | undefined;

  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Checks something from now on; returns how to stop that. */
  add(entry: Entry): () => void {
    this.#entries.add(entry);
    this.#timer ??= setInterval(() => this.#checkAll(), this.#everyMs).unref();
    return () => {
      this.#entries.delete(entry);
      if (this.#entries.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  #checkAll(): void {
    for (const entry of this.#entries) {
      // A check that hangs must not pile up.
      if (this.#checking.has(entry)) continue;
      this.#checking.add(entry);
      entry
        .check()
        .catch(entry.end)
        .finally(() => this.#checking.delete(entry));
    }
  }
}
