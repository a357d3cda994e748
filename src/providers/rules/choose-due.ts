interface Due {
  readonly nextAt: number;
  /** Higher first; absent: all the same. */
  readonly priority?: number;
}

// Suspects wait behind the others, but not for ever: a steady backlog must not starve them.
const passedOverMs = 300_000;

/**
 * Chooses what to claim: by priority, then the longest due first, up to `max`. What has been claimed twice without an outcome is
 * suspect of killing its process, and comes alone, after the others.
 */
export function chooseDue<T extends Due>(options: {
  readonly max: number;
  readonly trusted: readonly T[];
  readonly suspects: () => readonly T[];
  readonly keyOf: (due: T) => number;
}): readonly T[] {
  const { max, keyOf } = options;
  if (max < 1) return [];
  const trusted = inOrder(options.trusted, keyOf);
  const [suspect] = inOrder(options.suspects(), keyOf);
  const [first] = trusted;
  if (first === undefined) return suspect === undefined ? [] : [suspect];
  if (suspect !== undefined && suspect.nextAt + passedOverMs < first.nextAt) return [suspect];
  return trusted.slice(0, max);
}

function inOrder<T extends Due>(dues: readonly T[], keyOf: (due: T) => number): readonly T[] {
  const unique = [...new Map(dues.map((due) => [keyOf(due), due])).values()];
  return unique.sort(
    (a, b) => (b.priority ?? 0) - (a.priority ?? 0) || a.nextAt - b.nextAt || keyOf(a) - keyOf(b),
  );
}
