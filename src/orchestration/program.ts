import type { ExecutionStarted } from '../model/event.ts';
import type { Logger } from '../model/logger.ts';
import type { MiddlewareChain, OrchestrationCall } from '../model/middleware.ts';
import type { TraceContext } from '../model/trace-context.ts';
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
    /** Its ids are fields of the lines of `ctx.log`. */
    readonly trace?: TraceContext | undefined;
    /** Returns the defaults of an activity that is called by name. Default: none. */
    readonly scheduleDefaults?: (activity: string) => ScheduleDefaults | undefined;
    readonly middleware?: MiddlewareChain | undefined;
  },
): (code: LiveCode, started: ExecutionStarted) => Promise<unknown> {
  return async (code, started) => {
    const input = decodePayload(started.payload);
    const { log, trace, scheduleDefaults, middleware } = environment;
    const context = new LiveContext({ code, started, log, trace, scheduleDefaults });
    const { inputSchema } = definition;
    const value =
      inputSchema === undefined
        ? input
        : await validateInput(inputSchema, input, `Orchestration '${definition.name}'`);
    if (middleware === undefined || middleware.isEmpty('orchestration'))
      return definition.handler(context, value);
    return middleware.run('orchestration', toCall(context, started, value), () =>
      definition.handler(context, value),
    );
  };
}

/** The call as middleware sees it. */
function toCall(
  context: LiveContext,
  started: ExecutionStarted,
  input: unknown,
): OrchestrationCall {
  const { instanceId, executionId, headers } = context;
  return {
    kind: 'orchestration',
    name: started.name,
    version: started.version,
    instanceId,
    executionId,
    input,
    headers,
    get isReplaying() {
      return context.isReplaying;
    },
  };
}
