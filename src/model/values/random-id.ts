import { platform } from '../platform.ts';

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const codes = Uint8Array.from(digits, (digit) => digit.charCodeAt(0));

// Random digits. One call for 4 KiB of random bytes takes about as long as one for 16 bytes.
const pool = new Uint8Array(4_096);
let offset = pool.length;

// One piece of text per token: joined pairs of digits take longer, and 500 bytes that are soon garbage.
const native = globalThis.Buffer as typeof Buffer | undefined;
const text = native?.from(pool.buffer);

/** Returns random digits of base64url, 6 bits each. */
function randomText(length: number): string {
  if (offset + length > pool.length) refill();
  const start = offset;
  offset += length;
  // Browsers have no Buffer.
  return text === undefined
    ? String.fromCharCode(...pool.subarray(start, offset))
    : text.toString('latin1', start, offset);
}

function refill(): void {
  platform.fillRandom(pool);
  for (let index = 0; index < pool.length; index++)
    pool[index] = codes[(pool[index] ?? 0) & 63] ?? 0;
  offset = 0;
}

/** Drops the random digits that are left, so that the next id depends only on the platform. For simulations. */
export function resetRandomPool(): void {
  offset = pool.length;
}

/** Returns a random integer from `min` up to, but not including, `max`: at most 2^48. */
export function randomInteger(min: number, max: number): number {
  const bytes = new Uint8Array(6);
  platform.fillRandom(bytes);
  return min + (bytes.reduce((value, byte) => value * 256 + byte, 0) % (max - min));
}

/** Returns 132 random bits as text, for lock tokens, incarnations and turn ids. */
export function randomToken(): string {
  return randomText(22);
}

/** Returns 192 random bits as text, for secrets that people receive. */
export function randomSecret(): string {
  return randomText(32);
}

/** Returns a new instance id. It starts with the time, so that consecutive ids are adjacent in an index. */
export function timeOrderedId(nowMs: number): string {
  return `${Math.floor(nowMs).toString(36).padStart(9, '0')}-${randomText(16)}`;
}
