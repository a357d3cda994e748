import { call } from '../../../api/call.ts';
import { useResource } from '../../../state/resource.ts';
import type { HistoryEvent } from '../../../words/event-text.ts';

const kinds: readonly HistoryEvent['kind'][] = [
  'activityScheduled',
  'timerCreated',
  'eventAwaited',
  'childScheduled',
];
const none: ReadonlySet<number> = new Set();

/** The operations that were issued inside a shield after the cancel, which is event `cancelEvent`. */
export function useShielded(
  id: string,
  executionId: number,
  cancelEvent: number | undefined,
  version: string,
): ReadonlySet<number> {
  const page = useResource(
    `shielded ${id} ${executionId} ${cancelEvent ?? ''} ${cancelEvent === undefined ? '' : version}`,
    async (signal) => {
      if (cancelEvent === undefined) return none;
      const { items } = await call(
        'getHistory',
        {
          params: { id },
          query: {
            executionId,
            kinds: kinds as HistoryEvent['kind'][],
            after: cancelEvent,
            limit: 200,
            payloads: 'none',
          },
        },
        signal,
      );
      return new Set(
        items.flatMap(({ event }) =>
          'shielded' in event && event.shielded && 'operation' in event ? [event.operation] : [],
        ),
      );
    },
  );
  return page.data.value ?? none;
}
