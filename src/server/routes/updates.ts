import { z } from 'zod';
import { maxErrorName, maxReason } from '../../client/updating/update-request.ts';
import { maxDetailBytes } from '../../model/failures/failure.ts';
import { describeAsJson } from '../../model/values/payload.ts';
import { byId, done, id, json, name } from './fields.ts';
import { wireError } from './response-schemas.ts';
import { longestPollMs, route } from './route.ts';

const key = z.string().min(1).max(1_000).meta({
  description: 'Identifies the update within its instance. A repeat gets the same reply.',
});
const token = z.strictObject({ token: z.string().min(1).max(200) });
const answerKey = z.string().min(1).max(200).optional().meta({
  description: 'Identifies the request: a repeat with the same key is no second answer.',
});

export const updateRoutes = {
  updateInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/updates',
    role: 'operate',
    summary:
      'Sends an update to a running instance and waits up to `timeoutMs` for its reply. Repeat a `pending` request with its `key` to wait again.',
    params: byId,
    body: z.strictObject({
      name,
      input: json.optional(),
      key: key.optional(),
      timeoutMs: z.int().min(0).max(longestPollMs).optional(),
    }),
    response: z.strictObject({
      status: z.enum(['pending', 'completed']),
      key: z.string(),
      output: json.exactOptional(),
    }),
    waits: true,
  }),
  waitForUpdates: route({
    method: 'POST',
    path: '/v1/bulk/updates/wait',
    role: 'operate',
    summary:
      'Waits until at least one of several updates has a reply, or `timeoutMs` has passed. Returns the replies.',
    body: z.strictObject({
      updates: z
        .array(z.strictObject({ id, key, name: name.optional() }))
        .min(1)
        .max(1_000),
      timeoutMs: z.int().min(0).max(longestPollMs).optional(),
    }),
    response: z.strictObject({
      results: z.array(
        z.union([
          z.strictObject({ id: z.string(), key: z.string(), output: json.exactOptional() }),
          z.strictObject({ id: z.string(), key: z.string(), error: wireError }),
        ]),
      ),
    }),
    waits: true,
  }),
  resolveAwakeable: route({
    method: 'POST',
    path: '/v1/awakeables/{token}/resolve',
    role: 'public',
    isLimited: true,
    summary:
      'Resolves an awakeable with `value`. The token in the path is the only right that it needs.',
    params: token,
    body: z.strictObject({ value: json.optional(), key: answerKey }),
    response: done,
  }),
  rejectAwakeable: route({
    method: 'POST',
    path: '/v1/awakeables/{token}/reject',
    role: 'public',
    isLimited: true,
    summary:
      'Rejects an awakeable with `reason`. The token in the path is the only right that it needs.',
    params: token,
    body: z.strictObject({
      reason: z.string().max(maxReason).optional(),
      name: z.string().min(1).max(maxErrorName).optional().meta({
        description: 'The name of the error. Default: `Error`.',
      }),
      code: z.string().max(maxErrorName).optional().meta({ description: 'The code of the error.' }),
      details: json
        .refine((value) => describeAsJson(value, maxDetailBytes) !== undefined, {
          error: 'must be at most 32,768 bytes as JSON',
        })
        .optional()
        .meta({ description: 'The details of the error. At most 32,768 bytes as JSON.' }),
      key: answerKey,
    }),
    response: done,
  }),
};
