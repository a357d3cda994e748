import { PerdureError, isPerdureError, type CanceledError } from '../../model/failures/errors.ts';
import { withFields, type Logger } from '../../model/logger.ts';
import { taskNameOf } from '../../model/task-call.ts';
import type { TraceIds } from '../../model/trace-context.ts';
import { visibleHeaders, type Headers } from '../../model/values/headers.ts';
import { decodeHeaders } from '../../model/work-item-options.ts';
import { decodePayload, encodePayload, type Payload } from '../../model/values/payload.ts';
import type {
  ActivityClient,
  ActivityContext,
  HandlerSession,
  TransactionOptions,
  TransactionWork,
} from '../../orchestration/activity-context.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { TaskContext } from '../../tasks/task.ts';
import type { ResolvedOptions } from '../options.ts';

/** The operations of a run that its context offers to the handler. */
export interface RunOperations {
  readonly item: WorkItem;
  /** The ids of the span of the attempt. */
  readonly traceIds?: TraceIds | undefined;
  pointOfNoReturn(): Promise<void>;
  emit(payload: Payload): Promise<boolean>;
  /** Completes the attempt together with the writes of the closure. */
  transaction<Value>(work: TransactionWork<Value>, options?: TransactionOptions): Promise<Value>;
  /** Cancels the run of the item. Tasks only. */
  cancelRun(reason: string | undefined): Promise<void>;
}

export interface RunningContextParams {
  readonly options: ResolvedOptions;
  readonly client: ActivityClient;
}

/** The `ctx` of an activity handler. */
export class RunningActivityContext implements ActivityContext {
  readonly #run: RunOperations;
  readonly #item: WorkItem;
  readonly #options: ResolvedOptions;
  readonly client: ActivityClient;
  // Created lazily: most handlers never use the signal, and it costs more than the rest of the context.
  #controller: AbortController | undefined;
  #reason: CanceledError | undefined;
  #heartbeat: { readonly heartbeat?: Payload | null } = {};
  #ended = false;
  #log: Logger | undefined;

  constructor(run: RunOperations, { options, client }: RunningContextParams) {
    this.#run = run;
    this.#item = run.item;
    this.#options = options;
    this.client = client;
  }

  get instanceId(): string {
    return this.#item.instanceId;
  }

  get executionId(): number {
    return this.#item.executionId;
  }

  get orchestrationName(): string {
    return this.#item.orchestration;
  }

  get activityName(): string {
    return this.#item.name;
  }

  get headers(): Headers {
    return visibleHeaders(decodeHeaders(this.#item.options));
  }

  /** Set before the handler runs. */
  session: HandlerSession | undefined;

  get attempt(): number {
    return this.#item.failures + 1;
  }

  /** Stable across attempts and crashes. */
  get idempotencyKey(): string {
    const { instanceId, incarnation, executionId, operation } = this.#item;
    return `${instanceId}/${incarnation}/${executionId}.${operation}`;
  }

  get lastHeartbeat(): unknown {
    return decodePayload(this.#item.heartbeat);
  }

  /** The logger of the worker, with fields that identify the attempt. */
  get log(): Logger {
    this.#log ??= withFields(this.#options.logger, () => this.#logFields());
    return this.#log;
  }

  #logFields(): object {
    const { instanceId, executionId, operation, name, kind, orchestration } = this.#item;
    return {
      instanceId,
      ...(kind === 'activity'
        ? { executionId, orchestration, activity: name, operation }
        : { task: name }),
      attempt: this.attempt,
      ...this.#run.traceIds,
    };
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  get isCanceled(): boolean {
    return this.#reason !== undefined;
  }

  throwIfCanceled(): void {
    if (this.#reason !== undefined) throw this.#reason;
  }

  /** Resolves with the reason once the activity is canceled. */
  canceled(): Promise<CanceledError> {
    const { signal } = this;
    return new Promise((resolve) => {
      const settle = (): void => resolve(signal.reason as CanceledError);
      if (signal.aborted) settle();
      else signal.addEventListener('abort', settle, { once: true });
    });
  }

  /**
   * Resolves once only a lost lease, a worker shutdown, a terminate or a deletion can stop this activity. Rejects if it
   * is already canceled.
   */
  pointOfNoReturn(): Promise<void> {
    return this.#run.pointOfNoReturn();
  }

  heartbeat(details?: unknown): void {
    if (this.#ended) return;
    this.#heartbeat = { heartbeat: this.#encode('heartbeat', details) };
  }

  transaction<Value>(work: TransactionWork<Value>, options?: TransactionOptions): Promise<Value> {
    return this.#run.transaction(work, options);
  }

  emit(chunk: unknown): Promise<boolean> {
    const emitted = this.#emitChunk(chunk);
    // A handler that does not await its emits is canceled through its signal.
    emitted.catch(() => undefined);
    return emitted;
  }

  async #emitChunk(chunk: unknown): Promise<boolean> {
    this.throwIfCanceled();
    const payload = this.#encode('chunk', chunk) ?? 'null';
    return this.#ended ? false : this.#run.emit(payload);
  }

  #encode(part: string, value: unknown): Payload | null {
    const kind = this.#item.kind === 'activity' ? 'activity' : 'task';
    const what = `The ${part} of ${kind} ${JSON.stringify(this.#item.name)}`;
    return encodePayload(value, what, this.#options.payloadLimitBytes);
  }

  takeHeartbeat(): { readonly heartbeat?: Payload | null } {
    const heartbeat = this.#heartbeat;
    this.#heartbeat = {};
    return heartbeat;
  }

  /** Restores a heartbeat whose renewal failed, unless the handler has reported a newer one. */
  putBackHeartbeat(heartbeat: { readonly heartbeat?: Payload | null }): void {
    if (this.#heartbeat.heartbeat === undefined) this.#heartbeat = heartbeat;
  }

  abort(reason: CanceledError): void {
    this.#reason ??= reason;
    this.#controller?.abort(reason);
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  end(): void {
    this.#ended = true;
  }
}

/** The `ctx` of a task handler. */
export class RunningTaskContext extends RunningActivityContext implements TaskContext {
  readonly #run: RunOperations;

  constructor(run: RunOperations, params: RunningContextParams) {
    super(run, params);
    this.#run = run;
  }

  get runId(): string {
    return this.instanceId;
  }

  get taskName(): string {
    return taskNameOf(this.activityName, this.#run.item.kind);
  }

  async cancel(reason?: string): Promise<void> {
    if (this.hasEnded) {
      throw new PerdureError(
        'OUTSIDE_HANDLER',
        `The handler of task ${JSON.stringify(this.taskName)} has ended and can no longer cancel its run. Use client.cancel(${JSON.stringify(this.runId)}).`,
      );
    }
    if (this.#run.item.kind === 'activity') {
      throw new PerdureError(
        'OUTSIDE_HANDLER',
        `Task ${JSON.stringify(this.taskName)} is called by an orchestration and has no run of its own to cancel. Throw an error instead.`,
      );
    }
    await this.#run.cancelRun(reason);
  }
}

/** Whether an error only reports that the handler was canceled. */
export function isCancellation(error: unknown, reason: CanceledError): boolean {
  if (error === reason || isPerdureError(error, 'OPERATION_CANCELED')) return true;
  return error instanceof Error && (error.name === 'AbortError' || error.cause === reason);
}
