import {
  isPerdureError,
  type Client,
  type Handle,
  type OrchestrationDefinition,
  type StartOptions,
} from '../index.ts';
import { isSameJson } from './interpreter/condition-evaluation.ts';
import type { RunInput } from './definition/graph.ts';
import { readRunInput } from './interpreter/run-input.ts';

/**
 * Starts a run with its graph frozen into it. The same start after the flow was redefined finds the run that is
 * there, which goes on as it was defined when it began.
 */
export async function startFlow(
  client: Client,
  definition: OrchestrationDefinition<RunInput>,
  start: { readonly run: RunInput; readonly options: StartOptions | undefined },
): Promise<Handle> {
  const { run, options } = start;
  try {
    return await client.start(definition, run, options);
  } catch (error) {
    const id = options?.id;
    if (id === undefined || !isPerdureError(error, 'INSTANCE_ALREADY_EXISTS')) throw error;
    const earlier = await readRunInput(client, id);
    const isSame =
      earlier?.flow.name === run.flow.name && isSameJson(earlier.input, asJson(run.input));
    if (!isSame) throw error;
    return client.handle(id);
  }
}

function asJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
