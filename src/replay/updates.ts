import { AsyncLocalStorage } from 'node:async_hooks';
import type { CommandEvent, UpdateAccepted } from '../model/event.ts';
import { isPerdureError, PerdureError, type ErrorCode } from '../model/failures/errors.ts';
import { platformFailure, toFailure, type Failure } from '../model/failures/failure.ts';
import type { UpdateMessage } from '../model/message.ts';
import { decodePayload, encodePayload } from '../model/values/payload.ts';
import { runInScope, type Scope, type ScopedExecution } from './cancellation/scope.ts';

/** The code's handler of an update. */
export interface UpdateHandler {
  /** Converts the input. Throws if it is invalid. */
  readonly parse: (input: unknown) => unknown;
  /** Returns whether to accept the update, or why not. */
  readonly validate?: ((input: unknown) => unknown) | undefined;
  readonly handle: (input: unknown) => unknown;
}

/** The reply to an update that was not accepted. It leaves no event. */
export interface UpdateRejection {
  readonly key: string;
  readonly failure: Failure;
}

/** The execution of updates. */
export interface UpdateHost extends ScopedExecution {
  readonly instanceId: string;
  readonly payloadLimitBytes: number;
  readonly isCanceling: boolean;
  /** Whether the outcome of the code is decided. */
  readonly isDecided: boolean;
  /** Whether the code has continued as new, and the end waits for shields or `wait` operations. */
  readonly isContinuing: boolean;
  record(command: CommandEvent): void;
  /** Runs code in the root scope. */
  runInRoot(body: () => void): void;
  /** Whether code may act now. If not, records a stray await. */
  isInTurn(what: string): boolean;
  /** Keeps a `NondeterminismError` that the code threw. Returns whether the error is one. */
  keepDisagreement(error: unknown): boolean;
}

/** Whether an update is accepted. `unhandled`: the code has no handler for it yet. */
type Admission = 'accepted' | 'unhandled' | Failure;

const running = new AsyncLocalStorage<UpdateAccepted>();

/** The update handlers of the code, and those that run. */
export class Updates {
  readonly #host: UpdateHost;
  readonly #handlers = new Map<string, UpdateHandler>();
  /** The updates whose handlers have not ended. */
  readonly #running = new Set<UpdateAccepted>();
  /** The updates that arrived after a continue-as-new. */
  readonly #deferred: UpdateMessage[] = [];
  #whenIdle: (() => void)[] = [];

  constructor(host: UpdateHost) {
    this.#host = host;
  }

  /** Whether an update can resume the code. */
  get hasHandlers(): boolean {
    return this.#handlers.size > 0;
  }

  /** The replies to updates whose handlers an end of the execution interrupts. */
  interrupted(): readonly UpdateRejection[] {
    const why = 'The execution ended before the handler.';
    const failure = rejection('UPDATE_INTERRUPTED', why);
    return [...this.#running].map(({ key }) => ({ key, failure }));
  }

  /** The updates for the next execution, in order. They have no reply. */
  get deferred(): readonly UpdateMessage[] {
    return this.#deferred;
  }

  /** Whether an update of this name can be recorded now. */
  accepts(name: string): boolean {
    return this.#handlers.has(name) || this.#host.isContinuing;
  }

  register(name: string, handler: UpdateHandler): void {
    if (this.#handlers.has(name)) {
      throw new PerdureError(
        'ALREADY_REGISTERED',
        `Update ${JSON.stringify(name)} already has a handler in this execution. Call ctx.onUpdate() once for each update.`,
      );
    }
    this.#handlers.set(name, handler);
  }

  /** Resolves once no handler runs. Throws in a handler, which would wait for itself. */
  idle(): Promise<void> {
    assertOutsideHandler('ctx.updatesSettled()');
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle.push(resolve);
    });
  }

  /** Validates an update. Records nothing. After a continue-as-new, the next execution validates it. */
  admit({ name, payload }: UpdateMessage): Admission {
    const { isCanceling, isDecided, isContinuing } = this.#host;
    if (isContinuing && !isCanceling) return 'accepted';
    if (isCanceling || isDecided) {
      const why = isCanceling ? 'being canceled' : 'ending';
      return rejection('UPDATE_INTERRUPTED', `The instance is ${why} and accepts no updates.`);
    }
    const handler = this.#handlers.get(name);
    if (handler === undefined) return 'unhandled';
    const validation = new Validation(this.#host);
    const refused = runInScope(validation, () => findProblem(handler, decodePayload(payload)));
    return validation.violation ?? refused ?? 'accepted';
  }

  /** The reply to an update without a handler at the end of a turn. */
  toUnknown({ name }: UpdateMessage): Failure {
    const names = [...this.#handlers.keys()].map((known) => JSON.stringify(known));
    const known = names.length === 0 ? 'none' : names.join(', ');
    return rejection(
      'UNKNOWN_UPDATE',
      `The instance has no handler for update ${JSON.stringify(name)}. Registered: ${known}. Call ctx.onUpdate() before the first await.`,
    );
  }

  /** Starts the handler of an accepted update. After a continue-as-new, keeps the update for the next execution. */
  start(update: UpdateAccepted): void {
    if (this.#host.isContinuing) {
      const { key, name, payload } = update;
      this.#deferred.push({ kind: 'update', key, name, payload });
      return;
    }
    const handler = this.#handlers.get(update.name);
    if (handler === undefined) return;
    this.#running.add(update);
    this.#host.runInRoot(() => {
      void running.run(update, () => this.#run(update, handler));
    });
  }

  async #run(update: UpdateAccepted, handler: UpdateHandler): Promise<void> {
    const { key, name, payload } = update;
    try {
      const output = await handler.handle(handler.parse(decodePayload(payload)));
      const what = `The reply to update ${JSON.stringify(name)}`;
      const reply = encodePayload(output, what, this.#host.payloadLimitBytes);
      const at = this.#host.nowMs;
      this.#end(update, { kind: 'updateCompleted', at, key, payload: reply });
    } catch (error) {
      if (this.#host.keepDisagreement(error)) return;
      const failure = toFailure(error);
      this.#end(update, { kind: 'updateFailed', at: this.#host.nowMs, key, failure });
    }
  }

  #end(update: UpdateAccepted, reply: CommandEvent): void {
    // Also after the code has ended, in the same turn: a handler may resolve the promise that the code waits for.
    if (!this.#host.isInTurn('an update handler ended')) return;
    this.#running.delete(update);
    this.#host.record(reply);
    if (this.#running.size > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }
}

/** Throws if the calling code is an update handler, whose caller would get no reply. */
export function assertOutsideHandler(what: string): void {
  const update = running.getStore();
  if (update === undefined) return;
  throw new PerdureError(
    'FORBIDDEN_IN_ORCHESTRATION',
    `${what} cannot be called in the handler of update ${JSON.stringify(update.name)}: its caller would get no reply. Set a variable in the handler, and call it in the orchestration.`,
  );
}

/** Whether the calling code validates an update of this execution. */
export function isValidationOf(host: UpdateHost, scope: Scope | undefined): boolean {
  return scope instanceof Validation && scope.host === host;
}

/** Throws if the calling code validates an update. */
export function assertOutsideValidation(scope: Scope | undefined, what: string): void {
  if (scope instanceof Validation) throw scope.refuse(what);
}

function findProblem({ parse, validate }: UpdateHandler, input: unknown): Failure | undefined {
  let parsed: unknown;
  try {
    parsed = parse(input);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return rejection(isPerdureError(error) ? error.code : 'INVALID_INPUT', message);
  }
  if (validate === undefined) return undefined;
  let verdict: unknown;
  try {
    verdict = validate(parsed);
  } catch (error) {
    return { ...toFailure(error), code: 'UPDATE_REJECTED' };
  }
  if (verdict === undefined || verdict === true) return undefined;
  if (verdict === false) return rejection('UPDATE_REJECTED', 'The validation returned false.');
  if (typeof verdict === 'string') return rejection('UPDATE_REJECTED', verdict);
  // The result is not used, so ignore a rejection.
  if (verdict instanceof Promise) void verdict.then(undefined, () => undefined);
  const what = verdict instanceof Promise ? 'a promise' : `a value of type ${typeof verdict}`;
  return rejection(
    'FORBIDDEN_IN_VALIDATION',
    `\`validate\` must return a boolean, a text or undefined: it returned ${what}. Do asynchronous work in \`handle\`.`,
  );
}

function rejection(code: ErrorCode, message: string): Failure {
  return platformFailure(code, message);
}

/** The scope of `validate`: it may read, but not act. A replay does not repeat it. */
class Validation implements Scope, ScopedExecution {
  readonly execution = this;
  readonly host: UpdateHost;
  readonly nowMs: number;
  readonly startedAtMs: number;
  readonly hasDeterministicGlobals: boolean;
  readonly instanceId: string;
  /** The first violation, even if the code caught its error. */
  violation: Failure | undefined;

  constructor(host: UpdateHost) {
    this.host = host;
    this.nowMs = host.nowMs;
    this.startedAtMs = host.startedAtMs;
    this.hasDeterministicGlobals = host.hasDeterministicGlobals;
    this.instanceId = host.instanceId;
  }

  refuse(what: string): PerdureError {
    const message = `\`validate\` must not change anything: it used ${what}. A rejected update leaves no event, so a replay would differ. Do it in \`handle\`.`;
    this.violation ??= rejection('FORBIDDEN_IN_VALIDATION', message);
    return new PerdureError('FORBIDDEN_IN_VALIDATION', message);
  }

  random(): number {
    throw this.refuse('a random number');
  }

  uuid(): string {
    throw this.refuse('a random number');
  }

  // The validation is not part of the replayed code, so its promises cannot fail the instance.
  rejectionUnhandled(): void {}
  rejectionHandled(): void {}
}
