/** Returns a line such as `canceling [████████░░░░] 6,400 of 10,000`, which fits the columns. */
export function drawBar(params: {
  readonly label: string;
  readonly done: number;
  readonly total: number | undefined;
  readonly columns: number;
  readonly format: (count: number) => string;
}): string {
  const { label, done, total, columns, format } = params;
  const numbers = total === undefined ? format(done) : `${format(done)} of ${format(total)}`;
  const room = Math.min(30, columns - label.length - numbers.length - 5);
  if (total === undefined || room < 5) return `${label} ${numbers}`.slice(0, columns - 1);
  const full = Math.round((Math.min(done, total) / Math.max(total, 1)) * room);
  return `${label} [${'█'.repeat(full)}${'░'.repeat(room - full)}] ${numbers}`;
}
