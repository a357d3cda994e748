import { PerdureError } from '../model/failures/errors.ts';
import type { Logger } from '../model/logger.ts';
import type { ActivityClient } from './activity-context.ts';

/** What the handler of an abandoned result is given besides that result. */
export interface AbandonedContext {
  /** The id of the run that completed although nobody wanted it any more. */
  readonly instanceId: string;
  /** The name of the activity, task, orchestration or flow. */
  readonly name: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly client: ActivityClient;
  readonly log: Logger;
}

/** Disposes of a result that came when its caller had gone: closes, deletes or refunds what was made. */
export type OnAbandoned<Output> = (output: Output, context: AbandonedContext) => unknown;

/** Returns the handler as a part of a definition; refuses what is no function. */
export function readOnAbandoned<Output>(
  what: string,
  onAbandoned: OnAbandoned<Output> | undefined,
): { readonly onAbandoned?: OnAbandoned<Output> } {
  if (onAbandoned === undefined) return {};
  if (typeof onAbandoned === 'function') return { onAbandoned };
  throw new PerdureError(
    'INVALID_OPTION',
    `onAbandoned of ${what} is no function. Pass a function.`,
  );
}
