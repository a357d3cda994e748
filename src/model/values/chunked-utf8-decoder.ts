const bufferBytes = 16 * 1024;

/**
 * Decodes UTF-8 that arrives in chunks. Buffers small chunks first: a string joined from one-byte chunks takes more than
 * thirty times its size, so a sender could bypass a limit in bytes.
 */
export class ChunkedUtf8Decoder {
  readonly #decoder;
  #buffer: Uint8Array | undefined;
  #filled = 0;
  #text = '';

  /** `fatal`: throw a `TypeError` for invalid UTF-8 instead of replacing it. */
  constructor({ fatal }: { readonly fatal: boolean }) {
    this.#decoder = new TextDecoder('utf-8', { fatal });
  }

  add(chunk: Uint8Array): void {
    // Most texts arrive in one chunk, or in large ones.
    if (chunk.byteLength >= bufferBytes || this.#text === '') {
      this.#flush();
      this.#text += this.#decoder.decode(chunk, { stream: true });
      return;
    }
    this.#buffer ??= new Uint8Array(bufferBytes);
    if (this.#filled + chunk.byteLength > bufferBytes) this.#flush();
    this.#buffer.set(chunk, this.#filled);
    this.#filled += chunk.byteLength;
  }

  /** Returns the whole text. */
  end(): string {
    this.#flush();
    return this.#text + this.#decoder.decode();
  }

  #flush(): void {
    if (this.#buffer === undefined || this.#filled === 0) return;
    const bytes = this.#buffer.subarray(0, this.#filled);
    this.#filled = 0;
    this.#text += this.#decoder.decode(bytes, { stream: true });
  }
}
