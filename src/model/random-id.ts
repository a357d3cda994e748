import { randomFillSync } from 'node:crypto';

// Random bytes are drawn in bulk: one call of 4 KiB costs about as much as one of 16 bytes.
const pool = Buffer.allocUnsafe(4096);
let offset = pool.length;

function take(bytes: number): Buffer {
  if (offset + bytes > pool.length) {
    randomFillSync(pool);
    offset = 0;
  }
  offset += bytes;
  return pool.subarray(offset - bytes, offset);
}

/** 128 random bits as text: for lock tokens, incarnations and turn ids, which nobody may guess or repeat. */
export function randomToken(): string {
  return take(16).toString('base64url');
}

/** A generated instance id: time first, so that ids made one after the other stand side by side in an index. */
export function timeOrderedId(nowMs: number): string {
  return `${Math.floor(nowMs).toString(36).padStart(9, '0')}-${take(12).toString('base64url')}`;
}
