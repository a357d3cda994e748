import { z } from 'zod';
import { instanceStatuses, type InstanceStatus, type TerminalStatus } from '../../model/status.ts';
import { longestPollMs } from './route.ts';

// Handlers check the exact bounds of strings. Schemas only reject values that can never be valid.
const text = (max: number) => z.string().min(1).max(max);

/** An instance, session or job id. */
export const id = text(1_000);
/** The name of a definition, an event or a schedule. */
export const name = text(256);
/** A version of an orchestration. */
export const version = text(256);
/** Reason for a cancel or a terminate. */
export const reason = z.string().max(10_000);
/** The actor to record in addition to the name of the token. */
export const actor = text(200);
/** A duration: milliseconds, or a string such as `30s`. */
export const duration = z
  .union([z.number(), z.string().max(60)])
  .meta({ description: 'Milliseconds, or a string such as 250ms, 30s, 5m, 1h or 30d.' });
/** A time: milliseconds since the Unix epoch. */
export const moment = z.number().meta({ description: 'Milliseconds since the Unix epoch.' });
/** Any JSON value. */
export const json = z.unknown().meta({ description: 'Any JSON value.' });
/** Headers of a task run. */
export const headers = z.record(z.string().max(256), z.string().max(65_536));

/** Status of an instance. */
export const status: z.ZodType<InstanceStatus> = z
  .enum(instanceStatuses as readonly [InstanceStatus])
  .meta({ id: 'Status', description: 'Status of an instance.' });
/** Terminal status of an instance. */
export const terminalStatus: z.ZodType<TerminalStatus> = z.enum([
  'completed',
  'failed',
  'canceled',
  'terminated',
  'skipped',
  'expired',
]);

/** An integer in a query. */
export function whole(min: number, max: number) {
  return z
    .string()
    .regex(/^-?\d{1,16}$/, 'must be an integer')
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}

/** A boolean in a query. */
export const flag = z
  .enum(['true', 'false'])
  .transform((value) => value === 'true')
  .pipe(z.boolean());

/** One or more values in a query, as a repeated parameter. */
export function several<Item extends z.ZodType>(item: Item) {
  return z.preprocess(
    (value) => (typeof value === 'string' ? [value] : value),
    z.array(item).min(1).max(20),
  );
}

/** Maximum entries of a page. */
export const limit = whole(1, 1_000);
/** Cursor of a page. */
export const cursor = z.string().max(100);
/** Timeout of a long poll, in milliseconds. */
export const timeoutMs = whole(0, longestPollMs);
/** A time in a query. */
export const queryMoment = whole(-8_640_000_000_000_000, 8_640_000_000_000_000);

/** Path parameters of routes for one id. */
export const byId = z.strictObject({ id });
/** Path parameters of routes for one name. */
export const byName = z.strictObject({ name });
/** An empty response. */
export const done = z.strictObject({});
