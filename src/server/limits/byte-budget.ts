import { rateLimited, unavailable } from '../http/errors.ts';

/** How many bytes may be held, in all and for one caller. */
export interface ByteBudgetParams {
  readonly totalBytes: number;
  readonly bytesPerCaller: number;
  /** What the bytes are, for error messages: `request bodies`. */
  readonly what: string;
}

/** The bytes that one request holds. */
export interface ByteReservation {
  /** Holds more bytes. Throws a refusal, and holds no more than before, where the budget has no room. */
  readonly add: (bytes: number) => void;
  /** Gives all of them back, for good: `add` throws from then on. Idempotent. */
  readonly release: () => void;
}

/** A bound on bytes in memory: for the whole server, and for each caller, so that one cannot use up all of it. */
export class ByteBudget {
  readonly #params: ByteBudgetParams;
  readonly #byCaller = new Map<string, number>();
  #held = 0;

  constructor(params: ByteBudgetParams) {
    this.#params = params;
  }

  /** The bytes that are held now. */
  get held(): number {
    return this.#held;
  }

  /** Begins to hold bytes for a caller; none yet. */
  open(caller: string): ByteReservation {
    let own = 0;
    let isOpen = true;
    return {
      add: (bytes) => {
        if (!isOpen) throw unavailable('The request has ended.');
        this.#take(caller, bytes);
        own += bytes;
      },
      release: () => {
        isOpen = false;
        if (own > 0) this.#give(caller, own);
        own = 0;
      },
    };
  }

  #take(caller: string, bytes: number): void {
    const { totalBytes, bytesPerCaller, what } = this.#params;
    const ofCaller = (this.#byCaller.get(caller) ?? 0) + bytes;
    // One that is alone is always let through: its own size has a limit of its own.
    if (this.#held + bytes > totalBytes && this.#held > 0) {
      throw unavailable(`The server holds ${this.#held} bytes of ${what}, of ${totalBytes}.`);
    }
    if (ofCaller > bytesPerCaller && ofCaller > bytes) {
      throw rateLimited(`This token has more than ${bytesPerCaller} bytes of ${what} under way.`);
    }
    this.#byCaller.set(caller, ofCaller);
    this.#held += bytes;
  }

  #give(caller: string, bytes: number): void {
    const left = (this.#byCaller.get(caller) ?? 0) - bytes;
    if (left > 0) this.#byCaller.set(caller, left);
    else this.#byCaller.delete(caller);
    this.#held -= bytes;
  }
}
