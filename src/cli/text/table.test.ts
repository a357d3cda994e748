import { describe, expect, it } from 'vitest';
import type { Output } from '../command.ts';
import { drawBar } from './progress-bar.ts';
import { shellLine } from './shell-line.ts';
import { wrap, writeFields, writeTable, type Column } from './table.ts';

interface Row {
  readonly id: string;
  readonly name: string;
  readonly note: string;
}

const columns: readonly Column<Row>[] = [
  { title: 'ID', value: ({ id }) => id, min: 8 },
  { title: 'NAME', value: ({ name }) => name, min: 4, drop: 1 },
  { title: 'NOTE', value: ({ note }) => note, min: 6, drop: 2 },
];

function print(width: number, write: (output: Output) => void): readonly string[] {
  let text = '';
  write({
    isTTY: true,
    colour: false,
    columns: width,
    rows: 24,
    write: (part) => (text += part),
    style: (_, part) => part,
  });
  return text.trimEnd().split('\n');
}

const rows: readonly Row[] = [
  { id: 'order-17', name: 'order', note: 'a long note that does not fit' },
  { id: 'a-much-longer-id-than-the-others', name: 'sync', note: '' },
];

describe('writeTable()', () => {
  const table = (width: number, given = rows) =>
    print(width, (output) => writeTable(output, given, columns));

  it('aligns columns and cuts nothing without a terminal', () => {
    expect(table(Number.POSITIVE_INFINITY)).toEqual([
      'ID                                NAME   NOTE',
      'order-17                          order  a long note that does not fit',
      'a-much-longer-id-than-the-others  sync',
    ]);
  });

  it.each([10, 20, 40, 60, 80])('fits %i columns', (width) => {
    const lines = table(width);
    expect(lines).toHaveLength(3);
    expect(lines.filter((line) => line.length > width)).toEqual([]);
  });

  it('leaves out the least important columns first', () => {
    expect(table(20)[0]).not.toContain('NOTE');
    expect(table(10)[0]).toBe('ID');
  });

  it('leaves out an optional column without values', () => {
    expect(table(80, [{ id: 'a', name: 'b', note: '' }])[0]).toBe('ID  NAME');
  });

  it('does not let a value end a line or move the cursor', () => {
    const lines = table(80, [{ id: 'a\n\u001B[2J', name: 'b', note: 'c' }]);
    expect(lines).toHaveLength(2);
    expect(lines.join('')).not.toContain('\u001B');
  });
});

describe('writeFields()', () => {
  it('wraps long values below themselves and leaves out empty ones', () => {
    const lines = print(30, (output) =>
      writeFields(output, [
        ['name', 'order'],
        ['empty', undefined],
        ['reason', 'the quick brown fox jumps over the dog'],
      ]),
    );
    expect(lines).toEqual([
      'name    order',
      'reason  the quick brown fox',
      '        jumps over the dog',
    ]);
  });
});

describe('wrap()', () => {
  it('keeps line breaks and long words', () => {
    expect(wrap('a b\nc', 80)).toEqual(['a b', 'c']);
    expect(wrap('abcdefghijklmnop qr', 12)).toEqual(['abcdefghijklmnop', 'qr']);
  });
});

describe('drawBar()', () => {
  const bar = (columns: number, total?: number) =>
    drawBar({ label: 'canceling', done: 50, total, columns, format: String });

  it('fits the columns', () => {
    expect(bar(80, 100)).toBe(`canceling [${'█'.repeat(15)}${'░'.repeat(15)}] 50 of 100`);
    expect(bar(30, 100).length).toBeLessThan(30);
    expect(bar(15, 100).length).toBeLessThan(15);
    expect(bar(80)).toBe('canceling 50');
  });
});

describe('shellLine()', () => {
  it('quotes only what a shell would change', () => {
    expect(shellLine(['perdure', 'cancel', '--tag', 'a=b', '--reason', "it's over"])).toBe(
      String.raw`perdure cancel --tag a=b --reason 'it'\''s over'`,
    );
    expect(shellLine(['', '*'])).toBe("'' '*'");
  });
});
