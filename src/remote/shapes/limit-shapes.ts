import type {
  LimitKeyInfo,
  LimitKeyPage,
  LimitsInfo,
  LimitsInfoPage,
} from '../../client/managing/limits.ts';
import type { LimitOverride, Limits, RateLimit } from '../../providers/contract/limits.ts';
import {
  fields,
  flag,
  list,
  nullable,
  number,
  optional,
  text,
  type Check,
} from '../response-checks.ts';

const rate: Check = fields<RateLimit>({
  limit: number,
  perMs: number,
  burst: number,
  perKey: flag,
});
const figures: Check = fields<Limits>({
  global: optional(number),
  perKey: optional(number),
  rate: optional(rate),
});

/** The limits of a definition. */
export const limits: Check = fields<LimitsInfo>({
  kind: text,
  name: text,
  effective: figures,
  declared: figures,
  declaredBy: optional(text),
  override: optional(
    fields<LimitOverride>({
      global: optional(nullable(number)),
      perKey: optional(nullable(number)),
      rate: optional(nullable(rate)),
    }),
  ),
  running: number,
  waiting: number,
  nextTokenAt: optional(number),
});

/** A page of limits. */
export const limitsPage: Check = fields<LimitsInfoPage>({
  items: list(limits),
  nextCursor: optional(text),
});

/** A page of keys. */
export const limitKeys: Check = fields<LimitKeyPage>({
  items: list(
    fields<LimitKeyInfo>({
      key: text,
      weight: number,
      running: number,
      waiting: number,
      heldBy: optional(text),
      nextAt: optional(number),
    }),
  ),
  nextAfter: optional(text),
});
