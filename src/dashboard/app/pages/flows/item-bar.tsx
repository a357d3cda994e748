import type { JSX } from 'preact';
import type { GraphNode } from './graph-node.ts';

/** The items of a map by state, as a bar. */
export function ItemBar({
  items,
  big = false,
}: {
  readonly items: NonNullable<GraphNode['items']>;
  readonly big?: boolean;
}): JSX.Element {
  const all = Object.values(items).reduce((sum, count) => sum + count, 0);
  const share = (count: number): string => String(all === 0 ? 0 : (count / all) * 100);
  return (
    <span
      class={`stack ${big ? 'big' : ''}`}
      role="img"
      aria-label={`${items.completed} of ${all} done, ${items.failed} failed`}
    >
      {items.completed > 0 && <i data-st="completed" style={{ '--v': share(items.completed) }} />}
      {items.running > 0 && <i data-st="running" style={{ '--v': share(items.running) }} />}
      {items.failed > 0 && <i data-st="failed" style={{ '--v': share(items.failed) }} />}
      {items.canceled > 0 && <i data-st="canceled" style={{ '--v': share(items.canceled) }} />}
    </span>
  );
}
