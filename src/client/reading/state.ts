import { invalidOption, readFields } from '../../model/option-fields.ts';
import { toMs, type Duration } from '../../model/values/duration.ts';
import { checkStateKey } from '../../model/values/state.ts';
import type { StateRequest } from '../../providers/contract/state.ts';

/** The value of one key of the state of an instance. */
export interface StateEntry<Value = unknown> {
  readonly key: string;
  readonly value: Value;
  /** Increases with every change of the instance's state. A key that was set again has a greater one. */
  readonly version: number;
}

/** The custom status of an instance with its version. */
export interface CustomStatus<Value = unknown> {
  /** The last value that the code passed to `setCustomStatus`. */
  readonly value: Value;
  /** Increases each time the status is set. */
  readonly version: number;
}

/** Options of `waitForState` and `waitForStatus`. */
export interface StateWaitOptions {
  /** Resolve with a version above this one. Default: 0, any version. */
  readonly after?: number | undefined;
  /** Reject with `TIMEOUT` after this time. Default: no timeout. */
  readonly timeout?: Duration | undefined;
}

/** A value with its version. */
export interface Versioned {
  readonly value: unknown;
  readonly version: number;
}

/** The part of a client's backend that reads the state and the custom status of instances. */
export interface StateBackend {
  /** Reads one key, or all keys in their order. Rejects with `INSTANCE_NOT_FOUND`. */
  read(id: string, key: string | undefined): Promise<readonly StateEntry[]>;
  /**
   * Resolves with the first version above `after`. Rejects with `INSTANCE_OVER` if the instance has ended without one,
   * with `INSTANCE_NOT_FOUND` or with `TIMEOUT`.
   */
  wait(request: StateRequest, timeoutMs: number | undefined): Promise<Versioned>;
}

/** Reads the options of a wait. Throws `INVALID_OPTION`, `INVALID_DURATION` or `INVALID_NAME`. */
export function readStateWait(
  wanted: { readonly instanceId: string; readonly key?: unknown },
  options: StateWaitOptions | undefined,
  where: 'waitForState()' | 'waitForStatus()',
): { readonly request: StateRequest; readonly timeoutMs: number | undefined } {
  const { instanceId } = wanted;
  const given = readFields(options, where, ['after', 'timeout'] as const);
  const { after = 0, timeout } = given as StateWaitOptions;
  if (!Number.isSafeInteger(after) || after < 0) {
    throw invalidOption(
      'after',
      after,
      'the version of an earlier result, an integer of 0 or more',
    );
  }
  return {
    request:
      where === 'waitForStatus()'
        ? { instanceId, what: 'status', after }
        : { instanceId, what: 'state', key: checkStateKey(wanted.key), after },
    timeoutMs: timeout === undefined ? undefined : toMs(timeout, 'timeout'),
  };
}
