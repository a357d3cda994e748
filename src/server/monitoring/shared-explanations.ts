import type { ExplainedInstance } from '../../client/reading/explain-instances.ts';
import type { Caller } from '../access/tokens.ts';

interface Entry {
  /** When the read began, by `performance.now()`. */
  readonly startedAt: number;
  readonly explained: Promise<ExplainedInstance | undefined>;
}

interface SharedExplanationsParams {
  readonly read: (ids: readonly string[], caller: Caller) => Promise<readonly ExplainedInstance[]>;
  /** When a change of an instance was last found, by `performance.now()`. */
  readonly changedAt: (id: string) => number | undefined;
  readonly maxAgeMs?: number;
  readonly maxEntries?: number;
}

/**
 * Explains instances to many callers. Callers that may see the same definitions share a result for 500 ms, so the cost
 * does not depend on their number. A change that a stream has reported ends the sharing earlier.
 */
export class SharedExplanations {
  readonly #params: Required<SharedExplanationsParams>;
  /** The oldest first. */
  readonly #entries = new Map<string, Entry>();

  constructor(params: SharedExplanationsParams) {
    this.#params = { maxAgeMs: 500, maxEntries: 5_000, ...params };
  }

  /** Resolves with the explanations of known ids, in their order. */
  async get(ids: readonly string[], caller: Caller): Promise<readonly ExplainedInstance[]> {
    const visibility = JSON.stringify(caller.definitions?.patterns.toSorted() ?? null);
    const keyOf = (id: string): string => `${visibility}${id}`;
    const shared = new Map(ids.map((id) => [id, this.#find(id, keyOf(id))]));
    const missing = ids.filter((id) => shared.get(id) === undefined);
    const read = this.#read(missing, caller, keyOf);
    const found = await Promise.all(
      ids.map(async (id) => (shared.get(id) ?? read.get(id))?.explained),
    );
    return found.filter((one) => one !== undefined);
  }

  #find(id: string, key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const { startedAt } = entry;
    const isOld = performance.now() - startedAt > this.#params.maxAgeMs;
    const hasChanged = (this.#params.changedAt(id) ?? startedAt) > startedAt;
    return isOld || hasChanged ? undefined : entry;
  }

  #read(
    ids: readonly string[],
    caller: Caller,
    keyOf: (id: string) => string,
  ): ReadonlyMap<string, Entry> {
    const entries = new Map<string, Entry>();
    if (ids.length === 0) return entries;
    const startedAt = performance.now();
    const byId = this.#params
      .read(ids, caller)
      .then((found) => new Map(found.map((one) => [one.id, one])));
    for (const id of ids) {
      const key = keyOf(id);
      const entry = { startedAt, explained: byId.then((found) => found.get(id)) };
      // The caller gets the error; the next one reads again.
      entry.explained.catch(() => {
        if (this.#entries.get(key) === entry) this.#entries.delete(key);
      });
      this.#entries.delete(key);
      this.#entries.set(key, entry);
      entries.set(id, entry);
    }
    this.#evict(startedAt);
    return entries;
  }

  /** Deletes entries that are too old or too many. Keeps those of the read that started now. */
  #evict(nowMs: number): void {
    const { maxAgeMs, maxEntries } = this.#params;
    for (const [key, { startedAt }] of this.#entries) {
      const isOld = nowMs - startedAt > maxAgeMs;
      const isExcess = this.#entries.size > maxEntries && startedAt < nowMs;
      if (!isOld && !isExcess) return;
      this.#entries.delete(key);
    }
  }
}
