import type { RunFlowOptions, StartOptions } from '../client/call-types.ts';
import type { RunTaskOptions } from '../client/starting/task-request.ts';
import type { FlowRef, OrchestrationRef, TaskRef } from '../model/definition.ts';
import type { Job } from './job.ts';
import type { SubmitOptions } from './job-request.ts';

// NoInfer: the definition alone decides the type, or a wrong argument would widen it instead of being refused.

/** The arguments of `submit` after the definition: the input may be left out where `undefined` is one. */
type Arguments<Input, Options> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: Options]
  : [input: NoInfer<Input>, options?: Options];

/** What submits jobs: a client, in a session of its own, or a session. */
export interface Submitter {
  /**
   * Submits a run that is attached to its caller; there is nothing to wait for. What is wrong with the call itself is
   * thrown at once; everything else, a refusal too, is the reply that `result()` tells.
   */
  submit<Input, Output>(
    definition: OrchestrationRef<Input, Output>,
    ...args: Arguments<Input, StartOptions>
  ): Job<Output>;
  submit<Input, Output>(
    task: TaskRef<Input, Output>,
    ...args: Arguments<Input, RunTaskOptions>
  ): Job<Output>;
  submit<Input, Output>(
    flow: FlowRef<Input, Output>,
    ...args: Arguments<Input, RunFlowOptions>
  ): Job<Output>;
  submit(name: string, input?: unknown, options?: SubmitOptions): Job;
}
