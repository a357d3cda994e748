import { z } from 'zod';
import type {
  LimitKeyInfo,
  LimitKeyPage,
  LimitsInfo,
  LimitsInfoPage,
} from '../../client/managing/limits.ts';
import type { LimitOverride, Limits, RateLimit } from '../../providers/contract/limits.ts';
import { actor, byName, duration, limit, reason, time } from './fields.ts';
import { route } from './route.ts';

const kind = z.enum(['orchestration', 'activity', 'task']);

const rate: z.ZodType<RateLimit> = z.strictObject({
  limit: z.number(),
  perMs: z.number(),
  burst: z.number(),
  perKey: z.boolean(),
});

const figures: z.ZodType<Limits> = z.strictObject({
  global: z.number().exactOptional(),
  perKey: z.number().exactOptional(),
  rate: rate.exactOptional(),
});

const override: z.ZodType<LimitOverride> = z.strictObject({
  global: z.number().nullable().exactOptional(),
  perKey: z.number().nullable().exactOptional(),
  rate: rate.nullable().exactOptional(),
});

const limitsInfo: z.ZodType<LimitsInfo> = z
  .strictObject({
    kind,
    name: z.string(),
    effective: figures,
    declared: figures,
    declaredBy: z.string().exactOptional(),
    override: override.exactOptional(),
    running: z.number(),
    waiting: z.number(),
    nextTokenAt: time.exactOptional(),
  })
  .meta({
    id: 'Limits',
    description:
      'Limits of a definition: what holds, what the newest build declares and what an operator set. `waiting` is counted up to 1,000.',
  });

const limitsPage: z.ZodType<LimitsInfoPage> = z.strictObject({
  items: z.array(limitsInfo),
  nextCursor: z.string().exactOptional(),
});

const keyInfo: z.ZodType<LimitKeyInfo> = z.strictObject({
  key: z.string(),
  weight: z.number(),
  running: z.number(),
  waiting: z.number(),
  heldBy: z.enum(['global', 'perKey', 'rate']).exactOptional(),
  nextAt: time.exactOptional(),
});

const keyPage: z.ZodType<LimitKeyPage> = z.strictObject({
  items: z.array(keyInfo),
  nextAfter: z.string().exactOptional(),
});

const audited = { reason: reason.optional(), actor: actor.optional() };
const count = z.number().nullable().optional();

export const limitRoutes = {
  listLimits: route({
    method: 'GET',
    path: '/v1/limits',
    role: 'read',
    summary: 'Lists the definitions that have limits or keys, by kind and name.',
    query: z.strictObject({
      limit: limit.optional(),
      cursor: z.string().max(300).optional(),
    }),
    response: limitsPage,
  }),
  getLimits: route({
    method: 'GET',
    path: '/v1/limits/{name}',
    role: 'read',
    summary: 'Returns the limits of a definition. Without `kind`, the name must be unique.',
    params: byName,
    query: z.strictObject({ kind: kind.optional() }),
    response: z.strictObject({ limits: limitsInfo.nullable() }),
  }),
  setLimits: route({
    method: 'POST',
    path: '/v1/limits/{name}',
    role: 'operate',
    summary:
      'Changes the limits of a definition for all workers. An absent figure stays as it is; null removes a limit.',
    params: byName,
    body: z.strictObject({
      kind: kind.optional(),
      concurrency: z.strictObject({ global: count, perKey: count }).optional(),
      rate: z
        .strictObject({
          limit: z.number(),
          per: duration,
          burst: z.number().optional(),
          perKey: z.boolean().optional(),
        })
        .nullable()
        .optional(),
      ...audited,
    }),
    response: limitsInfo,
  }),
  resetLimits: route({
    method: 'POST',
    path: '/v1/limits/{name}/reset',
    role: 'operate',
    summary: 'Deletes what was set: the limits of the code hold again.',
    params: byName,
    body: z.strictObject({ kind: kind.optional(), ...audited }),
    response: limitsInfo,
  }),
  listLimitKeys: route({
    method: 'GET',
    path: '/v1/limits/{name}/keys',
    role: 'read',
    summary:
      'Lists the keys of a definition: by default those with the most waiting runs, with `order=key` all in pages.',
    params: byName,
    query: z.strictObject({
      kind: kind.optional(),
      limit: limit.optional(),
      order: z.enum(['waiting', 'key']).optional(),
      after: z.string().max(1_000).optional(),
    }),
    response: keyPage,
  }),
};
