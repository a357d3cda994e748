import type { StandardSchema } from '../model/definition.ts';
import type { Duration } from '../model/values/duration.ts';
import type { DurablePromise } from '../replay/durable-promise.ts';

/** The functions of `ctx.onUpdate`. */
export interface UpdateHandlers<Input, Output> {
  /**
   * Returns whether to accept the update: `true` or `undefined` accepts it; `false`, a text or an error rejects it, without
   * an event. It must be synchronous, and may only read: variables, `ctx.state` and `ctx.isCanceled`. A replay does not call it.
   */
  readonly validate?: ((input: Input) => boolean | string | undefined) | undefined;
  /**
   * Handles an accepted update and returns the reply. It is code of the orchestration: it may change its variables and
   * await durable operations, and a cancel of the instance reaches it.
   */
  readonly handle: (input: Input) => Output | Promise<Output>;
}

/** Options of `ctx.awakeable`. */
export interface AwakeableOptions<T = unknown> {
  /** Validates the answer. An invalid one rejects the promise with `INVALID_INPUT`. Must be synchronous. */
  readonly schema?: StandardSchema<unknown, T> | undefined;
  /** Rejects with code `TIMEOUT` after this time, and withdraws the token. */
  readonly timeout?: Duration | undefined;
}

/** A token and the promise of its answer. */
export interface Awakeable<T> {
  /** 192 random bits. A caller that has it can answer, so treat it as a secret. */
  readonly token: string;
  /**
   * Resolves with the value of `client.resolveAwakeable`. Rejects with `AWAKEABLE_REJECTED` after `rejectAwakeable`. A
   * cancel withdraws the token.
   */
  readonly promise: DurablePromise<T>;
}
