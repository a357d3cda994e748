import {
  PerdureError,
  type ActivityClient,
  type ActivityContext,
  type AttemptContext,
  type CancelInfo,
  type Logger,
} from '../../index.ts';
import { quote } from '../definition/flow-errors.ts';

/** The context of a step's handler. */
export interface StepContext<Early = never> extends AttemptContext {
  /** The id of the run. */
  readonly runId: string;
  readonly flow: string;
  readonly step: string;
  /** The index of the item, in the handler of a map or generator. */
  readonly index?: number;
  /** Resolves once cancels can no longer reach this handler. Only for steps with `cancellation: 'wait'`. */
  pointOfNoReturn(): Promise<void>;
  readonly client: ActivityClient;
  /**
   * Cancels the run of this step. Once it resolves, the run starts no more steps. Rejects with `OUTSIDE_HANDLER` after
   * the handler has ended.
   */
  cancel(reason?: string): Promise<void>;
  /**
   * Completes the whole flow with this output and cancels its other steps. Declare the type with `completesEarly`.
   * Always throws, so that the code after it does not run; `OUTSIDE_HANDLER` after the handler has ended.
   */
  completeEarly(output: Early, reason: string): never;
}

/** The arguments of `completeEarly`. */
export interface EarlyCompletion {
  readonly output: unknown;
  readonly reason: string;
}

/** Thrown by `completeEarly` to unwind its handler. */
class CompletedEarly extends Error {}

/** Implements a step's context on top of the context of its activity. */
export class LiveStepContext implements StepContext<unknown> {
  readonly flow: string;
  readonly step: string;
  readonly index?: number;
  readonly #activity: ActivityContext;
  #early: EarlyCompletion | undefined;
  #hasEnded = false;

  constructor(
    activity: ActivityContext,
    place: { readonly flow: string; readonly step: string; readonly index?: number | undefined },
  ) {
    this.#activity = activity;
    this.flow = place.flow;
    this.step = place.step;
    if (place.index !== undefined) this.index = place.index;
  }

  /** Set once the handler called `completeEarly`, even if it caught the error. */
  get early(): EarlyCompletion | undefined {
    return this.#early;
  }

  get runId(): string {
    return this.#activity.instanceId;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#activity.headers;
  }

  get session(): AttemptContext['session'] {
    return this.#activity.session;
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

  /** Call when the handler has settled. Later calls of `cancel` and `completeEarly` throw `OUTSIDE_HANDLER`. */
  end(): void {
    this.#hasEnded = true;
  }

  async cancel(reason?: string): Promise<void> {
    this.#assertRunning(
      `cannot cancel its run any more. Use client.cancel(${JSON.stringify(this.runId)})`,
    );
    await this.client.cancel(this.runId, reason === undefined ? {} : { reason });
  }

  completeEarly(output: unknown, reason: string): never {
    this.#assertRunning('cannot complete its flow any more. Call completeEarly() in the handler');
    this.#early ??= { output, reason };
    throw new CompletedEarly(`Step ${quote(this.step)} completed the flow: ${reason}`);
  }

  #assertRunning(consequence: string): void {
    if (!this.#hasEnded) return;
    throw new PerdureError(
      'OUTSIDE_HANDLER',
      `The handler of step ${JSON.stringify(this.step)} has ended, so it ${consequence}.`,
    );
  }
}
