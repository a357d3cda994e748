import type { DeleteOptions } from '../management/delete-instance.ts';
import type { EventToken } from '../model/definition.ts';
import { readFields } from '../model/option-fields.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { DeleteInstanceResult } from '../providers/contract/management.ts';
import type { CancelOptions, TerminateOptions } from './managing/stop-request.ts';
import type { InstanceInfo } from './reading/instance-info.ts';
import type { EventArguments } from './starting/start-request.ts';

/** How long to wait for an instance. */
export interface WaitOptions {
  /** How long to wait before giving up with `TIMEOUT`. Default: for ever. */
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

/** What a handle asks of its client. */
export interface InstanceAccess {
  result(instanceId: string, options?: WaitOptions): Promise<unknown>;
  status(instanceId: string): Promise<InstanceInfo>;
  raise(instanceId: string, event: EventToken | string, payload: unknown): Promise<void>;
  cancel(instanceId: string, options?: CancelOptions): Promise<StopResult>;
  terminate(instanceId: string, options?: TerminateOptions): Promise<StopResult>;
  delete(instanceId: string, options?: DeleteOptions): Promise<DeleteInstanceResult>;
}

/** One instance, as seen from a client. It holds nothing but the id: any number of handles may name one instance. */
export class Handle<Output = unknown> {
  readonly id: string;
  readonly #access: InstanceAccess;

  constructor(id: string, access: InstanceAccess) {
    this.id = id;
    this.#access = access;
  }

  /**
   * Waits until the instance is over and returns its output. Rejects with a `FailedError` (`INSTANCE_FAILED`, or `POISON`) when
   * it failed, a `CanceledError` when it was canceled, and with `TIMEOUT` when it is not over in time.
   */
  result(options?: WaitOptions): Promise<Output> {
    return this.#access.result(this.id, options) as Promise<Output>;
  }

  /** Reads what is known of the instance; rejects with `INSTANCE_NOT_FOUND` when there is none with this id. */
  status(): Promise<InstanceInfo<Output>> {
    return this.#access.status(this.id) as Promise<InstanceInfo<Output>>;
  }

  /** Sends an external event to the instance, where it waits until the code asks for it. */
  raiseEvent<Value>(
    event: EventToken<Value, unknown>,
    ...payload: EventArguments<Value>
  ): Promise<void>;
  raiseEvent(name: string, payload?: unknown): Promise<void>;
  raiseEvent(event: EventToken | string, payload?: unknown): Promise<void> {
    return this.#access.raise(this.id, event, payload);
  }

  /** Asks the instance to stop: see `Client.cancel`. */
  cancel(options?: CancelOptions): Promise<StopResult> {
    return this.#access.cancel(this.id, options);
  }

  /** Ends the instance at once, without running its code: see `Client.terminate`. */
  terminate(options?: TerminateOptions): Promise<StopResult> {
    return this.#access.terminate(this.id, options);
  }

  /** Deletes the instance with all its descendants: see `Client.deleteInstance`. */
  delete(options?: DeleteOptions): Promise<DeleteInstanceResult> {
    return this.#access.delete(this.id, options);
  }
}

/** One task run, as seen from a client. */
export class TaskHandle<Output = unknown> extends Handle<Output> {
  /** Whether this request created the run; otherwise one with its id or its dedupe key was there. */
  readonly created: boolean;

  constructor(id: string, created: boolean, access: InstanceAccess) {
    super(id, access);
    this.created = created;
  }
}
