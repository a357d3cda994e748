/** The name of a decision: its kind, such as `slow:w0 ackWorkItems`, and its number among those of that kind. */
type DecisionName = `${string}#${number}`;

const mix = (value: number): number => {
  let bits = Math.imul(value ^ (value >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
};

const hashText = (text: string): number => {
  let hash = 0x811c_9dc5;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x0100_0193);
  }
  return hash >>> 0;
};

/** Returns a generator of numbers in [0, 1). */
export function seededRandom(seed: number): () => number {
  let state = mix(seed ^ 0x9e37_79b9);
  return () => {
    state = (state + 0x6d2b_79f5) >>> 0;
    return mix(state) / 2 ** 32;
  };
}

interface Kind {
  readonly hash: number;
  count: number;
}

/**
 * All decisions of a run. Each has a default: no fault, the oldest step first, the operation is left out. The others are
 * recorded by name. A run that allows only some of them is a smaller run of the same seed.
 */
export class Decisions {
  readonly #seed: number;
  readonly #allowed: ReadonlySet<string> | undefined;
  readonly #kinds = new Map<string, Kind>();
  /** The decisions of this run that differ from their default, in order. */
  readonly taken: DecisionName[] = [];

  constructor(seed: number, allowed?: ReadonlySet<string>) {
    this.#seed = mix(seed);
    this.#allowed = allowed;
  }

  /** Returns a number in [0, 1) that depends only on the seed, the kind and its count. It cannot be left out. */
  draw(kind: string): number {
    const of = this.#kindOf(kind);
    of.count += 1;
    return this.#valueOf(of) / 2 ** 32;
  }

  /** Whether something happens with this probability. */
  happens(kind: string, probability: number): boolean {
    const of = this.#kindOf(kind);
    of.count += 1;
    if (this.#valueOf(of) / 2 ** 32 >= probability) return false;
    return this.#take(kind, of);
  }

  /** Returns an index below `count`. The default is 0. */
  pick(kind: string, count: number): number {
    const of = this.#kindOf(kind);
    of.count += 1;
    const index = this.#valueOf(of) % count;
    return index !== 0 && this.#take(kind, of) ? index : 0;
  }

  #take(kind: string, { count }: Kind): boolean {
    const name: DecisionName = `${kind}#${count}`;
    if (this.#allowed?.has(name) === false) return false;
    this.taken.push(name);
    return true;
  }

  #kindOf(kind: string): Kind {
    let of = this.#kinds.get(kind);
    if (of === undefined) {
      of = { hash: hashText(kind), count: 0 };
      this.#kinds.set(kind, of);
    }
    return of;
  }

  #valueOf({ hash, count }: Kind): number {
    return mix(mix(this.#seed ^ hash) + Math.imul(count, 0x9e37_79b9));
  }
}
