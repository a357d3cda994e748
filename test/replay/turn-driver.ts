import assert from 'node:assert/strict';
import type { CancelTrigger } from '../../src/model/failures/errors.ts';
import type { HistoryEvent, TerminalEvent } from '../../src/model/event.ts';
import type { Failure } from '../../src/model/failures/failure.ts';
import { silentLogger, type Logger } from '../../src/model/logger.ts';
import type { Message, StartMessage } from '../../src/model/message.ts';
import { decodePayload, encodePayload } from '../../src/model/values/payload.ts';
import type { OrchestrationContext } from '../../src/orchestration/orchestration-context.ts';
import {
  orchestration,
  type OrchestrationDefinition,
} from '../../src/orchestration/orchestration.ts';
import { createProgram } from '../../src/orchestration/program.ts';
import { Execution, type TurnResult } from '../../src/replay/execution.ts';

interface Canceled {
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

export interface DriverOptions {
  readonly instanceId?: string;
  readonly incarnation?: string;
  readonly executionId?: number;
  readonly payloadLimitBytes?: number;
  readonly onBroken?: () => void;
  readonly log?: Logger;
  /** Whether to replay the whole history after every turn. Default: true. */
  readonly alwaysReplay?: boolean;
}

/** Runs one execution turn by turn, with messages from the test and its own time. */
export class TurnDriver {
  readonly history: HistoryEvent[] = [];
  readonly definition: OrchestrationDefinition;
  readonly execution: Execution;
  readonly #options: DriverOptions;
  nowMs = 1_000;

  constructor(definition: OrchestrationDefinition, options: DriverOptions = {}) {
    this.definition = definition;
    this.#options = options;
    this.execution = this.#createExecution(options);
  }

  get executionId(): number {
    return this.#options.executionId ?? 1;
  }

  /** Runs a turn with these messages and returns the events it recorded. */
  async turn(...messages: readonly Message[]): Promise<readonly HistoryEvent[]> {
    return (await this.turnResult(...messages)).events;
  }

  async turnResult(...messages: readonly Message[]): Promise<TurnResult> {
    const { version } = this.definition;
    const result = await this.execution.turn({ messages, nowMs: this.nowMs, version });
    assert.equal(result.firstEventId, this.history.length + 1);
    this.history.push(...result.events);
    assert.equal(this.execution.historyLength, this.history.length);
    this.nowMs += 10;
    if (this.#options.alwaysReplay !== false) await this.replayed();
    return result;
  }

  async start(input?: unknown, ...others: readonly Message[]): Promise<readonly HistoryEvent[]> {
    return this.turn(this.startMessage(input), ...others);
  }

  startMessage(input?: unknown): StartMessage {
    const { name } = this.definition;
    return { kind: 'start', name, version: null, payload: encodePayload(input, 'input') };
  }

  /** Returns a new execution that has replayed the history. */
  async replayed(history: readonly HistoryEvent[] = this.history): Promise<Execution> {
    const execution = this.#createExecution({ ...this.#options, onBroken: () => undefined });
    await execution.replay(history);
    execution.assertReplayed();
    return execution;
  }

  completed(operation: number, value?: unknown): Message {
    const { executionId } = this;
    const payload = encodePayload(value, 'result');
    return { kind: 'activityCompleted', executionId, operation, payload };
  }

  failed(operation: number, failure: Partial<Failure> = {}): Message {
    const { executionId } = this;
    return { kind: 'activityFailed', executionId, operation, failure: toFailure(failure) };
  }

  fired(operation: number): Message {
    return { kind: 'timerFired', executionId: this.executionId, operation };
  }

  raised(name: string, value?: unknown): Message {
    return { kind: 'eventRaised', name, payload: encodePayload(value, 'event') };
  }

  childCompleted(operation: number, value?: unknown): Message {
    const { executionId } = this;
    const payload = encodePayload(value, 'result');
    return { kind: 'childCompleted', executionId, operation, payload };
  }

  childFailed(operation: number, failure: Partial<Failure> = {}): Message {
    const { executionId } = this;
    return { kind: 'childFailed', executionId, operation, failure: toFailure(failure) };
  }

  detachedConfirmed(operation: number): Message {
    return { kind: 'detachedConfirmed', executionId: this.executionId, operation };
  }

  /** The start of a detached instance failed, for example because its id is taken. */
  detachedFailed(operation: number, failure: Partial<Failure> = {}): Message {
    const { executionId } = this;
    return { kind: 'detachedFailed', executionId, operation, failure: toFailure(failure) };
  }

  /** An activity was stopped, or never started. */
  canceled(operation: number, why: Partial<Canceled> = {}): Message {
    const { executionId } = this;
    const trigger = why.trigger ?? 'cancel';
    return {
      kind: 'activityCanceled',
      executionId,
      operation,
      trigger,
      reason: why.reason ?? 'stop',
    };
  }

  childCanceled(operation: number, reason = 'stop'): Message {
    return { kind: 'childCanceled', executionId: this.executionId, operation, reason };
  }

  /** A cancel of the instance. */
  cancel(reason = 'stop', actor: string | null = null): Message {
    return { kind: 'cancel', reason, actor };
  }

  cleanupExpired(reason = 'stop'): Message {
    return { kind: 'cleanupExpired', reason };
  }

  /** The terminal event, if the execution has ended. */
  get outcome(): TerminalEvent | undefined {
    return this.history.find(isTerminal);
  }

  /** The value that the orchestration returned. */
  get output(): unknown {
    const { outcome } = this;
    assert(outcome?.kind === 'executionCompleted', `Not completed: ${JSON.stringify(outcome)}`);
    return decodePayload(outcome.payload);
  }

  /** The failure of the orchestration. */
  get failure(): Failure {
    const { outcome } = this;
    assert(outcome?.kind === 'executionFailed', `Not failed: ${JSON.stringify(outcome)}`);
    return outcome.failure;
  }

  #createExecution(options: DriverOptions): Execution {
    return new Execution({
      instanceId: 'instance',
      incarnation: 'incarnation',
      executionId: 1,
      ...options,
      program: createProgram(this.definition, { log: options.log ?? silentLogger }),
    });
  }
}

/** Creates a driver for an orchestration with this handler. */
export function drive<Input = void>(
  handler: (context: OrchestrationContext<Input>, input: Input) => unknown,
  options?: DriverOptions,
): TurnDriver {
  return new TurnDriver(orchestration<Input>('subject', handler), options);
}

/** Returns the kinds of events in order. */
export function kindsOf(events: readonly HistoryEvent[]): readonly string[] {
  return events.map(({ kind }) => kind);
}

function isTerminal(event: HistoryEvent): event is TerminalEvent {
  return (
    event.kind.startsWith('execution') &&
    event.kind !== ('executionStarted' satisfies typeof event.kind)
  );
}

function toFailure(failure: Partial<Failure>): Failure {
  return { name: 'Error', message: 'it failed', ...failure };
}
