/** Reads values by id; ids without a value are missing in the result. */
export type ReadMany<Value> = (ids: readonly string[]) => Promise<ReadonlyMap<string, Value>>;

interface Entry<Value> {
  /** When the read began, by `performance.now()`. */
  readonly startedAt: number;
  readonly value: Promise<Value | undefined>;
}

interface SharedReadsOptions {
  readonly maxAgeMs: number;
  readonly maxEntries: number;
  /** When a change of an id was last found, by `performance.now()`. It ends the sharing of earlier reads. */
  readonly changedAt?: (id: string) => number | undefined;
}

/** Shares reads by id among callers for a short time, so that their cost does not depend on the number of callers. */
export class SharedReads<Value> {
  readonly #options: SharedReadsOptions;
  /** The oldest first. */
  readonly #entries = new Map<string, Entry<Value>>();

  constructor(options: SharedReadsOptions) {
    this.#options = options;
  }

  /** Resolves with the values of the ids that have one, in the order of the ids. Only callers of one scope share. */
  async get(
    scope: string,
    ids: readonly string[],
    read: ReadMany<Value>,
  ): Promise<ReadonlyMap<string, Value>> {
    const keyOf = (id: string): string => `${scope} ${id}`;
    const shared = new Map(ids.map((id) => [id, this.#find(id, keyOf(id))]));
    const missing = ids.filter((id) => shared.get(id) === undefined);
    const fresh = missing.length === 0 ? undefined : this.#read(missing, keyOf, read);
    const found = await Promise.all(
      ids.map(async (id) => [id, await (shared.get(id) ?? fresh?.get(id))?.value] as const),
    );
    return new Map(found.flatMap(([id, value]) => (value === undefined ? [] : [[id, value]])));
  }

  #find(id: string, key: string): Entry<Value> | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const { startedAt } = entry;
    const isOld = performance.now() - startedAt > this.#options.maxAgeMs;
    const hasChanged = (this.#options.changedAt?.(id) ?? startedAt) > startedAt;
    return isOld || hasChanged ? undefined : entry;
  }

  #read(
    ids: readonly string[],
    keyOf: (id: string) => string,
    read: ReadMany<Value>,
  ): ReadonlyMap<string, Entry<Value>> {
    const startedAt = performance.now();
    const values = read(ids);
    const entries = new Map<string, Entry<Value>>();
    for (const id of ids) {
      const key = keyOf(id);
      const entry = { startedAt, value: values.then((found) => found.get(id)) };
      // The caller gets the error; the next one reads again.
      entry.value.catch(() => {
        if (this.#entries.get(key) === entry) this.#entries.delete(key);
      });
      this.#entries.delete(key);
      this.#entries.set(key, entry);
      entries.set(id, entry);
    }
    this.#evict(startedAt);
    return entries;
  }

  /** Deletes entries that are too old, and the oldest if there are too many. */
  #evict(nowMs: number): void {
    const { maxAgeMs, maxEntries } = this.#options;
    for (const [key, { startedAt }] of this.#entries) {
      const isOld = nowMs - startedAt > maxAgeMs;
      if (!isOld && this.#entries.size <= maxEntries) return;
      this.#entries.delete(key);
    }
  }
}
