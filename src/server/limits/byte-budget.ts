import { rateLimited, unavailable } from '../http/errors.ts';

export interface ByteBudgetParams {
  readonly totalBytes: number;
  readonly bytesPerCaller: number;
  /** Name of the bytes in error messages, for example `request bodies`. */
  readonly what: string;
}

export interface ByteReservation {
  /** Reserves more bytes. Throws 429 or 503, and reserves nothing, if a limit is exceeded. */
  readonly add: (bytes: number) => void;
  /** Releases all bytes. Later calls of `add` throw. Idempotent. */
  readonly release: () => void;
}

/** Bounds bytes in memory, for the whole server and per caller. */
export class ByteBudget {
  readonly #params: ByteBudgetParams;
  readonly #byCaller = new Map<string, number>();
  #held = 0;

  constructor(params: ByteBudgetParams) {
    this.#params = params;
  }

  get held(): number {
    return this.#held;
  }

  /** Opens a reservation of 0 bytes for a caller. */
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
    // A request that is alone always passes: its size has its own limit.
    if (this.#held + bytes > totalBytes && this.#held > 0) {
      throw unavailable(
        `The server already holds ${this.#held} of ${totalBytes} bytes of ${what}.`,
      );
    }
    if (ofCaller > bytesPerCaller && ofCaller > bytes) {
      throw rateLimited(`This token exceeds its limit of ${bytesPerCaller} bytes of ${what}.`);
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
