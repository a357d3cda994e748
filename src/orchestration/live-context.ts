import type { ActivityRef, EventToken, OrchestrationRef } from '../model/definition.ts';
import { toMs, type Duration } from '../model/duration.ts';
import { PerdureError } from '../model/errors.ts';
import type { ActivityOptions } from '../model/activity-options.ts';
import type { ExecutionStarted } from '../model/event.ts';
import type { Logger } from '../model/logger.ts';
import { checkInstanceId, checkName } from '../model/names.ts';
import { encodePayload, type Payload } from '../model/payload.ts';
import { resolveRetryPolicy } from '../model/retry-policy.ts';
import type { DurablePromise } from '../replay/durable-promise.ts';
import type { Execution } from '../replay/execution.ts';
import type { ActivityDefinition, CallOptions } from './activity.ts';
import { firstOf, group, withDeadline } from './combinators.ts';
import { contextLogger } from './context-logger.ts';
import { checkOptions } from './definition-checks.ts';
import type {
  ChildOptions,
  DetachedOptions,
  OrchestrationContext,
  WaitOptions,
} from './orchestration-context.ts';

/** The context of a running execution: checks and encodes what authors pass, and hands it to the engine. */
export class LiveContext implements OrchestrationContext {
  readonly #execution: Execution;
  readonly #started: ExecutionStarted;
  readonly #sink: Logger;
  #log: Logger | undefined;

  constructor(options: {
    readonly execution: Execution;
    readonly started: ExecutionStarted;
    readonly log: Logger;
  }) {
    this.#execution = options.execution;
    this.#started = options.started;
    this.#sink = options.log;
  }

  get instanceId(): string {
    return this.#execution.instanceId;
  }

  get executionId(): number {
    return this.#execution.executionId;
  }

  get name(): string {
    return this.#started.name;
  }

  get version(): string {
    return this.#started.version;
  }

  get isReplaying(): boolean {
    return this.#execution.isReplaying;
  }

  get log(): Logger {
    const { instanceId, executionId, name } = this;
    this.#log ??= contextLogger({
      sink: this.#sink,
      fields: { instanceId, executionId, orchestration: name },
      isSilent: () => this.isReplaying,
    });
    return this.#log;
  }

  call<Out>(
    activity: ActivityRef<unknown, Out> | string,
    input?: unknown,
    options?: CallOptions,
  ): DurablePromise<Out> {
    const name = nameOf(activity, 'activity');
    if (options !== undefined)
      checkOptions('call', options, ['retry', 'attemptTimeout', 'timeout']);
    const chosen = chooseCallOptions(activity, options);
    const payload = this.#encode(input, `The input of activity '${name}'`);
    const { commands } = this.#execution;
    const promise = commands.callActivity({ name, payload, options: chosen?.activity });
    const operation = promise as DurablePromise<Out>;
    if (chosen?.timeoutMs === undefined) return operation;
    return withDeadline({
      operation,
      timer: commands.startTimer(this.now() + chosen.timeoutMs),
      message: `Activity '${name}' did not finish within ${chosen.timeoutMs} ms, its timeout.`,
    });
  }

  sleep(duration: Duration): DurablePromise<void> {
    const ms = toMs(duration, 'sleep');
    return this.#execution.commands.startTimer(this.now() + ms);
  }

  sleepUntil(moment: Date | number): DurablePromise<void> {
    const fireAt = Math.ceil(Number(moment));
    if (!Number.isSafeInteger(fireAt) || fireAt < 0) {
      throw new PerdureError(
        'INVALID_DURATION',
        `sleepUntil was given ${String(moment)}. Pass a valid Date, or milliseconds since the epoch.`,
      );
    }
    return this.#execution.commands.startTimer(fireAt);
  }

  waitFor<Value>(
    event: EventToken<Value> | string,
    options: WaitOptions = {},
  ): DurablePromise<Value> {
    const name = nameOf(event, 'event');
    checkOptions('waitFor', options, ['timeout']);
    const { timeout } = options;
    const timeoutMs = timeout === undefined ? undefined : toMs(timeout, 'timeout');
    const { commands } = this.#execution;
    const operation = commands.awaitEvent(name) as DurablePromise<Value>;
    if (timeoutMs === undefined) return operation;
    return withDeadline({
      operation,
      timer: commands.startTimer(this.now() + timeoutMs),
      message: `Event '${name}' did not arrive within ${timeoutMs} ms, the timeout of the wait.`,
    });
  }

  child<Out>(
    orchestration: OrchestrationRef<unknown, Out> | string,
    input?: unknown,
    options: ChildOptions = {},
  ): DurablePromise<Out> {
    checkOptions('child', options, ['id', 'version']);
    const start = this.#toStart(orchestration, input, options.version);
    const id = options.id === undefined ? undefined : checkInstanceId(options.id);
    return this.#execution.commands.startChild({ ...start, id }) as DurablePromise<Out>;
  }

  // Not async: the command takes its place in history when the method is called.
  startDetached(
    orchestration: OrchestrationRef | string,
    input: unknown,
    options: DetachedOptions,
  ): Promise<string> {
    checkOptions('startDetached', options, ['id', 'version']);
    const start = this.#toStart(orchestration, input, options.version);
    const id = checkInstanceId(options.id);
    this.#execution.commands.startDetached({ ...start, id });
    return Promise.resolve(id);
  }

  all<const T extends readonly unknown[]>(
    promises: T,
  ): DurablePromise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
    return group(promises, Promise.all(promises));
  }

  allSettled<const T extends readonly unknown[]>(
    promises: T,
  ): DurablePromise<{ -readonly [K in keyof T]: PromiseSettledResult<Awaited<T[K]>> }> {
    return group(promises, Promise.allSettled(promises));
  }

  any<const T extends readonly unknown[]>(promises: T): DurablePromise<Awaited<T[number]>> {
    return group(promises, Promise.any(promises));
  }

  race<const T extends readonly unknown[]>(promises: T): DurablePromise<Awaited<T[number]>> {
    return firstOf(promises, (_, value) => value as Awaited<T[number]>);
  }

  select(promises: readonly unknown[] | Readonly<Record<string, unknown>>): DurablePromise<never> {
    if (Array.isArray(promises)) {
      return firstOf(promises, (index, value) => ({ index, value }) as never);
    }
    const keys = Object.keys(promises);
    return firstOf(
      Object.values(promises),
      (index, value) => ({ key: keys[index], value }) as never,
    );
  }

  continueAsNew(
    input?: unknown,
    options: { readonly version?: string | undefined } = {},
  ): Promise<never> {
    checkOptions('continueAsNew', options, ['version']);
    this.#execution.continueAsNew({
      payload: this.#encode(input, `The input of the next execution of '${this.name}'`),
      version: checkName(options.version ?? this.version, 'Orchestration version'),
    });
    return new Promise(() => undefined);
  }

  setCustomStatus(value: unknown): void {
    const payload = this.#encode(value, `The custom status of '${this.name}'`);
    this.#execution.commands.setCustomStatus(payload);
  }

  now(): number {
    return this.#execution.nowMs;
  }

  random(): number {
    return this.#execution.random();
  }

  uuid(): string {
    return this.#execution.uuid();
  }

  #encode(value: unknown, what: string): Payload | null {
    return encodePayload(value, what, this.#execution.payloadLimitBytes);
  }

  #toStart(
    orchestration: OrchestrationRef | string,
    input: unknown,
    chosenVersion: string | undefined,
  ): { name: string; version: string | null; payload: Payload | null } {
    const name = nameOf(orchestration, 'orchestration');
    const ownVersion = typeof orchestration === 'string' ? null : orchestration.version;
    return {
      name,
      version: chosenVersion === undefined ? ownVersion : checkName(chosenVersion, 'Version'),
      payload: this.#encode(input, `The input of orchestration '${name}'`),
    };
  }
}

function nameOf(
  reference: { readonly kind: string; readonly name: string } | string,
  kind: string,
): string {
  if (typeof reference === 'string') return checkName(reference, `The name of the ${kind}`);
  if ((reference as { kind?: unknown } | undefined)?.kind === kind) return reference.name;
  throw new PerdureError(
    'INVALID_INPUT',
    `Expected the definition or the name of an ${kind}, not ${typeof reference}.`,
  );
}

function chooseCallOptions(
  activity: ActivityRef | string,
  options: CallOptions | undefined,
): { activity: ActivityOptions | undefined; timeoutMs: number | undefined } | undefined {
  const defaults =
    typeof activity === 'string' ? undefined : (activity as Partial<ActivityDefinition>).defaults;
  if (options === undefined && defaults === undefined) return undefined;
  const retry = options?.retry ?? defaults?.retry;
  const attemptTimeout = options?.attemptTimeout ?? defaults?.attemptTimeout;
  const timeout = options?.timeout ?? defaults?.timeout;
  const hasOptions = retry !== undefined || attemptTimeout !== undefined;
  return {
    activity: hasOptions
      ? {
          ...(retry !== undefined && { retry: resolveRetryPolicy(retry) }),
          ...(attemptTimeout !== undefined && {
            attemptTimeoutMs: toMs(attemptTimeout, 'attemptTimeout'),
          }),
        }
      : undefined,
    timeoutMs: timeout === undefined ? undefined : toMs(timeout, 'timeout'),
  };
}
