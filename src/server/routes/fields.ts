import { z } from 'zod';
import { instanceStatuses, type InstanceStatus, type TerminalStatus } from '../../model/status.ts';
import { longestPollMs } from './route.ts';

// Handlers check the exact bounds of strings. Schemas only reject values that can never be valid.
const text = (max: number) => z.string().min(1).max(max);

export const id = text(1_000);
/** The name of a definition, an event or a schedule. */
export const name = text(256);
export const version = text(256);
/** Reason for a cancel or a terminate. */
export const reason = z.string().max(10_000);
/** The actor to record in addition to the name of the token. */
export const actor = text(200);
export const duration = z
  .union([z.number(), z.string().max(60)])
  .meta({ description: 'Milliseconds, or a string such as 250ms, 30s, 5m, 1h or 30d.' });
export const time = z.number().meta({ description: 'Milliseconds since the Unix epoch.' });
export const json = z.unknown().meta({ description: 'Any JSON value.' });
export const tags = z.record(z.string().min(1).max(64), z.string().min(1).max(256));
/** The key of a run. */
export const laneKey = text(1_000);
export const headers = z.record(z.string().max(256), z.string().max(65_536));

/** The settings that every start has. */
export const startSettings = {
  delay: duration.optional(),
  runAt: time.optional(),
  timeout: duration.optional().meta({
    description: 'How long the run may take from when it may start. Then it is canceled.',
  }),
  headers: headers.optional(),
  tags: tags.optional(),
  priority: z.number().optional(),
  key: laneKey.optional().meta({
    description: 'The key that limits per key count, such as a tenant. Keys are served in turn.',
  }),
  weight: z.number().optional().meta({
    description: 'Share of the key among the keys that wait, 1 (default) to 100.',
  }),
};
/** An event with the key that deduplicates it. */
export const eventBody = z.strictObject({
  name,
  payload: json.optional(),
  key: id.optional().meta({ description: 'A repeated key is one event.' }),
});
/** A dedupe key with its window. */
export const dedupe = z.strictObject({ key: id, for: duration }).meta({
  description: 'As `dedupeKey`, and also after the run has ended, until `for` has passed.',
});
/** The options of a start that find another run. */
export const admission = {
  dedupeKey: id.optional(),
  dedupe: dedupe.optional(),
  debounce: z
    .strictObject({
      key: id,
      wait: duration,
      maxWait: duration.optional(),
      requestKey: name.optional().meta({ description: 'A repeated key changes nothing.' }),
    })
    .optional()
    .meta({
      description:
        'Moves the run with the key that has not started to `wait` from now, and replaces its input.',
    }),
};
/** Whether a request repeats one whose response was lost. */
export const repeat = z.boolean().optional().meta({
  description:
    'Whether the call repeats one whose response was lost. If its instance was deleted since, it creates nothing.',
});
/** Which attempt of a call a request is. */
export const attempt = {
  startKey: z.string().min(8).max(100).optional().meta({
    description: 'Random id of the call. A request that repeats it has the same one.',
  }),
  repeat,
};
/** What a start does if its id is taken. */
export const onConflict = z.enum(['reject', 'useExisting', 'terminateExisting']).optional();
/** The options of a start that decide what happens if its instance exists. */
export const startIdentity = {
  ...admission,
  event: eventBody.optional(),
  onConflict,
  replaceKey: name.optional(),
  ...attempt,
};

export const status: z.ZodType<InstanceStatus> = z
  .enum(instanceStatuses as readonly [InstanceStatus])
  .meta({ id: 'Status', description: 'Status of an instance.' });
export const terminalStatus: z.ZodType<TerminalStatus> = z.enum([
  'completed',
  'failed',
  'canceled',
  'terminated',
  'skipped',
  'expired',
]);

export function integer(min: number, max: number) {
  return z
    .string()
    .regex(/^-?\d{1,16}$/, 'must be an integer')
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}

export const queryBoolean = z
  .enum(['true', 'false'])
  .transform((value) => value === 'true')
  .pipe(z.boolean());

/** One or more values in a query, as a repeated parameter. */
export function oneOrMore<Item extends z.ZodType>(item: Item) {
  return z.preprocess(
    (value) => (typeof value === 'string' ? [value] : value),
    z.array(item).min(1).max(20),
  );
}

export const limit = integer(1, 1_000);
export const cursor = z.string().max(100);
/** Timeout of a long poll, in milliseconds. */
export const timeoutMs = integer(0, longestPollMs);
export const queryTime = integer(-8_640_000_000_000_000, 8_640_000_000_000_000);

/** Path parameters of routes for one id. */
export const byId = z.strictObject({ id });
/** Path parameters of routes for one name. */
export const byName = z.strictObject({ name });
export const done = z.strictObject({});
