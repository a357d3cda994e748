import { z } from 'zod';
import type { StateEntry } from '../../client/reading/state.ts';
import { byId, id, json, name } from './fields.ts';
import { wireError } from './response-schemas.ts';
import { longestPollMs, route } from './route.ts';

const entry: z.ZodType<StateEntry> = z
  .strictObject({ key: z.string(), value: json, version: z.number() })
  .meta({ id: 'StateEntry', description: 'A value of the state of an instance.' });

const place = z
  .number()
  .meta({ description: 'The position of the wait in `waits`, counted from 0.' });

export const stateRoutes = {
  readState: route({
    method: 'GET',
    path: '/v1/instances/{id}/state',
    role: 'read',
    summary:
      'Returns the state of an instance by key, or the value of `key`. A page ends at 8 MiB; pass its `nextKey` as `after`.',
    params: byId,
    query: z.strictObject({ key: name.optional(), after: name.optional() }),
    response: z.strictObject({ items: z.array(entry), nextKey: z.string().exactOptional() }),
  }),
  waitForStates: route({
    method: 'POST',
    path: '/v1/bulk/wait-state',
    role: 'read',
    summary:
      'Waits until one of several instances has a version above `after`, of a key of its state or of its custom status. Also ends if an instance will never have one, or when `timeoutMs` has passed. Returns the results so far.',
    body: z.strictObject({
      waits: z
        .array(
          z.strictObject({
            id,
            key: name
              .optional()
              .meta({ description: 'A key of the state. Absent: the custom status.' }),
            after: z.int().min(0).optional(),
          }),
        )
        .min(1)
        .max(1_000),
      timeoutMs: z.int().min(0).max(longestPollMs).optional(),
    }),
    response: z.strictObject({
      results: z.array(
        z.union([
          z.strictObject({ place, value: json.exactOptional(), version: z.number() }),
          z.strictObject({ place, error: wireError }),
        ]),
      ),
    }),
    waits: true,
  }),
};
