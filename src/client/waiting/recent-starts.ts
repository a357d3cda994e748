import { platform } from '../../model/platform.ts';

/** An instance that this client creates or has just created. */
interface RecentStart {
  readonly instanceId: string;
  readonly incarnation: string;
  created: boolean;
  ended: boolean;
}

/**
 * Tracks the instances that this client creates, until the end of the event loop iteration in which `start` resolved.
 * A wait that begins by then skips its first read: the client has listened for hints since before the start.
 */
export class RecentStarts {
  readonly #starts = new Map<string, RecentStart>();
  #expiring: RecentStart[] = [];
  readonly #onFirst: () => void;
  readonly #onNoneLeft: () => void;

  constructor(options: { readonly onFirst: () => void; readonly onNoneLeft: () => void }) {
    this.#onFirst = options.onFirst;
    this.#onNoneLeft = options.onNoneLeft;
  }

  get size(): number {
    return this.#starts.size;
  }

  /** Runs `create` and tracks its instance. Stops tracking it unless the result is of kind `created`. */
  async during<Result extends { readonly kind: string } | undefined>(
    key: { readonly instanceId: string; readonly incarnation: string },
    create: () => Promise<Result>,
  ): Promise<Result> {
    const start = this.begin(key);
    let result: Result | undefined;
    try {
      result = await create();
      return result;
    } finally {
      this.settle(start, result);
    }
  }

  /** Begins to track an instance, before the store can send a hint about it. Call `settle` with the result of its start. */
  begin({
    instanceId,
    incarnation,
  }: {
    readonly instanceId: string;
    readonly incarnation: string;
  }): RecentStart {
    if (this.#starts.size === 0) this.#onFirst();
    const start: RecentStart = { instanceId, incarnation, created: false, ended: false };
    this.#starts.set(instanceId, start);
    return start;
  }

  /** Stops tracking an instance unless this start created it: an instance that existed may have ended already. */
  settle(start: RecentStart, result: { readonly kind: string } | undefined): void {
    if (result?.kind === 'created') this.#confirm(start);
    else this.#remove([start]);
  }

  /** Marks the tracked ones of these instances as ended. */
  markEnded(instanceIds: readonly string[]): void {
    if (this.#starts.size === 0) return;
    for (const instanceId of instanceIds) {
      const start = this.#starts.get(instanceId);
      if (start !== undefined) start.ended = true;
    }
  }

  /** Returns the incarnation of a tracked instance that was created and has not ended. */
  liveIncarnation(instanceId: string): string | undefined {
    const start = this.#starts.get(instanceId);
    return start !== undefined && start.created && !start.ended ? start.incarnation : undefined;
  }

  #confirm(start: RecentStart): void {
    start.created = true;
    this.#expiring.push(start);
    if (this.#expiring.length > 1) return;
    platform.setImmediate(() => {
      const expired = this.#expiring;
      this.#expiring = [];
      this.#remove(expired);
    });
  }

  #remove(starts: readonly RecentStart[]): void {
    for (const { instanceId } of starts) this.#starts.delete(instanceId);
    if (this.#starts.size === 0) this.#onNoneLeft();
  }
}
