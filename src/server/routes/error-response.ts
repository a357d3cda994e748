import { z } from 'zod';
import { failure } from './instance-responses.ts';

/** An error as it travels: what is needed to throw the same one on the other side. */
export const wireError = z
  .strictObject({
    code: z.string(),
    message: z.string(),
    reason: z.string().exactOptional().meta({ description: 'Why it was canceled.' }),
    trigger: z
      .enum(['cancel', 'timeout', 'race_lost', 'shutdown', 'lease_lost', 'deleted'])
      .exactOptional(),
    subject: z.string().exactOptional().meta({ description: 'The name of what failed.' }),
    failure: failure.exactOptional(),
    eventId: z.number().exactOptional().meta({ description: 'Where code and history part.' }),
    operation: z.string().exactOptional().meta({ description: 'What the store was asked for.' }),
    outcomeUnknown: z
      .boolean()
      .exactOptional()
      .meta({ description: 'Whether it may have happened all the same.' }),
    retryable: z.boolean().exactOptional().meta({ description: 'Whether asking again can help.' }),
    issues: z
      .array(z.strictObject({ path: z.string(), message: z.string() }))
      .exactOptional()
      .meta({ description: 'What was wrong with the request.' }),
  })
  .meta({ id: 'Error', description: 'An error, without stack, SQL, paths or secrets.' });

/** An error as it travels. */
export type WireError = z.output<typeof wireError>;

/** The body of every answer that is not a success. */
export const errorAnswer = z.strictObject({
  error: wireError,
  requestId: z.string().meta({ description: 'Names the request in the log of the server.' }),
});
