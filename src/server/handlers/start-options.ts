import type { z } from 'zod';
import type { StartOptions } from '../../client/starting/start-request.ts';
import type { eventBody } from '../routes/fields.ts';

/** Converts the options of a start in a request: the event has its name instead of a token. */
export function toStartOptions<
  Body extends { readonly event?: z.output<typeof eventBody> | undefined },
>({ event, ...options }: Body): Omit<Body, 'event'> & Pick<StartOptions, 'event'> {
  if (event === undefined) return options;
  const { name: token, payload, key } = event;
  return { ...options, event: { token, payload, key } };
}
