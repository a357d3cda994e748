import {
  PerdureError,
  type ActivityClient,
  type ActivityContext,
  type AttemptContext,
  type CancelInfo,
  type Logger,
} from '../../index.ts';

/** What the handler of a step is given besides its inputs. */
export interface StepContext<Early = never> extends AttemptContext {
  /** The id of the run. */
  readonly runId: string;
  readonly flow: string;
  readonly step: string;
  /** The place of the item, in the handler of a map or generator. */
  readonly index?: number;
  /** Asks for leave to go past the point from which the work cannot be undone; for steps with `cancellation: 'wait'`. */
  pointOfNoReturn(): Promise<void>;
  readonly client: ActivityClient;
  /** Cancels the run that this step belongs to. Once it resolves nothing of the run starts any more. */
  cancel(reason?: string): Promise<void>;
  /**
   * Completes the whole flow with this output; other steps are canceled. Declare its type with `completesEarly`.
   * It throws, so that nothing after it runs.
   */
  completeEarly(output: Early, reason: string): never;
}

/** What a handler decided for the whole flow. */
export interface EarlyCompletion {
  readonly output: unknown;
  readonly reason: string;
}

/** Unwinds the handler that called `completeEarly`. */
class CompletedEarly extends Error {}

/** The context of a step, over that of the activity which runs it. */
export class LiveStepContext implements StepContext<unknown> {
  readonly flow: string;
  readonly step: string;
  readonly index?: number;
  readonly #activity: ActivityContext;
  #early: EarlyCompletion | undefined;
  #isOver = false;

  constructor(
    activity: ActivityContext,
    place: { readonly flow: string; readonly step: string; readonly index?: number | undefined },
  ) {
    this.#activity = activity;
    this.flow = place.flow;
    this.step = place.step;
    if (place.index !== undefined) this.index = place.index;
  }

  /** Set once the handler has completed the flow, also if it caught what `completeEarly` throws. */
  get early(): EarlyCompletion | undefined {
    return this.#early;
  }

  get runId(): string {
    return this.#activity.instanceId;
  }

  get attempt(): number {
    return this.#activity.attempt;
  }

  get idempotencyKey(): string {
    return this.#activity.idempotencyKey;
  }

  get signal(): AbortSignal {
    return this.#activity.signal;
  }

  get isCanceled(): boolean {
    return this.#activity.isCanceled;
  }

  get lastHeartbeat(): unknown {
    return this.#activity.lastHeartbeat;
  }

  get client(): ActivityClient {
    return this.#activity.client;
  }

  get log(): Logger {
    return this.#activity.log;
  }

  throwIfCanceled(): void {
    this.#activity.throwIfCanceled();
  }

  canceled(): Promise<CancelInfo> {
    return this.#activity.canceled();
  }

  pointOfNoReturn(): Promise<void> {
    return this.#activity.pointOfNoReturn();
  }

  heartbeat(details?: unknown): void {
    this.#activity.heartbeat(details);
  }

  emit(chunk: unknown): Promise<boolean> {
    return this.#activity.emit(chunk);
  }

  /** The handler has settled: whoever keeps the context can no longer speak for the step. */
  end(): void {
    this.#isOver = true;
  }

  async cancel(reason?: string): Promise<void> {
    if (this.#isOver) {
      throw new PerdureError(
        'CLOSED',
        `Step '${this.step}' is over, so it cannot cancel its run any more. Use client.cancel('${this.runId}').`,
      );
    }
    await this.client.cancel(this.runId, reason === undefined ? {} : { reason });
  }

  completeEarly(output: unknown, reason: string): never {
    this.#early ??= { output, reason };
    throw new CompletedEarly(`Step '${this.step}' completed the flow: ${reason}`);
  }
}
