// Taken before anything can patch the globals.
const { setImmediate: realSetImmediate } = globalThis;

/** An instance that is being created by this client. */
export interface Birth {
  readonly instanceId: string;
  readonly incarnation: string;
  born: boolean;
  over: boolean;
}

/**
 * Remembers the instances that this client creates, from before they exist until the caller had a chance to wait
 * for them: the rest of the turn of the event loop in which `start` answered. Whoever waits by then needs no
 * first read, because an end would have been heard.
 */
export class Births {
  readonly #births = new Map<string, Birth>();
  #leaving: Birth[] = [];
  readonly #onFirst: () => void;
  readonly #onNoneLeft: () => void;

  constructor(options: { readonly onFirst: () => void; readonly onNoneLeft: () => void }) {
    this.#onFirst = options.onFirst;
    this.#onNoneLeft = options.onNoneLeft;
  }

  get size(): number {
    return this.#births.size;
  }

  /** Says that an instance is about to be created, before any hint about it can go out. */
  announce(instanceId: string, incarnation: string): Birth {
    if (this.#births.size === 0) this.#onFirst();
    const birth: Birth = { instanceId, incarnation, born: false, over: false };
    this.#births.set(instanceId, birth);
    return birth;
  }

  /** The instance is new. */
  confirm(birth: Birth): void {
    birth.born = true;
    this.#leaving.push(birth);
    if (this.#leaving.length === 1) realSetImmediate(() => this.#forgetLeaving());
  }

  /** The instance was not created, or had existed before: nothing is known of it. */
  withdraw(birth: Birth): void {
    this.#births.delete(birth.instanceId);
    if (this.#births.size === 0) this.#onNoneLeft();
  }

  /** These instances are over, if they are among ours. */
  markOver(instanceIds: readonly string[]): void {
    if (this.#births.size === 0) return;
    for (const instanceId of instanceIds) {
      const birth = this.#births.get(instanceId);
      if (birth !== undefined) birth.over = true;
    }
  }

  /** The incarnation of an instance that was born here a moment ago, if no end of it was heard since. */
  newAndAlive(instanceId: string): string | undefined {
    const birth = this.#births.get(instanceId);
    return birth !== undefined && birth.born && !birth.over ? birth.incarnation : undefined;
  }

  #forgetLeaving(): void {
    for (const { instanceId } of this.#leaving) this.#births.delete(instanceId);
    this.#leaving = [];
    if (this.#births.size === 0) this.#onNoneLeft();
  }
}
