import type { z } from 'zod';
import { withAttempt, type WireAttempt } from '../../model/values/start-attempt.ts';
import type { StartOptions } from '../../client/starting/start-request.ts';
import type { eventBody } from '../routes/fields.ts';

/** Converts the options of a start in a request: the event has its name instead of a token, and the attempt is no option. */
export function toStartOptions<
  Body extends WireAttempt & { readonly event?: z.output<typeof eventBody> | undefined },
>({
  event,
  ...given
}: Body): Omit<Omit<Body, 'event'>, keyof WireAttempt> & Pick<StartOptions, 'event'> {
  const options = withAttempt(given);
  if (event === undefined) return options;
  const { name: token, payload, key } = event;
  return { ...options, event: { token, payload, key } };
}
