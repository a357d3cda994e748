import { z } from 'zod';
import type { SeriesDurationInfo, SeriesMinute } from '../../client/reading/series.ts';
import type { SeriesDepth } from '../../providers/contract/series.ts';
import { name, queryTime, time } from './fields.ts';
import { route } from './route.ts';

const count = z.number().exactOptional();

const durations: z.ZodType<SeriesDurationInfo> = z.strictObject({
  count: z.number(),
  sumMs: z.number(),
  maxMs: z.number(),
  p50Ms: z.number().exactOptional(),
  p95Ms: z.number().exactOptional(),
  buckets: z.array(z.strictObject({ upToMs: z.number().exactOptional(), count: z.number() })),
});

const depth: z.ZodType<SeriesDepth> = z.strictObject({
  ready: z.number(),
  delayed: z.number(),
  claimed: z.number(),
  oldestMs: z.number().nullable(),
});

const minute: z.ZodType<SeriesMinute> = z
  .strictObject({
    at: time,
    starts: z.number(),
    ends: z.strictObject({
      completed: count,
      failed: count,
      canceled: count,
      terminated: count,
      skipped: count,
      expired: count,
    }),
    instances: durations,
    attempts: durations,
    waits: durations,
    depths: z
      .strictObject({ orchestrations: depth, activities: depth, tasks: depth })
      .exactOptional(),
  })
  .meta({ id: 'SeriesMinute', description: 'The counts of one minute.' });

export const seriesRoutes = {
  getSeries: route({
    method: 'GET',
    path: '/v1/series',
    role: 'read',
    summary:
      'Returns the counts of each minute, oldest first: starts, ends, durations, waits for workers and queue depths. At most 1,440 minutes; default: the last hour. Without `name`: all definitions.',
    query: z.strictObject({
      from: queryTime.optional(),
      to: queryTime.optional(),
      name: name.optional(),
    }),
    response: z.strictObject({ items: z.array(minute) }),
  }),
};
