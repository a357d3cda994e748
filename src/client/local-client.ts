import type { EventToken, OrchestrationRef, TaskRef } from '../model/definition.ts';
import type { AttachedWork } from '../jobs/attached-work.ts';
import type { MiddlewareChain } from '../model/middleware.ts';
import type { TraceContext } from '../model/trace-context.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { Client } from './client.ts';
import { LocalBackend, type LocalBackendOptions } from './local-backend.ts';
import { passOn, type CallTelemetry } from './starting/traced-call.ts';
import { readCancelOptions } from './managing/stop-request.ts';
import type { RaiseEventOptions, StartableFlow, StartArguments } from './starting/start-request.ts';
import type { TaskRequest } from './starting/task-request.ts';
import {
  providerWithin,
  type ApplicationTransaction,
  type TransactionClient,
} from './transaction-client.ts';

export interface LocalClientOptions extends LocalBackendOptions {
  /** Maximum size of an input or event payload, in bytes of JSON. Default 2 MiB. */
  readonly payloadLimitBytes?: number | undefined;
  /** Throws if a client must not be used: inside an orchestration, every replay would repeat the call. */
  readonly guard?: (() => void) | undefined;
  readonly telemetry?: CallTelemetry | undefined;
  readonly middleware?: MiddlewareChain | undefined;
  /** Returns the metrics of the workers of this process, in the text format of Prometheus. */
  readonly metrics?: (() => string) | undefined;
}

/** A client of a store that is open in this process. It needs no worker. */
export class LocalClient extends Client {
  readonly #options: LocalClientOptions;
  readonly #backend: LocalBackend;

  constructor(options: LocalClientOptions, backend = new LocalBackend(options)) {
    super({ ...options, backend });
    this.#options = options;
    this.#backend = backend;
  }

  /** The parts that a server and `Perdure` use; not for applications. */
  static internals(client: LocalClient): {
    readonly backend: LocalBackend;
    /** The jobs and sessions that this client holds itself. */
    readonly attached: AttachedWork;
    readonly payloadLimitBytes: number;
    readonly middleware: MiddlewareChain | undefined;
    readonly metrics: () => string;
  } {
    const { attached, payloadLimitBytes } = client;
    const { middleware, metrics = () => '' } = client.#options;
    return { backend: client.#backend, attached, payloadLimitBytes, middleware, metrics };
  }

  /** Returns a client for the call of a server's caller, who has made the span of the call. */
  static onBehalfOf(client: LocalClient, trace: TraceContext): LocalClient {
    return new LocalClient({ ...client.#options, telemetry: passOn(trace) }, client.#backend);
  }

  withTransaction(transaction: ApplicationTransaction): TransactionClient {
    this.assertOpen();
    const provider = providerWithin(this.#backend.provider, transaction);
    // A first turn runs user code, which must not run inside the application's transaction.
    const options = { ...this.#options, provider, starter: undefined };
    const backend = new LocalBackend(options);
    const inner = new LocalClient(options, backend);
    // Handles use this client, so that they outlive the transaction.
    return {
      start: async (definition: OrchestrationRef | string, ...args: unknown[]) =>
        this.startedHandle(await inner.start(definition as string, ...args)),
      runTask: async (task: TaskRef | string, ...args: unknown[]) =>
        this.startedHandle(await inner.runTask(task as string, ...args)),
      runTasks: async (requests: readonly TaskRequest[]) =>
        (await inner.runTasks(requests)).map((run) => this.startedHandle(run)) as never,
      runFlow: async (flow: StartableFlow, ...args: StartArguments<unknown>) =>
        this.handle((await inner.runFlow(flow, ...args)).id) as never,
      raiseEvent: (
        id: string,
        event: EventToken | string,
        payload?: unknown,
        raiseOptions?: RaiseEventOptions,
      ) => inner.raiseEvent(id, event as string, payload, raiseOptions),
      cancel: async (id, cancelOptions) => {
        const { wait: _, ...stop } = readCancelOptions(cancelOptions);
        return backend.cancel({ instanceId: checkInstanceId(id), ...stop });
      },
    };
  }
}
