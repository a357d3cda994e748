const gatheredBytes = 16 * 1024;

/**
 * Decodes UTF-8 that arrives in pieces. Small pieces are gathered first: text that is joined from pieces of one byte takes
 * more than thirty times its size, so a sender could make a bound on bytes worthless.
 */
export class ChunkedUtf8Decoder {
  readonly #decoder;
  #gathered: Uint8Array | undefined;
  #filled = 0;
  #text = '';

  /** With `fatal`, bytes that are no UTF-8 throw a `TypeError`; otherwise they are replaced. */
  constructor({ fatal }: { readonly fatal: boolean }) {
    this.#decoder = new TextDecoder('utf-8', { fatal });
  }

  add(piece: Uint8Array): void {
    // Most texts come in one piece, and most others in large ones.
    if (piece.byteLength >= gatheredBytes || this.#text === '') {
      this.#flush();
      this.#text += this.#decoder.decode(piece, { stream: true });
      return;
    }
    this.#gathered ??= new Uint8Array(gatheredBytes);
    if (this.#filled + piece.byteLength > gatheredBytes) this.#flush();
    this.#gathered.set(piece, this.#filled);
    this.#filled += piece.byteLength;
  }

  /** Returns the whole text. */
  end(): string {
    this.#flush();
    return this.#text + this.#decoder.decode();
  }

  #flush(): void {
    if (this.#gathered === undefined || this.#filled === 0) return;
    const bytes = this.#gathered.subarray(0, this.#filled);
    this.#filled = 0;
    this.#text += this.#decoder.decode(bytes, { stream: true });
  }
}
