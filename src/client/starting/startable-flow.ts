import { PerdureError } from '../../model/failures/errors.ts';
import type { RunFlowOptions } from '../call-types.ts';
import type { ClientSurface } from '../client-surface.ts';
import type { Handle } from '../handle.ts';

/** What a client needs of a flow: how to start a run of it, and its types. */
export interface StartableFlow<Input = unknown, Output = unknown> {
  readonly kind: 'flow';
  readonly name: string;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
  // A method, so that flows of all inputs are references.
  start(client: ClientSurface, input: Input, options?: RunFlowOptions): Promise<Handle>;
}

/** Something that cannot be run as a flow. */
export function notAFlow(): PerdureError {
  return new PerdureError(
    'INVALID_INPUT',
    'runFlow takes a flow that flow(name) began and output() ended.',
  );
}
