import type { Output, Style } from '../command.ts';
import { clean, cut, widthOf } from './format.ts';

/** A column of a table. */
export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => string;
  readonly style?: (row: Row) => Style | undefined;
  readonly align?: 'right';
  /** Can be cut to this width if the terminal is narrow. */
  readonly min?: number;
  /** Left out if the terminal is too narrow, the highest number first. */
  readonly drop?: number;
}

const gap = 2;

/** Writes rows as aligned columns that fit the width of the terminal. Nothing is cut in a pipe. */
export function writeTable<Row>(
  output: Output,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
): void {
  const cells = rows.map((row) => columns.map((column) => clean(column.value(row))));
  const isUsed = columns.map(
    (column, index) => column.drop === undefined || cells.some((row) => row[index] !== ''),
  );
  const widths = columns.map((column, index) =>
    Math.max(widthOf(column.title), ...cells.map((row) => widthOf(row[index] ?? ''))),
  );
  const fitted = fit(columns, widths, isUsed, output.columns);
  const shown = columns.flatMap((column, index) => {
    const width = fitted[index] ?? 0;
    return width > 0 ? [{ column, index, width }] : [];
  });
  const line = (text: (index: number) => string, style: (index: number) => Style | undefined) =>
    shown
      .map(({ column, index, width }, place) => {
        const value = cut(text(index), width);
        const chosen = style(index);
        const styled = chosen === undefined ? value : output.style(chosen, value);
        const padding = ' '.repeat(Math.max(0, width - widthOf(value)));
        if (column.align === 'right') return padding + styled;
        return place === shown.length - 1 ? styled : styled + padding;
      })
      .join(' '.repeat(gap))
      .trimEnd();
  output.write(
    `${line(
      (index) => columns[index]?.title ?? '',
      () => 'dim',
    )}\n`,
  );
  for (const [at, row] of rows.entries()) {
    output.write(
      `${line(
        (index) => cells[at]?.[index] ?? '',
        (index) => columns[index]?.style?.(row),
      )}\n`,
    );
  }
}

/** Returns the width of each column; 0: left out. */
function fit<Row>(
  columns: readonly Column<Row>[],
  natural: readonly number[],
  isUsed: readonly boolean[],
  room: number,
): readonly number[] {
  const widths = natural.map((width, index) => (isUsed[index] === true ? width : 0));
  const total = () => {
    const shown = widths.filter((width) => width > 0);
    return shown.reduce((sum, width) => sum + width, 0) + gap * Math.max(0, shown.length - 1);
  };
  const shrink = (): void => {
    for (;;) {
      const over = total() - room;
      if (over <= 0) return;
      // The widest column that may be cut.
      const [widest] = columns
        .map((column, index) => ({ index, width: widths[index] ?? 0, min: column.min }))
        .filter(({ width, min }) => min !== undefined && width > min)
        .sort((one, other) => other.width - one.width);
      if (widest === undefined) return;
      const { index, width, min = 1 } = widest;
      widths[index] = Math.max(min, width - Math.max(1, Math.ceil(over / 2)));
    }
  };
  shrink();
  while (total() > room) {
    const [next] = columns
      .map(({ drop }, index) => ({ index, drop }))
      .filter(({ index, drop }) => drop !== undefined && (widths[index] ?? 0) > 0)
      .sort((one, other) => (other.drop ?? 0) - (one.drop ?? 0));
    if (next === undefined) break;
    for (const [index, width] of natural.entries()) {
      if ((widths[index] ?? 0) > 0) widths[index] = width;
    }
    widths[next.index] = 0;
    shrink();
  }
  const over = total() - room;
  const first = widths.findIndex((width) => width > 0);
  if (over > 0) widths[first] = Math.max(1, (widths[first] ?? 0) - over);
  return widths;
}

/** Writes names and values, one pair per line; long values continue on the next lines. */
export function writeFields(
  output: Output,
  fields: readonly (readonly [name: string, value: string | undefined])[],
): void {
  const shown = fields.flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [{ name, value }],
  );
  const width = Math.max(0, ...shown.map(({ name }) => name.length)) + gap;
  for (const { name, value } of shown) {
    const label = output.style('dim', name) + ' '.repeat(width - name.length);
    const lines = wrap(value, output.columns - width);
    output.write(`${label}${lines.join(`\n${' '.repeat(width)}`)}\n`);
  }
}

/** Breaks a text between words into lines of at most a width. Keeps its own line breaks. */
export function wrap(text: string, width: number): readonly string[] {
  return text.split('\n').flatMap((paragraph) => {
    const safe = clean(paragraph);
    if (widthOf(safe) <= width) return [safe];
    const lines: string[] = [];
    let line = '';
    for (const word of safe.split(' ')) {
      const longer = line === '' ? word : `${line} ${word}`;
      if (line !== '' && widthOf(longer) > Math.max(width, 10)) {
        lines.push(line);
        line = word;
      } else {
        line = longer;
      }
    }
    return [...lines, line];
  });
}
