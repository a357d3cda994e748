/** Random numbers (sfc32) that are equal in every replay of an execution and differ between executions. */
export class DeterministicRandom {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: string) {
    this.#a = hash(seed, 0x9e3779b9);
    this.#b = hash(seed, 0x85ebca6b);
    this.#c = hash(seed, 0xc2b2ae35);
    // The first outputs of sfc32 correlate with the seed.
    for (let i = 0; i < 12; i++) this.nextUint32();
  }

  nextUint32(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** Returns a number in [0, 1) with 53 random bits, like `Math.random()`. */
  next(): number {
    const high = this.nextUint32() >>> 5;
    const low = this.nextUint32() >>> 6;
    return (high * 67_108_864 + low) / 9_007_199_254_740_992;
  }

  /** Returns a version 4 UUID, like `crypto.randomUUID()`. */
  uuid(): string {
    const bytes = Buffer.allocUnsafe(16);
    for (let i = 0; i < 16; i += 4) bytes.writeUInt32BE(this.nextUint32(), i);
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
    const hex = bytes.toString('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }
}

function hash(text: string, seed: number): number {
  let h = seed ^ text.length;
  for (let i = 0; i < text.length; i++) {
    h = Math.imul(h ^ text.charCodeAt(i), 0xcc9e2d51);
    h = (h << 13) | (h >>> 19);
  }
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  return h ^ (h >>> 13);
}
