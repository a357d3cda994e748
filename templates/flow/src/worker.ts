/** `perdure dev` and `perdure worker` run everything that this file exports. */
import { flow } from 'perdure/flows';

export interface Report {
  readonly cities: readonly string[];
}

/** Steps run as soon as their dependencies have completed. Each is retried on its own. */
export const report = flow('report')
  .input<Report>()
  .map(
    'measure',
    { over: ({ input }) => input.cities, concurrency: 5, retry: { maxAttempts: 3 } },
    (_ctx, city) => ({ city, degrees: city.length }),
  )
  .reduce(
    'warmest',
    { over: ({ measure }) => measure, initial: { city: 'none', degrees: -100 } },
    (_ctx, best, next) => (next.degrees > best.degrees ? next : best),
  )
  .step(
    'publish',
    { needs: ['warmest'] },
    (_ctx, { warmest }) => `${warmest.city} is the warmest, with ${warmest.degrees} degrees`,
  )
  .output();
