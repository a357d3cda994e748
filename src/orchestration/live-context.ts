import { AsyncLocalStorage } from 'node:async_hooks';
import type {
  ActivityRef,
  EventToken,
  FlowRef,
  OrchestrationRef,
  TaskRef,
  UpdateToken,
} from '../model/definition.ts';
import type { ExecutionStarted } from '../model/event.ts';
import { PerdureError } from '../model/failures/errors.ts';
import type { Logger } from '../model/logger.ts';
import { traceIdsOf, type TraceContext } from '../model/trace-context.ts';
import { taskActivityName } from '../model/task-call.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { checkInstanceId, checkName } from '../model/values/names.ts';
import { encodePayload, type Payload } from '../model/values/payload.ts';
import {
  readStartSettings,
  startSettingNames,
  type CommonStartOptions,
  type StartSettings,
} from '../model/start-settings.ts';
import { mergeHeaders, noHeaders, visibleHeaders, type Headers } from '../model/values/headers.ts';
import { checkTagChanges, type TagChanges } from '../model/values/tags.ts';
import { validateEvent } from '../model/values/validate-input.ts';
import { runOutsideScope } from '../replay/cancellation/scope.ts';
import type { DurablePromise } from '../replay/durable-promise.ts';
import type { LiveCode } from '../replay/live-code.ts';
import {
  callOptionNames,
  checkCancellation,
  chooseCallOptions,
  type CallOptions,
  taskCallOptionNames,
  type ScheduleDefaults,
} from './call-options.ts';
import { firstOf, firstSuccessOf, group, withDeadline } from './combinators.ts';
import { checkOptions } from './definition-checks.ts';
import { toStartTarget } from './flow-input.ts';
import { readConflict, refuseTaskConflict } from './start-conflict.ts';
import {
  checkStep,
  checkTransaction,
  type StepContext,
  type StepOptions,
  type TransactionStepWork,
} from './steps.ts';
import { createAwakeable, registerUpdate } from './live-updates.ts';
import type { Awakeable, AwakeableOptions, UpdateHandlers } from './update-context.ts';
import { LiveState } from './state-context.ts';
import type {
  ChildOptions,
  DetachedOptions,
  OrchestrationContext,
  OrchestrationState,
  RaceOptions,
  ScopeOptions,
  ShieldOptions,
  TaskCallOptions,
  WaitOptions,
} from './orchestration-context.ts';

const startNames = ['id', 'version', 'event', 'onConflict', ...startSettingNames] as const;

/** Implements `ctx` for an execution: validates and encodes arguments, and issues commands to the replay engine. */
export class LiveContext implements OrchestrationContext {
  readonly #code: LiveCode;
  readonly #started: ExecutionStarted;
  readonly #sink: Logger;
  readonly #scheduleDefaults: (activity: string) => ScheduleDefaults | undefined;
  readonly #trace: TraceContext | undefined;
  #log: Logger | undefined;
  #state: OrchestrationState | undefined;

  constructor(options: {
    readonly code: LiveCode;
    readonly started: ExecutionStarted;
    readonly log: Logger;
    readonly trace?: TraceContext | undefined;
    /** Returns the defaults of an activity that is called by name. */
    readonly scheduleDefaults?: ((activity: string) => ScheduleDefaults | undefined) | undefined;
  }) {
    this.#code = options.code;
    this.#started = options.started;
    this.#sink = options.log;
    this.#trace = options.trace;
    this.#scheduleDefaults = options.scheduleDefaults ?? none;
  }

  get instanceId(): string {
    return this.#code.identity.instanceId;
  }

  get executionId(): number {
    return this.#code.identity.executionId;
  }

  get name(): string {
    return this.#started.name;
  }

  get version(): string {
    return this.#started.version;
  }

  get headers(): Headers {
    return visibleHeaders(this.#started.headers ?? noHeaders);
  }

  get isReplaying(): boolean {
    return this.#code.isReplaying;
  }

  get isCanceled(): boolean {
    return this.#code.canceled !== undefined;
  }

  throwIfCanceled(): void {
    const { canceled } = this.#code;
    if (canceled !== undefined) throw canceled;
  }

  get log(): Logger {
    const { instanceId, executionId } = this.#code;
    const { name } = this;
    const traceIds = this.#trace && traceIdsOf(this.#trace);
    this.#log ??= contextLogger({
      sink: this.#sink,
      fields: { instanceId, executionId, orchestration: name, ...traceIds },
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
    if (options !== undefined) checkOptions('ctx.call()', options, callOptionNames);
    const chosen = chooseCallOptions(activity, options, () => this.#byName(name));
    const payload = this.#encode(input, `The input of activity '${name}'`);
    const { commands } = this.#code;
    const promise = commands.callActivity({
      name,
      payload,
      options: chosen?.activity,
      cancellation: chosen?.cancellation,
    });
    const operation = promise as DurablePromise<Out>;
    if (chosen?.timeoutMs === undefined) return operation;
    return withDeadline({
      operation,
      timer: commands.startTimer(this.now() + chosen.timeoutMs),
      // The history may record this message, and replay compares it: do not change its text.
      message: `Activity '${name}' did not finish within ${chosen.timeoutMs} ms, its timeout.`,
    });
  }

  run<Out>(
    name: string,
    body: (step: StepContext) => Out | Promise<Out>,
    options?: StepOptions,
  ): DurablePromise<Out> {
    const step = checkStep(name, body, options);
    return this.#code.commands.runStep(step) as DurablePromise<Out>;
  }

  transaction<Out>(
    name: string,
    body: TransactionStepWork<Out>,
    options?: StepOptions,
  ): DurablePromise<Out> {
    const step = checkTransaction(name, body, options);
    return this.#code.commands.runStep(step) as DurablePromise<Out>;
  }

  sleep(duration: Duration): DurablePromise<void> {
    const ms = toMs(duration, 'sleep');
    return this.#code.commands.startTimer(this.now() + ms);
  }

  sleepUntil(moment: Date | number): DurablePromise<void> {
    const fireAt = Math.ceil(Number(moment));
    if (!Number.isSafeInteger(fireAt) || fireAt < 0) {
      throw new PerdureError(
        'INVALID_DURATION',
        `Invalid time ${String(moment)} in sleepUntil(): must be a valid Date, or milliseconds since the epoch.`,
      );
    }
    return this.#code.commands.startTimer(fireAt, true);
  }

  waitFor<Value, Parsed>(
    event: EventToken<Value, Parsed> | string,
    options: WaitOptions = {},
  ): DurablePromise<Parsed> {
    const name = nameOf(event, 'event');
    checkOptions('ctx.waitFor()', options, ['timeout']);
    const { timeout } = options;
    const timeoutMs = timeout === undefined ? undefined : toMs(timeout, 'timeout');
    const { commands } = this.#code;
    const operation = commands.awaitEvent(name, parserOf(event)) as DurablePromise<Parsed>;
    if (timeoutMs === undefined) return operation;
    return withDeadline({
      operation,
      timer: commands.startTimer(this.now() + timeoutMs),
      // The history may record this message, too.
      message: `Event '${name}' did not arrive within ${timeoutMs} ms, the timeout of the wait.`,
    });
  }

  runTask<Out>(
    task: TaskRef<unknown, Out> | string,
    input?: unknown,
    options: TaskCallOptions = {},
  ): DurablePromise<Out> {
    const name = nameOf(task, 'task');
    refuseTaskConflict(options);
    checkOptions('ctx.runTask()', options, taskCallOptionNames);
    const defaults = typeof task === 'string' ? undefined : task.runDefaults;
    const priority = options.priority ?? defaults?.priority;
    const activity = taskActivityName(name);
    return this.call(activity, input, { ...options, priority }) as DurablePromise<Out>;
  }

  onUpdate<In, Out, Parsed>(
    update: UpdateToken<In, Out, Parsed> | string,
    handlers: UpdateHandlers<Parsed, Out>,
  ): void {
    registerUpdate(this.#code, nameOf(update, 'update'), update, handlers);
  }

  updatesSettled(): Promise<void> {
    this.#code.enter('updatesSettled');
    return this.#code.updates.idle();
  }

  awakeable<T = unknown>(options: AwakeableOptions<T> = {}): Awakeable<T> {
    return createAwakeable(this.#code, options);
  }

  child<Out>(
    orchestration: OrchestrationRef<unknown, Out> | FlowRef<unknown, Out> | string,
    input?: unknown,
    options: ChildOptions = {},
  ): DurablePromise<Out> {
    checkOptions('ctx.child()', options, [...startNames, 'cancellation']);
    const conflict = readConflict('ctx.child()', options, this.#code.payloadLimitBytes);
    const start = { ...this.#toStart(orchestration, input, options), ...conflict };
    const id = options.id === undefined ? undefined : checkInstanceId(options.id);
    const cancellation = checkCancellation(options.cancellation);
    const { commands } = this.#code;
    const joins = start.event !== undefined || start.onConflict === 'useExisting';
    const own = joins ? commands.ownChild(id, start.name) : undefined;
    if (own === undefined) {
      return commands.startChild({ ...start, id, cancellation }) as DurablePromise<Out>;
    }
    const promise = own.promise as DurablePromise<Out>;
    if (start.event === undefined) return promise;
    const raised = commands.startDetached({ ...start, id: own.childId });
    return group(
      [raised, promise],
      raised.then(() => promise),
    );
  }

  // Not async: the operation must be issued synchronously, in call order.
  startDetached(
    orchestration: OrchestrationRef | FlowRef | string,
    input: unknown,
    options: DetachedOptions,
  ): Promise<string> {
    checkOptions('ctx.startDetached()', options, startNames);
    const conflict = readConflict('ctx.startDetached()', options, this.#code.payloadLimitBytes);
    const start = { ...this.#toStart(orchestration, input, options), ...conflict };
    return this.#code.commands.startDetached({ ...start, id: checkInstanceId(options.id) });
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

  any<const T extends readonly unknown[]>(
    promises: T,
    options: RaceOptions = {},
  ): DurablePromise<Awaited<T[number]>> {
    return firstSuccessOf({ ...toRace('any', promises, options), toValue: second<T> });
  }

  race<const T extends readonly unknown[]>(
    promises: T,
    options: RaceOptions = {},
  ): DurablePromise<Awaited<T[number]>> {
    return firstOf({ ...toRace('race', promises, options), toValue: second<T> });
  }

  select(
    promises: readonly unknown[] | Readonly<Record<string, unknown>>,
    options: RaceOptions = {},
  ): DurablePromise<never> {
    if (Array.isArray(promises)) {
      const toValue = (index: number, value: unknown) => ({ index, value }) as never;
      return firstOf({ ...toRace('select', promises, options), toValue, keyOf: (index) => index });
    }
    const keys = Object.keys(promises);
    const toValue = (index: number, value: unknown) => ({ key: keys[index], value }) as never;
    const race = toRace('select', Object.values(promises), options);
    return firstOf({ ...race, toValue, keyOf: (index) => keys[index] });
  }

  scope<T>(body: () => T | Promise<T>, options: ScopeOptions = {}): DurablePromise<T> {
    checkOptions('ctx.scope()', options, ['timeout', 'name']);
    const name = options.name === undefined ? undefined : checkName(options.name, 'Scope name');
    return this.#open('scope', body, { timeout: options.timeout, name });
  }

  shield<T>(body: () => T | Promise<T>, options: ShieldOptions = {}): DurablePromise<T> {
    checkOptions('ctx.shield()', options, ['timeout']);
    return this.#open('shield', body, options);
  }

  continueAsNew(
    input?: unknown,
    options: { readonly version?: string | undefined } = {},
  ): Promise<never> {
    checkOptions('ctx.continueAsNew()', options, ['version']);
    return this.#code.continueAsNew({
      payload: this.#encode(input, `The input of the next execution of '${this.name}'`),
      version: checkName(options.version ?? this.version, 'Orchestration version'),
    });
  }

  get state(): OrchestrationState {
    this.#state ??= new LiveState(this.#code, this.name);
    return this.#state;
  }

  setCustomStatus(value: unknown): void {
    const payload = this.#encode(value, `The custom status of '${this.name}'`);
    this.#code.commands.setCustomStatus(payload);
  }

  emit(chunk: unknown): void {
    const payload = this.#encode(chunk, `A chunk of '${this.name}'`);
    this.#code.commands.emit(payload ?? 'null');
  }

  setTags(tags: TagChanges): void {
    this.#code.commands.setTags(checkTagChanges(tags, 'ctx.setTags()'));
  }

  patched(id: string): boolean {
    return this.#code.patches.has(checkName(id, 'Patch id'));
  }

  deprecatePatch(id: string): void {
    this.#code.patches.has(checkName(id, 'Patch id'));
  }

  now(): number {
    return this.#code.nowMs;
  }

  random(): number {
    return this.#code.random();
  }

  uuid(): string {
    return this.#code.uuid();
  }

  /** Returns the recorded defaults during replay: the definition may be missing or changed in this worker. */
  #byName(name: string): ScheduleDefaults | undefined {
    const recorded = this.#code.recordedNext;
    if (recorded === undefined) return this.#scheduleDefaults(name);
    return recorded.kind === 'activityScheduled' ? recorded.options?.byName : undefined;
  }

  #open<T>(
    kind: 'scope' | 'shield',
    body: () => T | Promise<T>,
    { timeout, name }: ScopeOptions,
  ): DurablePromise<T> {
    if (typeof body !== 'function') {
      throw new PerdureError(
        'INVALID_INPUT',
        `The argument of ctx.${kind}() must be a function, such as ctx.${kind}(() => …): it is ${typeof body}.`,
      );
    }
    const timeoutMs = timeout === undefined ? undefined : toMs(timeout, 'timeout');
    return this.#code.scopes.open({ kind, body, timeoutMs, name });
  }

  #encode(value: unknown, what: string): Payload | null {
    return encodePayload(value, what, this.#code.payloadLimitBytes);
  }

  #toStart(
    definition: OrchestrationRef | FlowRef | string,
    given: unknown,
    options: CommonStartOptions & Pick<ChildOptions, 'version'>,
  ): {
    name: string;
    version: string | null;
    payload: Payload | null;
    settings: StartSettings;
  } {
    const { version: chosenVersion, priority } = options;
    const recorded = this.#code.recordedNext;
    const target = toStartTarget(definition, given, { priority, recorded });
    const { reference: orchestration, input } = target;
    const settings = readStartSettings(options);
    mergeHeaders(this.#started.headers, settings.headers); // Throws if they are too large together.
    const name = nameOf(orchestration, 'orchestration');
    const ownVersion = typeof orchestration === 'string' ? null : orchestration.version;
    return {
      name,
      version: chosenVersion === undefined ? ownVersion : checkName(chosenVersion, 'Version'),
      payload: this.#encode(input, `The input of orchestration '${name}'`),
      settings,
    };
  }
}

function none(): undefined {
  return undefined;
}

function nameOf(
  reference: { readonly kind: string; readonly name: string } | string,
  kind: string,
): string {
  if (typeof reference === 'string') return checkName(reference, `The name of the ${kind}`);
  if ((reference as { kind?: unknown } | undefined)?.kind === kind) return reference.name;
  throw new PerdureError(
    'INVALID_INPUT',
    `Invalid ${kind}: expected its definition or its name, not ${reference === null ? 'null' : typeof reference}.`,
  );
}

function toRace(
  method: string,
  members: readonly unknown[],
  options: RaceOptions,
): { members: readonly unknown[]; keepLosers: boolean | undefined } {
  checkOptions(`ctx.${method}()`, options, ['keepLosers']);
  return { members, keepLosers: options.keepLosers };
}

function second<T extends readonly unknown[]>(_: number, value: unknown): Awaited<T[number]> {
  return value as Awaited<T[number]>;
}

/** Returns a parser that validates payloads in the scope of the wait, where the globals are deterministic. */
function parserOf(event: EventToken | string): ((payload: unknown) => unknown) | undefined {
  if (typeof event === 'string' || event.schema === undefined) return undefined;
  const { name, schema } = event;
  return AsyncLocalStorage.bind((payload: unknown) => validateEvent(schema, payload, name));
}

/**
 * Creates the logger of an orchestration: silent during replay, with fields that identify the instance. The sink runs
 * outside the orchestration's scope, so it may use timers and I/O. An error of the sink becomes a process warning.
 */
function contextLogger(options: {
  readonly sink: Logger;
  readonly fields: object;
  readonly isSilent: () => boolean;
}): Logger {
  const { sink, fields, isSilent } = options;
  const write =
    (level: keyof Logger) =>
    (extra: object, message: string): void => {
      if (isSilent()) return;
      runOutsideScope(() => {
        try {
          sink[level]({ ...fields, ...extra }, message);
        } catch (error) {
          process.emitWarning(`A log sink failed: ${String(error)}`, { type: 'PerdureWarning' });
        }
      });
    };
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}
