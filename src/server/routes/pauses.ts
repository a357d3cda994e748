import { z } from 'zod';
import type { PauseResult } from '../../client/managing/pause-request.ts';
import type { PausedDefinition } from '../../providers/contract/pausing.ts';
import { actor, byId, name, reason, status, time } from './fields.ts';
import { route } from './route.ts';

const kind = z.enum(['orchestration', 'activity', 'task']);

const pauseResult: z.ZodType<PauseResult> = z
  .strictObject({
    found: z.boolean(),
    changed: z.boolean(),
    status: status.nullable(),
    paused: z.boolean(),
  })
  .meta({
    id: 'PauseResult',
    description:
      'Whether the target was found, whether this request changed it, and its state now.',
  });

const pausedDefinition: z.ZodType<PausedDefinition> = z.strictObject({
  kind,
  name: z.string(),
  at: time,
  reason: z.string().nullable(),
  actor: z.string().nullable(),
});

const by = { reason: reason.optional(), actor: actor.optional() };
const definition = z.strictObject({ name, kind: kind.optional(), ...by });
const instance = z.strictObject({ ...by, tree: z.boolean().optional() });

export const pauseRoutes = {
  pauseInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/pause',
    role: 'operate',
    summary:
      'Pauses an instance: none of its turns, activities or attempts starts until it is resumed. `tree: true` pauses its descendants too.',
    params: byId,
    body: instance,
    response: pauseResult,
  }),
  resumeInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/resume',
    role: 'operate',
    summary: 'Resumes a paused instance. `tree: true` resumes its descendants too.',
    params: byId,
    body: instance,
    response: pauseResult,
  }),
  listPausedDefinitions: route({
    method: 'GET',
    path: '/v1/definitions/paused',
    role: 'read',
    summary: 'Lists the paused definitions.',
    response: z.strictObject({ items: z.array(pausedDefinition) }),
  }),
  pauseDefinition: route({
    method: 'POST',
    path: '/v1/definitions/pause',
    role: 'operate',
    summary:
      'Pauses an orchestration, activity or task by name, for all workers. Without `kind`, all kinds with this name.',
    body: definition,
    response: pauseResult,
  }),
  resumeDefinition: route({
    method: 'POST',
    path: '/v1/definitions/resume',
    role: 'operate',
    summary: 'Resumes a paused definition. Without `kind`, all kinds with this name.',
    body: definition,
    response: pauseResult,
  }),
};
