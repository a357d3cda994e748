/**
 * Marks the entry that ends a page because its payloads would exceed `maxBytes`.
 * It is returned without payloads, and the next page starts with it. The first entry of a page is never withheld.
 */
export interface Withheld {
  readonly withheld?: true;
}

/** Returns rows up to a number of bytes, and the first row that exceeds it. */
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

/** The size of stored texts in UTF-8, in bytes. */
export function bytesOfTexts(...texts: readonly (string | null)[]): number {
  return texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);
}
