// Taken before anything can patch the globals.
const { setImmediate: realSetImmediate } = globalThis;

/** An instance that is being created by this client. */
export interface RecentStart {
  readonly instanceId: string;
  readonly incarnation: string;
  created: boolean;
  ended: boolean;
}

/**
 * Remembers the instances that this client creates, from before they exist until the caller had a chance to wait
 * for them: the rest of the turn of the event loop in which `start` answered. Whoever waits by then needs no
 * first read, because an end would have been heard.
 */
export class RecentStarts {
  readonly #births = new Map<string, RecentStart>();
  #leaving: RecentStart[] = [];
  readonly #onFirst: () => void;
  readonly #onNoneLeft: () => void;

  constructor(options: { readonly onFirst: () => void; readonly onNoneLeft: () => void }) {
    this.#onFirst = options.onFirst;
    this.#onNoneLeft = options.onNoneLeft;
  }

  get size(): number {
    return this.#births.size;
  }

  /** Runs `create` and remembers its instance; forgets it unless `create` resolves with `created`. */
  async during<Result extends { readonly kind: string } | undefined>(
    { instanceId, incarnation }: { readonly instanceId: string; readonly incarnation: string },
    create: () => Promise<Result>,
  ): Promise<Result> {
    const start = this.track(instanceId, incarnation);
    let result: Result | undefined;
    try {
      result = await create();
      return result;
    } finally {
      if (result?.kind === 'created') this.confirm(start);
      else this.discard(start);
    }
  }

  /** Says that an instance is about to be created, before any hint about it can go out. */
  track(instanceId: string, incarnation: string): RecentStart {
    if (this.#births.size === 0) this.#onFirst();
    const birth: RecentStart = { instanceId, incarnation, created: false, ended: false };
    this.#births.set(instanceId, birth);
    return birth;
  }

  /** The instance is new. */
  confirm(birth: RecentStart): void {
    birth.created = true;
    this.#leaving.push(birth);
    if (this.#leaving.length === 1) realSetImmediate(() => this.#forgetLeaving());
  }

  /** The instance was not created, or had existed before: nothing is known of it. */
  discard(birth: RecentStart): void {
    this.#births.delete(birth.instanceId);
    if (this.#births.size === 0) this.#onNoneLeft();
  }

  /** These instances are over, if they are among ours. */
  markEnded(instanceIds: readonly string[]): void {
    if (this.#births.size === 0) return;
    for (const instanceId of instanceIds) {
      const birth = this.#births.get(instanceId);
      if (birth !== undefined) birth.ended = true;
    }
  }

  /** The incarnation of an instance that was born here a moment ago, if no end of it was heard since. */
  liveIncarnation(instanceId: string): string | undefined {
    const birth = this.#births.get(instanceId);
    return birth !== undefined && birth.created && !birth.ended ? birth.incarnation : undefined;
  }

  #forgetLeaving(): void {
    for (const { instanceId } of this.#leaving) this.#births.delete(instanceId);
    this.#leaving = [];
    if (this.#births.size === 0) this.#onNoneLeft();
  }
}
