import type { LiveInstance } from './warm-instance.ts';

/**
 * Live instances between their turns, bounded by bytes; the one that rested longest goes first. It only ever saves
 * replays: whoever takes an instance out checks that the store's last turn is the one it stands at.
 */
export class WarmCache {
  readonly #maxBytes: number;
  readonly #entries = new Map<number, { readonly live: LiveInstance; readonly bytes: number }>();
  readonly #keys = new Map<string, number>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(instanceKey: number): LiveInstance | undefined {
    return this.#entries.get(instanceKey)?.live;
  }

  /** Keeps an instance after a committed turn, as the most recently used. */
  put(live: LiveInstance): void {
    const known = this.get(live.instanceKey);
    // Somebody is at a later turn already, and the answer to this commit came late.
    if (known !== undefined && known !== live && known.busy) {
      live.discard();
      return;
    }
    const replaced = this.#forget(live.instanceKey);
    if (replaced !== undefined && replaced !== live) replaced.discard();
    const bytes = live.execution.sizeBytes;
    this.#entries.set(live.instanceKey, { live, bytes });
    this.#keys.set(live.instanceId, live.instanceKey);
    this.#bytes += bytes;
    if (this.#bytes > this.#maxBytes) this.#shrink();
  }

  /** Drops an instance that ended or can no longer be trusted. */
  evict(live: LiveInstance): void {
    if (this.get(live.instanceKey) === live) this.#forget(live.instanceKey);
    live.discard();
  }

  /** Drops what the store says is over or gone; an instance in the middle of a turn learns that from its ack. */
  evictIdle(instanceIds: readonly string[]): void {
    for (const instanceId of instanceIds) {
      const live = this.get(this.#keys.get(instanceId) ?? -1);
      if (live !== undefined && !live.busy) this.evict(live);
    }
  }

  clear(): void {
    for (const { live } of this.#entries.values()) live.discard();
    this.#entries.clear();
    this.#keys.clear();
    this.#bytes = 0;
  }

  #shrink(): void {
    for (const { live } of this.#entries.values()) {
      if (this.#bytes <= this.#maxBytes) return;
      if (!live.busy) this.evict(live);
    }
  }

  #forget(instanceKey: number): LiveInstance | undefined {
    const entry = this.#entries.get(instanceKey);
    if (entry === undefined) return undefined;
    this.#entries.delete(instanceKey);
    // A later life of the same id may be here, too.
    const { instanceId } = entry.live;
    if (this.#keys.get(instanceId) === instanceKey) this.#keys.delete(instanceId);
    this.#bytes -= entry.bytes;
    return entry.live;
  }
}
