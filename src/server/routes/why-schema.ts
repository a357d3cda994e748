import { z } from 'zod';
import type { Wait, Why } from '../../client/reading/why.ts';
import { status } from './fields.ts';

// The kind of a wait defines its other fields, which grow with the engine, so the schema is loose.
const wait = z.looseObject({ kind: z.string() }).meta({
  id: 'Wait',
  description: 'One thing that an instance waits for. Its `kind` defines the other fields.',
}) as unknown as z.ZodType<Wait>;

/** Why an instance is in its state. */
export const why: z.ZodType<Why> = z
  .strictObject({
    id: z.string(),
    status,
    text: z.string(),
    waits: z.array(wait),
    incomplete: z.literal(true).exactOptional(),
  })
  .meta({ id: 'Why', description: 'What an instance waits for, or how it ended.' });
