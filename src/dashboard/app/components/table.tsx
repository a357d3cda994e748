import type { ComponentChildren, JSX } from 'preact';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';

export interface TableColumn {
  readonly title: string;
  /** A share of the table: `18%`, `96px`. */
  readonly width?: string;
  readonly isNumber?: boolean;
  /**
   * Its place on small screens, where a row has two lines: `side` stands right on the first line, `hidden` is left out.
   * Default: on the second line, with its title.
   */
  readonly small?: 'side' | 'hidden' | 'untitled';
}

const Columns = createContext<readonly TableColumn[]>([]);

/** A table. On small screens each row has two lines: the first cell is its title. */
export function Table({
  label,
  columns,
  children,
}: {
  readonly label: string;
  readonly columns: readonly TableColumn[];
  readonly children: ComponentChildren;
}): JSX.Element {
  // The roles stay when small screens change how the elements are displayed.
  return (
    <Columns.Provider value={columns}>
      <table class="rows" role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(({ title, width, isNumber }, index) => (
              <th
                key={index}
                role="columnheader"
                class={isNumber === true ? 'num' : undefined}
                style={width === undefined ? undefined : { width }}
              >
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">{children}</tbody>
      </table>
    </Columns.Provider>
  );
}

/** A row with one cell per column. A cell that is empty is left out on small screens. */
export function Row({
  cells,
  isSelected = false,
}: {
  readonly cells: readonly ComponentChildren[];
  readonly isSelected?: boolean;
}): JSX.Element {
  const columns = useContext(Columns);
  return (
    <tr role="row" class={isSelected ? 'sel' : undefined}>
      {columns.map(({ title, isNumber, small }, index) => {
        const cell = cells[index];
        const isEmpty = cell === '' || cell === undefined || cell === null || cell === false;
        const label = index === 0 || small !== undefined || title === '' ? undefined : title;
        return (
          <td
            key={index}
            role="cell"
            class={`${isNumber === true ? 'num' : ''} ${small === undefined ? '' : `cell-${small}`} ${isEmpty ? 'cell-none' : ''}`}
            data-label={label}
          >
            {cell}
          </td>
        );
      })}
    </tr>
  );
}
