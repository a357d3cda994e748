/** A key of the page that is shown. */
export interface PageKey {
  readonly key: string;
  readonly description: string;
  readonly run: () => void;
}

const pageKeys = new Set<readonly PageKey[]>();

/**
 * Adds keys while a page is shown. Returns a function that removes them. Called in a layout effect:
 * an effect runs after the page is visible, and would miss a key that is pressed immediately.
 */
export function addKeys(keys: readonly PageKey[]): () => void {
  pageKeys.add(keys);
  return () => pageKeys.delete(keys);
}

/** The keys of the page that is shown. */
export function currentKeys(): readonly PageKey[] {
  return [...pageKeys].flat();
}
