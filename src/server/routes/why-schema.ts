import { z } from 'zod';
import type { Wait, Why } from '../../client/explaining/why.ts';
import { status, terminalStatus, time } from './fields.ts';
import {
  blockedFields,
  cancelFields,
  expiredClaim,
  failureSummary,
  pendingWorkFields,
} from './response-schemas.ts';

const text = z.string().exactOptional();
const operation = z.number();
const unclaimed = z.enum(['noWorker', 'busy', 'queued', 'paused', 'limited']).exactOptional();

const wait: z.ZodType<Wait> = z
  .discriminatedUnion('kind', [
    z.strictObject({
      kind: z.literal('paused'),
      target: z.enum(['instance', 'orchestration', 'activity', 'task']),
      name: text,
      at: time,
      reason: text,
      actor: text,
    }),
    z.strictObject({
      kind: z.literal('worker'),
      reason: z.enum(['noWorker', 'queued']),
      name: z.string(),
      version: text,
      nearestVersion: text,
      dueAt: time,
      claims: z.number(),
      expired: expiredClaim.exactOptional(),
    }),
    z.strictObject({
      kind: z.literal('turn'),
      worker: text,
      claimedAt: time.exactOptional(),
      lockedUntil: time,
    }),
    z.strictObject({ kind: z.literal('delay'), until: time }),
    z.strictObject({
      kind: z.literal('start'),
      startsAt: time,
      unclaimed: z.literal('noWorker').exactOptional(),
      name: z.string(),
      version: text,
    }),
    z.strictObject({
      kind: z.literal('place'),
      name: z.string(),
      key: z.string().exactOptional(),
      global: z.number().exactOptional(),
      perKey: z.number().exactOptional(),
      running: z.number(),
    }),
    z.strictObject({
      kind: z.literal('debounced'),
      key: z.string(),
      startsAt: time,
      moves: z.number(),
    }),
    z.strictObject({
      ...pendingWorkFields,
      kind: z.enum(['activity', 'onFail']),
      unclaimed,
      step: text,
    }),
    z.strictObject({
      ...pendingWorkFields,
      kind: z.literal('task'),
      unclaimed,
      priority: z.number(),
      expiresAt: time.exactOptional(),
      dedupeKey: text,
    }),
    z.strictObject({
      kind: z.literal('timer'),
      operation,
      fireAt: time,
      step: text,
      lastFailure: failureSummary.exactOptional(),
    }),
    z.strictObject({
      kind: z.literal('event'),
      operation,
      name: z.string(),
      signal: text,
      step: text,
    }),
    z.strictObject({
      kind: z.literal('child'),
      operation,
      name: text,
      id: z.string(),
      status: status.exactOptional(),
      isStopping: z.literal(true).exactOptional(),
      text,
    }),
    z.strictObject({ kind: z.literal('detached'), operation, name: text, id: z.string() }),
    z.strictObject({ kind: z.literal('awakeable'), operation }),
    z.strictObject({
      kind: z.literal('update'),
      name: z.string(),
      key: z.string(),
      deferred: z.literal(true).exactOptional(),
    }),
    z.strictObject({
      ...cancelFields,
      kind: z.literal('cancel'),
      phase: z.enum(['cleanup', 'handlers']),
      cleanupUntil: time.exactOptional(),
    }),
    z.strictObject({
      ...blockedFields,
      kind: z.literal('blocked'),
      retryAt: time.exactOptional(),
    }),
    z.strictObject({
      kind: z.literal('job'),
      sessionId: z.string(),
      sessionState: z.enum(['open', 'draining', 'closing', 'ended']),
      expiresAt: time,
      abandonedAt: time.exactOptional(),
    }),
    z.strictObject({
      kind: z.literal('ended'),
      status: terminalStatus,
      at: time,
      failure: failureSummary.exactOptional(),
      reason: text,
      actor: text,
      cleanupSkipped: z.literal(true).exactOptional(),
      leaked: z.number().exactOptional(),
      onFail: z.enum(['queued', 'running', 'completed', 'failed']).exactOptional(),
    }),
  ])
  .meta({ id: 'Wait', description: 'One thing that an instance waits for.' });

/** Why an instance is in its state. */
export const why: z.ZodType<Why> = z
  .strictObject({
    id: z.string(),
    status,
    text: z.string(),
    short: z.string(),
    waits: z.array(wait),
    more: z.number().meta({ description: 'The number of waits beyond those in `waits`.' }),
    incomplete: z.literal(true).exactOptional(),
  })
  .meta({ id: 'Why', description: 'What an instance waits for, or how it ended.' });
