import { signal } from '@preact/signals';
import { call } from '../api/call.ts';
import { toConditions } from '../pages/instances/filter.ts';
import { useResource } from './resource.ts';
import type { SavedView } from './saved-views.ts';

interface Count {
  readonly count: number;
  readonly capped: boolean;
}

const cap = 10_000;
const refreshMs = 15_000;

/** The number of instances that match each view, up to 10,000, by the query of the view. */
export function useViewCounts(views: readonly SavedView[]): ReadonlyMap<string, Count> {
  const counted = views.filter(({ query }) => query !== '');
  const counts = useResource(
    `view counts ${counted.map(({ query }) => query).join(' ')}`,
    async (abort) =>
      new Map(
        await Promise.all(
          counted.map(async ({ query }) => {
            const conditions = toConditions(new URLSearchParams(query));
            const count = await call('countInstances', { query: { ...conditions, cap } }, abort);
            return [query, count] as const;
          }),
        ),
      ),
    { everyMs: refreshMs },
  );
  return counts.data.value ?? none;
}

const none: ReadonlyMap<string, Count> = new Map();

/** How many instances match the filter of the list; `undefined` until it is known. */
export const matchingCount = signal<Count | undefined>(undefined);
