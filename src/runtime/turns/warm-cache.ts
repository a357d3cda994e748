import type { WarmInstance } from './warm-instance.ts';

interface Entry {
  /** Emptied when it leaves the cache: the map may keep the entry until the next full garbage collection. */
  instance: WarmInstance | undefined;
  readonly bytes: number;
}

/**
 * Keeps instances in memory between turns, up to `maxBytes`. Evicts the least recently used.
 * The cache only saves replays: its users compare `lastTurn` with the store before they run a turn.
 */
export class WarmCache {
  readonly #maxBytes: number;
  readonly #entries = new Map<number, Entry>();
  readonly #keys = new Map<string, number>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(instanceKey: number): WarmInstance | undefined {
    return this.#entries.get(instanceKey)?.instance;
  }

  /** Adds an instance after a committed turn, as the most recently used. */
  put(instance: WarmInstance): void {
    const known = this.get(instance.instanceKey);
    // The response to this commit came late: a later turn of the instance is already running.
    if (known !== undefined && known !== instance && known.isBusy) {
      instance.discard();
      return;
    }
    const replaced = this.#forget(instance.instanceKey);
    if (replaced !== undefined && replaced !== instance) replaced.discard();
    const bytes = instance.execution.sizeBytes;
    this.#entries.set(instance.instanceKey, { instance, bytes });
    this.#keys.set(instance.instanceId, instance.instanceKey);
    this.#bytes += bytes;
    if (this.#bytes > this.#maxBytes) this.#shrink();
  }

  /** Removes an instance that ended or whose state may differ from the store. */
  evict(instance: WarmInstance): void {
    if (this.get(instance.instanceKey) === instance) this.#forget(instance.instanceKey);
    instance.discard();
  }

  /** Removes ended or deleted instances. A running turn is rejected by its ack instead. */
  evictIdle(instanceIds: readonly string[]): void {
    for (const instanceId of instanceIds) {
      const instance = this.get(this.#keys.get(instanceId) ?? -1);
      if (instance !== undefined && !instance.isBusy) this.evict(instance);
    }
  }

  clear(): void {
    for (const { instance } of this.#entries.values()) instance?.discard();
    this.#entries.clear();
    this.#keys.clear();
    this.#bytes = 0;
  }

  #shrink(): void {
    for (const { instance } of this.#entries.values()) {
      if (this.#bytes <= this.#maxBytes) return;
      if (instance?.isBusy === false) this.evict(instance);
    }
  }

  #forget(instanceKey: number): WarmInstance | undefined {
    const entry = this.#entries.get(instanceKey);
    const instance = entry?.instance;
    if (entry === undefined || instance === undefined) return undefined;
    this.#entries.delete(instanceKey);
    entry.instance = undefined;
    // The id may belong to a newer instance that is cached too.
    const { instanceId } = instance;
    if (this.#keys.get(instanceId) === instanceKey) this.#keys.delete(instanceId);
    this.#bytes -= entry.bytes;
    return instance;
  }
}
