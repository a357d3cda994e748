import type { ExecutionStarted } from '../model/event.ts';
import type { Logger } from '../model/logger.ts';
import { decodePayload } from '../model/values/payload.ts';
import { validateInput } from '../model/values/validate-input.ts';
import type { LiveCode } from '../replay/live-code.ts';
import type { OrchestrationDefinition } from './orchestration.ts';
import type { ScheduleDefaults } from './call-options.ts';
import { LiveContext } from './live-context.ts';

/** Creates the program of an execution: decodes and validates the input, then runs the handler. */
export function createProgram(
  definition: OrchestrationDefinition,
  environment: {
    readonly log: Logger;
    /** Further fields of the lines of `ctx.log`: the ids of the trace. */
    readonly logFields?: object | undefined;
    /** Returns the defaults of an activity that is called by name. Default: none. */
    readonly scheduleDefaults?: (activity: string) => ScheduleDefaults | undefined;
  },
): (code: LiveCode, started: ExecutionStarted) => Promise<unknown> {
  return async (code, started) => {
    const input = decodePayload(started.payload);
    const context = new LiveContext({ code, started, ...environment });
    const { inputSchema } = definition;
    if (inputSchema === undefined) return definition.handler(context, input);
    const what = `Orchestration '${definition.name}'`;
    return definition.handler(context, await validateInput(inputSchema, input, what));
  };
}
