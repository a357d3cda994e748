import type { EventToken, OrchestrationRef, TaskRef } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { connectionOf, type ApplicationTransaction } from './application-transaction.ts';
import type { EventArguments, RunFlowOptions, StartArguments, StartOptions } from './call-types.ts';
import type { Handle } from './handle.ts';
import type { StartableFlow } from './starting/startable-flow.ts';
import type { CancelOptions } from './managing/stopping.ts';
import type { TaskHandle } from './starting/task-handle.ts';
import type { RunTaskArguments, TaskHandles, TaskRequest } from './starting/task-runs.ts';
import type { RunTaskOptions } from './starting/task-request.ts';

/**
 * Writes as a part of the application's own transaction: what it starts, runs, raises and cancels happens when that
 * commits, and has never happened when it is rolled back.
 */
export interface TransactionClient {
  /** Starts an instance; wait for its result only after the commit. */
  start<Input, Output>(
    definition: OrchestrationRef<Input, Output>,
    ...args: StartArguments<Input>
  ): Promise<Handle<Output>>;
  start(name: string, input?: unknown, options?: StartOptions): Promise<Handle>;

  /** Creates a task run, which may start once the transaction has committed. */
  runTask<Input, Output>(
    task: TaskRef<Input, Output>,
    ...args: RunTaskArguments<Input>
  ): Promise<TaskHandle<Output>>;
  runTask(task: string, input?: unknown, options?: RunTaskOptions): Promise<TaskHandle>;

  /** Creates many task runs at the cost of few statements. */
  runTasks<const Tasks extends readonly (TaskRef | string)[]>(requests: {
    readonly [Index in keyof Tasks]: TaskRequest<Tasks[Index]>;
  }): Promise<TaskHandles<Tasks>>;

  /** Starts a run of a flow. */
  runFlow<Input, Output>(
    flow: StartableFlow<Input, Output>,
    ...args: StartArguments<Input, RunFlowOptions>
  ): Promise<Handle<Output>>;

  /** Sends an external event to an instance. */
  raiseEvent<Value>(
    id: string,
    event: EventToken<Value, unknown>,
    ...payload: EventArguments<Value>
  ): Promise<void>;
  raiseEvent(id: string, name: string, payload?: unknown): Promise<void>;

  /** Asks an instance to stop. */
  cancel(id: string, options?: Omit<CancelOptions, 'wait'>): Promise<StopResult>;
}

/** The same provider, but for the writes that are to be a part of a transaction. */
export function providerWithin(provider: Provider, transaction: ApplicationTransaction): Provider {
  const connection = connectionOf(transaction);
  if (connection === undefined) {
    throw new PerdureError(
      'INVALID_INPUT',
      'withTransaction takes a transaction of drizzle or kysely, a client of pg on which a transaction was begun, or something with its query().',
    );
  }
  const writes = provider.within?.(connection);
  if (writes === undefined) {
    throw new PerdureError(
      'INVALID_INPUT',
      `The store (${provider.name}) cannot take part in a transaction of yours. Open a PostgreSQL, or call the client itself.`,
    );
  }
  return Object.assign(Object.create(provider) as Provider, writes, {
    hints: (listener: Parameters<Provider['hints']>[0]) => provider.hints(listener),
  });
}
