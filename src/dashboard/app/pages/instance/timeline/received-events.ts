import type { Item, Mark } from './timeline-item.ts';

/** Ends the waits for external events: the oldest wait for a name takes the oldest event of that name. */
export function withReceived(items: readonly Item[], marks: readonly Mark[]): readonly Item[] {
  const received = Map.groupBy(
    marks.filter(({ kind }) => kind === 'eventReceived'),
    ({ name = '' }) => name,
  );
  if (received.size === 0) return items;
  return items.map((item) => {
    if (item.kind !== 'event' || item.endedAt !== undefined || item.withdrawnAt !== undefined) {
      return item;
    }
    const event = received.get(item.name ?? '')?.shift();
    if (event === undefined) return item;
    return {
      ...item,
      endedAt: Math.max(event.at, item.startedAt ?? event.at),
      outcome: 'completed' as const,
    };
  });
}
