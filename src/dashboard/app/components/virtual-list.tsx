import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { density } from '../state/settings.ts';

// Chromium limits the height of an element to 33,554,428 px.
const maxHeight = 30_000_000;
const overscan = 6;
/** Rows that are read ahead of the last visible one. */
const readAhead = 40;

export interface VirtualListProps {
  readonly label: string;
  readonly count: number;
  /** The number of all rows, if it is known; else that of the rows read so far. */
  readonly total?: number;
  readonly header?: ComponentChildren;
  /** Cells of a row. */
  readonly row: (index: number) => JSX.Element;
  readonly rowClass?: (index: number) => string;
  readonly isSelected?: (index: number) => boolean;
  /** The row that the keyboard acts on; -1 for none. */
  readonly current: number;
  readonly onCurrent: (index: number) => void;
  readonly onOpen?: (index: number) => void;
  /** The end of the rows is near: read more. */
  readonly onEnd?: () => void;
  /** The range of visible rows. */
  readonly onVisible?: (first: number, last: number) => void;
  readonly onScrolled?: (isAtTop: boolean) => void;
  readonly class?: string;
  /** The class of a row. Default: `vr`. */
  readonly rowName?: string;
  /** Drawn behind the rows, over their whole height. */
  readonly layer?: ComponentChildren;
}

/**
 * A table of rows of one height, of which only the visible ones are in the document. Rows are recycled by position: a
 * scroll changes their text, not their elements. The scroller keeps the focus and names the current row, so that a
 * recycled row never has the focus of another one.
 */
export function VirtualList(props: VirtualListProps): JSX.Element {
  const { count, current } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800, rowHeight: 36 });
  const { first, last, pool } = visibleRows(view, count);
  const height = Math.min(maxHeight, count * view.rowHeight);

  const measure = (): void => {
    const element = scroller.current;
    if (element === null) return;
    const rowHeight =
      Number.parseFloat(getComputedStyle(element).getPropertyValue('--list-row')) || 36;
    setView({ top: element.scrollTop, height: element.clientHeight, rowHeight });
  };
  // Reads no style, which would force a layout in every frame, and renders only when another row appears.
  const scrolled = (): void => {
    const element = scroller.current;
    if (element === null) return;
    const { scrollTop } = element;
    setView((before) => {
      const top = Math.floor(scrollTop / before.rowHeight) * before.rowHeight;
      return top === before.top ? before : { ...before, top };
    });
    props.onScrolled?.(scrollTop < view.rowHeight);
  };
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [density.value]);
  useEffect(() => {
    props.onVisible?.(first, Math.min(last, count));
    if (last + readAhead >= count) props.onEnd?.();
  }, [first, last, count]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null || current < 0) return;
    const top = current * view.rowHeight;
    const head = element.querySelector<HTMLElement>('.h')?.offsetHeight ?? 0;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + view.rowHeight + head > element.scrollTop + element.clientHeight) {
      element.scrollTop = top + view.rowHeight + head - element.clientHeight;
    }
  }, [current]);

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const page = Math.max(1, Math.floor(view.height / view.rowHeight) - 1);
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: count - 1,
    };
    const to = moves[event.key];
    if (to !== undefined) {
      event.preventDefault();
      props.onCurrent(Math.max(0, Math.min(count - 1, to)));
    } else if (event.key === 'Enter' && current >= 0 && event.target === scroller.current) {
      event.preventDefault();
      props.onOpen?.(current);
    }
  };

  const rows: JSX.Element[] = [];
  for (let index = first; index < Math.min(last, count); index += 1) {
    const isCurrent = index === current;
    rows.push(
      <div
        key={index % pool}
        id={`row-${index}`}
        class={`${props.rowName ?? 'vr'} ${props.rowClass?.(index) ?? ''} ${isCurrent ? 'cur' : ''}`}
        role="row"
        aria-rowindex={index + 2}
        aria-selected={props.isSelected?.(index)}
        style={{ transform: `translateY(${index * view.rowHeight}px)` }}
        onClick={() => props.onCurrent(index)}
      >
        {props.row(index)}
      </div>,
    );
  }
  return (
    <div
      ref={scroller}
      class={`vt ${props.class ?? ''}`}
      role="grid"
      aria-label={props.label}
      aria-rowcount={(props.total ?? count) + 1}
      aria-activedescendant={current >= first && current < last ? `row-${current}` : undefined}
      tabIndex={0}
      onScroll={scrolled}
      onKeyDown={onKeyDown}
    >
      {props.header}
      <div class="vt-rows" role="rowgroup" style={{ height: `${height}px` }}>
        {props.layer}
        {rows}
      </div>
    </div>
  );
}

function visibleRows(
  { top, height, rowHeight }: { top: number; height: number; rowHeight: number },
  count: number,
): { first: number; last: number; pool: number } {
  const shown = Math.ceil(height / rowHeight) + 1;
  const first = Math.max(0, Math.min(Math.floor(top / rowHeight) - overscan, count - 1));
  return { first, last: Math.max(0, first) + shown + 2 * overscan, pool: shown + 2 * overscan };
}
