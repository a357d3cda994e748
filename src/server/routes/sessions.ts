import { z } from 'zod';
import type { JobPage, SessionInfo, SessionPage } from '../../jobs/session-info.ts';
import {
  actor,
  byId,
  id,
  limit,
  reason,
  time,
  name,
  oneOrMore,
  status,
  timeoutMs,
} from './fields.ts';
import { route } from './route.ts';

const state = z.enum(['open', 'draining', 'closing', 'ended']);
const variableName = z.string().min(1).max(256);

const session: z.ZodType<SessionInfo> = z
  .strictObject({
    id: z.string(),
    label: z.string().exactOptional(),
    owner: z.string().exactOptional(),
    state,
    end: z.enum(['shutdown', 'goodbye', 'expired']).exactOptional(),
    idleTimeoutMs: z.number(),
    createdAt: time,
    expiresAt: time,
    endedAt: time.exactOptional(),
    variables: z.record(z.string(), z.string()),
    variablesHidden: z.literal(true).exactOptional().meta({
      description:
        'True if the variables are omitted because the session belongs to another token.',
    }),
    openJobs: z.number(),
  })
  .meta({ id: 'Session', description: 'A session with its state and its number of open jobs.' });

const sessionPage: z.ZodType<SessionPage> = z.strictObject({
  items: z.array(session),
  nextAfter: z.string().exactOptional(),
});

const jobPage: z.ZodType<JobPage> = z.strictObject({
  items: z.array(
    z.strictObject({
      id: z.string(),
      kind: z.enum(['orchestration', 'task']),
      name: z.string(),
      status,
      createdAt: time,
      abandonedAt: time.exactOptional(),
    }),
  ),
  nextAfter: z.string().exactOptional(),
});

const after = z.string().min(1).max(1_000).optional();

export const sessionRoutes = {
  openSession: route({
    method: 'POST',
    path: '/v1/sessions',
    role: 'operate',
    summary: 'Opens a session. An existing id returns the existing session.',
    body: z.strictObject({
      id,
      label: name.optional(),
      idleTimeoutMs: z.int().min(5_000).max(10_800_000),
      variables: z.record(variableName, z.string().max(65_536)).optional(),
    }),
    response: session,
    large: true,
  }),
  listSessions: route({
    method: 'GET',
    path: '/v1/sessions',
    role: 'read',
    summary: 'Lists sessions, the newest first. A page ends at 8 MiB.',
    query: z.strictObject({
      state: oneOrMore(state).optional(),
      label: name.optional(),
      limit: limit.optional(),
      after,
    }),
    response: sessionPage,
  }),
  getSession: route({
    method: 'GET',
    path: '/v1/sessions/{id}',
    role: 'read',
    summary: 'Returns a session.',
    params: byId,
    response: session,
  }),
  keepAlive: route({
    method: 'POST',
    path: '/v1/sessions/{id}/keep-alive',
    role: 'operate',
    summary: 'Renews the lease of a session that has not ended.',
    params: byId,
    body: z.strictObject({}),
    response: session,
    urgent: true,
    large: true,
  }),
  shutdownSession: route({
    method: 'POST',
    path: '/v1/sessions/{id}/shutdown',
    role: 'operate',
    summary: 'Shuts down a session. `graceful` waits for its jobs, `forceful` cancels them.',
    params: byId,
    body: z.strictObject({
      mode: z.enum(['graceful', 'forceful']),
      leaving: z
        .boolean()
        .optional()
        .meta({ description: 'Whether the client disconnects; then `end` is `goodbye`.' }),
      actor: actor.optional(),
      reason: reason.optional(),
    }),
    response: session,
    urgent: true,
    large: true,
  }),
  waitForSession: route({
    method: 'GET',
    path: '/v1/sessions/{id}/wait',
    role: 'operate',
    summary: 'Waits until a session has ended or was deleted, or `timeoutMs` has passed.',
    params: byId,
    query: z.strictObject({ timeoutMs: timeoutMs.optional() }),
    response: z.strictObject({ ended: z.boolean() }),
    waits: true,
  }),
  setSessionVariables: route({
    method: 'POST',
    path: '/v1/sessions/{id}/variables',
    role: 'operate',
    summary: 'Sets variables of a session. `null` deletes a variable.',
    params: byId,
    body: z.strictObject({
      set: z.record(variableName, z.string().max(65_536).nullable()),
    }),
    response: session,
    large: true,
  }),
  listJobs: route({
    method: 'GET',
    path: '/v1/sessions/{id}/jobs',
    role: 'read',
    summary: 'Lists the jobs of a session.',
    params: byId,
    query: z.strictObject({ limit: limit.optional(), after }),
    response: jobPage,
  }),
};
