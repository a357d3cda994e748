import { z } from 'zod';
import { instanceStatuses, type InstanceStatus, type TerminalStatus } from '../../model/status.ts';
import { longestPollMs } from './route.ts';

// Bounds of texts are checked where they are meant: schemas only keep out what could never be meant.
const text = (max: number) => z.string().min(1).max(max);

/** An instance, session or job id. */
export const id = text(1_000);
/** The name of a definition, an event or a schedule. */
export const name = text(256);
/** A version of an orchestration. */
export const version = text(256);
/** Why something is done. */
export const reason = z.string().max(10_000);
/** Who asks, besides the token that says so. */
export const actor = text(200);
/** Milliseconds, or text like `30s`. */
export const duration = z
  .union([z.number(), z.string().max(60)])
  .meta({ description: 'Milliseconds, or text like 250ms, 30s, 5m, 1h, 30d.' });
/** Milliseconds since the epoch. */
export const moment = z.number().meta({ description: 'Milliseconds since the epoch.' });
/** Any JSON value. */
export const json = z.unknown().meta({ description: 'Any JSON value.' });
/** Text by name. */
export const headers = z.record(z.string().max(256), z.string().max(65_536));

/** How an instance can stand. */
export const status: z.ZodType<InstanceStatus> = z
  .enum(instanceStatuses as readonly [InstanceStatus])
  .meta({ id: 'Status', description: 'How an instance stands.' });
/** How an instance can end. */
export const terminalStatus: z.ZodType<TerminalStatus> = z.enum([
  'completed',
  'failed',
  'canceled',
  'terminated',
  'skipped',
  'expired',
]);

/** A whole number in a query. */
export function whole(min: number, max: number) {
  return z
    .string()
    .regex(/^-?\d{1,16}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}

/** A yes or no in a query. */
export const flag = z
  .enum(['true', 'false'])
  .transform((value) => value === 'true')
  .pipe(z.boolean());

/** One or several values in a query, given as repeats of its name. */
export function several<Item extends z.ZodType>(item: Item) {
  return z.preprocess(
    (value) => (typeof value === 'string' ? [value] : value),
    z.array(item).min(1).max(20),
  );
}

/** How many entries a page may have. */
export const limit = whole(1, 1_000);
/** Where a page begins. */
export const cursor = z.string().max(100);
/** How long a request may stay open. */
export const timeoutMs = whole(0, longestPollMs);
/** A time in a query. */
export const queryMoment = whole(-8_640_000_000_000_000, 8_640_000_000_000_000);

/** The path of routes that concern one instance. */
export const byId = z.strictObject({ id });
/** The path of routes that concern one thing with a name. */
export const byName = z.strictObject({ name });
/** An answer that says nothing but that it was done. */
export const done = z.strictObject({});
