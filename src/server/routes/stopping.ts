import { z } from 'zod';
import { actor, byId, duration, reason } from './fields.ts';
import { stopResult } from './instance-responses.ts';
import { route } from './route.ts';

/** Stopping instances. */
export const stoppingRoutes = {
  cancelInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/cancel',
    role: 'operate',
    summary: 'Asks an instance to stop, durably and at once.',
    params: byId,
    body: z.strictObject({
      reason: reason.optional(),
      actor: actor.optional(),
      cleanupTimeout: duration.optional(),
    }),
    answer: stopResult,
    urgent: true,
  }),
  terminateInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/terminate',
    role: 'operate',
    summary: 'Ends an instance at once, without running its code.',
    params: byId,
    body: z.strictObject({
      reason: reason.optional(),
      actor: actor.optional(),
      tree: z.boolean().optional(),
    }),
    answer: stopResult,
    urgent: true,
  }),
};
