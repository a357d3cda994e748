import type { DeleteOptions } from '../management/delete-instance.ts';
import type { EventToken } from '../model/definition.ts';
import { readFields } from '../model/option-fields.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { PauseOptions, PauseResult, ResumeOptions } from './managing/pause-request.ts';
import type { DeleteInstanceResult } from '../providers/contract/management.ts';
import type { RetryInfo } from '../management/rerun.ts';
import type { RetryOptions } from './managing/rerun-request.ts';
import type { CancelOptions, TerminateOptions } from './managing/stop-request.ts';
import type { InstanceInfo } from './reading/instance-info.ts';
import type { EventArguments, RaiseEventOptions } from './starting/start-request.ts';
import type { CustomStatus, StateEntry, StateWaitOptions } from './reading/state.ts';
import type { StreamEntry, StreamOptions } from './watching/stream-reader.ts';

/** Options of a wait for an instance. */
export interface WaitOptions {
  /** Reject with `TIMEOUT` after this time. Default: no timeout. */
  readonly timeout?: Duration | undefined;
}

/** Returns the timeout in milliseconds; `undefined` if there is none. */
export function readWaitOptions(
  options: WaitOptions | undefined,
  where: 'wait()' | 'result()',
): number | undefined {
  const { timeout } = readFields(options, where, ['timeout'] as const);
  return timeout === undefined ? undefined : toMs(timeout as Duration, 'timeout');
}

/** The calls that a handle makes on its client. */
export interface InstanceAccess {
  result(instanceId: string, options?: WaitOptions): Promise<unknown>;
  status(instanceId: string): Promise<InstanceInfo>;
  raise(
    instanceId: string,
    event: EventToken | string,
    payload: unknown,
    options: RaiseEventOptions | undefined,
  ): Promise<void>;
  state(
    instanceId: string,
    key: string | undefined,
  ): Promise<readonly StateEntry[] | StateEntry | undefined>;
  waitForState(id: string, key: string, options?: StateWaitOptions): Promise<StateEntry>;
  waitForStatus(id: string, options?: StateWaitOptions): Promise<CustomStatus>;
  cancel(instanceId: string, options?: CancelOptions): Promise<StopResult>;
  terminate(instanceId: string, options?: TerminateOptions): Promise<StopResult>;
  retry(instanceId: string, options: RetryOptions): Promise<RetryInfo>;
  pause(instanceId: string, options?: PauseOptions): Promise<PauseResult>;
  resume(instanceId: string, options?: ResumeOptions): Promise<PauseResult>;
  delete(instanceId: string, options?: DeleteOptions): Promise<DeleteInstanceResult>;
  stream(instanceId: string, options?: StreamOptions): AsyncGenerator<StreamEntry, void, undefined>;
}

/** A reference to one instance by its id. Several handles may refer to the same instance. */
export class Handle<Output = unknown> {
  readonly id: string;
  readonly #access: InstanceAccess;

  constructor(id: string, access: InstanceAccess) {
    this.id = id;
    this.#access = access;
  }

  /**
   * Waits until the instance has ended and returns its output. If it failed, rejects with a `FailedError`
   * (`INSTANCE_FAILED` or `POISON`); if it was canceled, with a `CanceledError`. Rejects with `TIMEOUT` if it has not
   * ended in time.
   */
  result(options?: WaitOptions): Promise<Output> {
    return this.#access.result(this.id, options) as Promise<Output>;
  }

  /** Reads the instance. Rejects with `INSTANCE_NOT_FOUND` for an unknown id. */
  status(): Promise<InstanceInfo<Output>> {
    return this.#access.status(this.id) as Promise<InstanceInfo<Output>>;
  }

  /** Reads the chunks that the run emits, until it has ended: see `Client.stream`. */
  stream<Chunk = unknown>(
    options?: StreamOptions,
  ): AsyncGenerator<StreamEntry<Chunk>, void, undefined> {
    const entries = this.#access.stream(this.id, options);
    return entries as AsyncGenerator<StreamEntry<Chunk>, void, undefined>;
  }

  /** Reads the state of the instance, or one key of it: see `Client.state`. */
  state(): Promise<readonly StateEntry[]>;
  state<Value = unknown>(key: string): Promise<StateEntry<Value> | undefined>;
  state(key?: string): Promise<readonly StateEntry[] | StateEntry | undefined> {
    return this.#access.state(this.id, key);
  }

  /** Waits for a value of a key with a version above `after`: see `Client.waitForState`. */
  waitForState<Value = unknown>(
    key: string,
    options?: StateWaitOptions,
  ): Promise<StateEntry<Value>> {
    return this.#access.waitForState(this.id, key, options) as Promise<StateEntry<Value>>;
  }

  /** Waits for a custom status with a version above `after`: see `Client.waitForStatus`. */
  waitForStatus<Value = unknown>(options?: StateWaitOptions): Promise<CustomStatus<Value>> {
    return this.#access.waitForStatus(this.id, options) as Promise<CustomStatus<Value>>;
  }

  /** Sends an external event to the instance: see `Client.raiseEvent`. */
  raiseEvent<Value>(
    event: EventToken<Value, unknown>,
    ...payload: EventArguments<Value>
  ): Promise<void>;
  raiseEvent(name: string, payload?: unknown, options?: RaiseEventOptions): Promise<void>;
  raiseEvent(
    event: EventToken | string,
    payload?: unknown,
    options?: RaiseEventOptions,
  ): Promise<void> {
    return this.#access.raise(this.id, event, payload, options);
  }

  /** Asks the instance to stop: see `Client.cancel`. */
  cancel(options?: CancelOptions): Promise<StopResult> {
    return this.#access.cancel(this.id, options);
  }

  /** Ends the instance immediately, without running its code: see `Client.terminate`. */
  terminate(options?: TerminateOptions): Promise<StopResult> {
    return this.#access.terminate(this.id, options);
  }

  /** Runs the ended instance again under the same id: see `Client.retry`. */
  retry(options: RetryOptions): Promise<RetryInfo> {
    return this.#access.retry(this.id, options);
  }

  /** Pauses the instance: see `Client.pause`. */
  pause(options?: PauseOptions): Promise<PauseResult> {
    return this.#access.pause(this.id, options);
  }

  /** Resumes the instance: see `Client.resume`. */
  resume(options?: ResumeOptions): Promise<PauseResult> {
    return this.#access.resume(this.id, options);
  }

  /** Deletes the instance with all its descendants: see `Client.deleteInstance`. */
  delete(options?: DeleteOptions): Promise<DeleteInstanceResult> {
    return this.#access.delete(this.id, options);
  }
}

/** A reference to an instance or task run that a call has started or found. */
export class StartedHandle<Output = unknown> extends Handle<Output> {
  /** Whether the call created it, also by `terminateExisting`; otherwise one with its id or key existed. */
  readonly created: boolean;

  constructor(id: string, created: boolean, access: InstanceAccess) {
    super(id, access);
    this.created = created;
  }
}
