/**
 * Marks the entry that ends a page, because its payloads would take the page over `maxBytes`: it comes without them, and
 * the next page begins with it. The first entry of a page is never withheld, however large it is.
 */
export interface Withheld {
  readonly withheld?: true;
}

/** Reads rows up to the first that would take them over a number of bytes; that one is the last, and marked. */
export function takeWithin<Row>(
  rows: Iterable<Row>,
  { maxBytes, bytesOf }: { readonly maxBytes: number; readonly bytesOf: (row: Row) => number },
): { readonly rows: readonly Row[]; readonly withheld: Row | undefined } {
  const taken: Row[] = [];
  let bytes = 0;
  for (const row of rows) {
    bytes += bytesOf(row);
    if (bytes > maxBytes && taken.length > 0) return { rows: taken, withheld: row };
    taken.push(row);
  }
  return { rows: taken, withheld: undefined };
}

/** The bytes of stored texts in UTF-8. */
export function bytesOfTexts(...texts: readonly (string | null)[]): number {
  return texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);
}
