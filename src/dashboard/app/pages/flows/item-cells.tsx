import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import { useResource } from '../../state/resource.ts';
import { plural } from '../../words/format.ts';
import type { GraphNode } from './graph-node.ts';

type ItemStatus = 'failed' | 'running' | 'queued' | 'pending' | 'canceled' | 'completed';

// One page of items. A larger map shows its counts only.
const mostItems = 1_000;
const mostCells = 200;
/** The state that a cell shows, if its items differ: the one that needs attention first. */
const order: readonly string[] = [
  'failed',
  'running',
  'queued',
  'pending',
  'canceled',
  'completed',
];

/** The items of a map in order, as cells. */
export function ItemCells({
  id,
  node,
}: {
  readonly id: string;
  readonly node: GraphNode;
}): JSX.Element | null {
  const all = Object.values(node.items ?? {}).reduce((sum, count) => sum + count, 0);
  const isShown = all > 0 && all <= mostItems;
  const page = useResource(
    `cells ${id} ${node.name} ${isShown} ${node.status}`,
    (signal) =>
      isShown
        ? call(
            'listFlowItems',
            { params: { id }, query: { step: node.name, limit: mostItems } },
            signal,
          )
        : Promise.resolve(undefined),
    { ...(isShown && node.status === 'running' && { everyMs: 5_000 }) },
  );
  const items = page.data.value?.items;
  if (items === undefined) return null;
  const states = new Map(items.map(({ index, status }) => [index, status]));
  const size = Math.ceil(all / mostCells);
  return (
    <div class="sect">
      <h3>
        Items in order <span class="right">{size === 1 ? '1 a cell' : `${size} a cell`}</span>
      </h3>
      <div class="heat" role="img" aria-label={`${plural(all, 'item')} in order`}>
        {cellsOf(states, all, size).map((status, index) => (
          <i key={index} data-st={status} />
        ))}
      </div>
    </div>
  );
}

/** The state of each cell of `size` items. Items that are not listed yet are pending. */
function cellsOf(
  states: ReadonlyMap<number, string>,
  all: number,
  size: number,
): readonly ItemStatus[] {
  return Array.from({ length: Math.ceil(all / size) }, (_, cell) => {
    const inside = Array.from(
      { length: Math.min(size, all - cell * size) },
      (_item, place) => states.get(cell * size + place) ?? 'pending',
    );
    return (order.find((status) => inside.includes(status)) ?? 'pending') as ItemStatus;
  });
}
