const encoder = new TextEncoder();
const native = globalThis.Buffer as typeof Buffer | undefined;

/** How many bytes a text has in UTF-8; in browsers, too, which have no Buffer to count without a copy. */
export function byteLength(text: string): number {
  return native === undefined ? encoder.encode(text).length : native.byteLength(text);
}
