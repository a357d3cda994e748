/** `1 instance`, `1,284 instances`, `1,000+ instances`. */
export function counted(
  { count, capped }: { readonly count: number; readonly capped?: true },
  one: string,
  many = `${one}s`,
): string {
  return `${count.toLocaleString('en')}${capped === true ? '+' : ''} ${count === 1 ? one : many}`;
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** A duration in its largest whole unit: `3 min`. */
export function duration(ms: number): string {
  for (const [unit, size] of units) if (ms >= size) return `${Math.floor(ms / size)} ${unit}`;
  return `${Math.max(0, Math.round(ms))} ms`;
}

/** A size in binary units: `1.5 GiB`. */
export function bytes(count: number): string {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(names.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  const value = count / 1024 ** power;
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${names[power]}`;
}

/** Quotes an argument for a POSIX shell, if it needs that. */
export function shellQuote(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Joins up to three examples: `a, b and 2 more`. */
export function examples(names: readonly string[], total = names.length): string {
  const shown = names.slice(0, 3);
  const more = total - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}
