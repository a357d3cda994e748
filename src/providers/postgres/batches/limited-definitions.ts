/** When a claim of a limited definition can find something. */
export interface LimitedDue {
  readonly definitionKey: number;
  readonly nextAt: number;
}

/** A limited definition, as this process knows it. */
interface Known {
  /** Store time from which a claim can find something, by the last query or claim. */
  nextAt: number;
  /** Whether the last claim left items that could be claimed immediately. */
  wasLeft: boolean;
  /** Whether it has a global or a per-key limit, so that a freed place can let another item start. */
  hasPlaces: boolean;
  /** The number of the last claim, to serve the definitions in turn. */
  lastClaim: number;
}

/**
 * The limited definitions that this process knows of. A definition stays limited, so an entry never becomes wrong; a missing
 * entry only costs time: the statements themselves check the table `limits`.
 *
 * The process learns of them from due queries, from its own declarations and runs with keys, and at least once a second while
 * it claims without due queries.
 */
export class LimitedDefinitions {
  readonly #known = new Map<number, Known>();
  #claims = 0;
  /** Monotonic time of the last due query. */
  #queriedAt = Number.NEGATIVE_INFINITY;

  has(definitionKey: number): boolean {
    return this.#known.has(definitionKey);
  }

  get isEmpty(): boolean {
    return this.#known.size === 0;
  }

  /** Monotonic time of the last due query. */
  get queriedAt(): number {
    return this.#queriedAt;
  }

  /** Adds definitions that are limited. A claim tries them. */
  add(definitionKeys: readonly number[]): void {
    for (const key of definitionKeys) Object.assign(this.#of(key), { nextAt: 0, wasLeft: false });
  }

  /** Stores the result of a due query that was sent at a monotonic time. */
  record(limited: readonly LimitedDue[], sentAt: number): void {
    this.#queriedAt = sentAt;
    for (const { definitionKey, nextAt } of limited)
      Object.assign(this.#of(definitionKey), { nextAt, wasLeft: false });
  }

  /** Stores what a claim left. */
  claimed({ definitionKey, ...left }: LimitedDue & Pick<Known, 'hasPlaces' | 'wasLeft'>): void {
    this.#claims += 1;
    Object.assign(this.#of(definitionKey), { ...left, lastClaim: this.#claims });
  }

  wasLeft(definitionKey: number): boolean {
    return this.#known.get(definitionKey)?.wasLeft ?? false;
  }

  hasPlaces(definitionKey: number): boolean {
    return this.#known.get(definitionKey)?.hasPlaces ?? true;
  }

  /** The definitions that are due now, the one that was claimed least recently first. */
  due(now: number): readonly number[] {
    if (this.#known.size === 0) return [];
    return [...this.#known]
      .filter(([, { nextAt }]) => nextAt <= now)
      .toSorted(([, one], [, other]) => one.lastClaim - other.lastClaim)
      .map(([key]) => key);
  }

  #of(definitionKey: number): Known {
    const known = this.#known.get(definitionKey);
    if (known !== undefined) return known;
    const added = { nextAt: 0, wasLeft: false, hasPlaces: true, lastClaim: 0 };
    this.#known.set(definitionKey, added);
    return added;
  }
}
