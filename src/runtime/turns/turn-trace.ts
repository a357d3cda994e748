import { toEpochMs } from '../../model/epoch-time.ts';
import { decodeFailure } from '../../model/failures/failure.ts';
import type { Message } from '../../model/message.ts';
import type { Telemetry } from '../../model/telemetry.ts';
import {
  isSampled,
  toTrace,
  traceOfExecution,
  type TraceContext,
} from '../../model/trace-context.ts';
import type { Turn } from '../../providers/contract/turn.ts';
import type { WarmInstance } from './warm-instance.ts';

/** Whether telemetry ignores the turns and the end of an instance, because its caller was not sampled. */
export function dropsTurns(telemetry: Telemetry, { trace }: Pick<WarmInstance, 'trace'>): boolean {
  return telemetry.unsampled !== undefined && trace !== undefined && !isSampled(trace);
}

/** Reports a committed turn, and the end of its instance. Times are those of `platform.monotonic()`. */
export function traceTurn(
  telemetry: Telemetry,
  instance: WarmInstance,
  turn: Turn,
  commit: {
    readonly path: 'fast' | 'slow';
    readonly beganAt: number;
    readonly endedAt: number;
    readonly causes?: readonly TraceContext[] | undefined;
  },
): void {
  const { instanceId, executionId, name, version } = instance;
  const { outcome } = turn;
  const { status } = outcome;
  const trace = traceOfExecution(instance.trace, executionId);
  const endedAt = toEpochMs(commit.endedAt);
  const committed = {
    instanceId,
    executionId,
    orchestration: name,
    version,
    events: turn.events.length,
    path: commit.path,
    status,
    startedAt: endedAt - (commit.endedAt - commit.beganAt),
    endedAt,
    trace,
    causes: commit.causes ?? [],
  };
  const failure = status === 'failed' ? decodeFailure(outcome.failure).message : undefined;
  telemetry.turn(failure === undefined ? committed : { ...committed, failure });
  if (status === 'running' || status === 'continuedAsNew') return;
  const firstTurnAt = instance.execution.startedAt;
  // Unknown for an end without a replay, such as that of a poisoned instance.
  const calledAt = instance.trace?.at ?? 0;
  const executedAt = Number.isNaN(firstTurnAt) ? endedAt : firstTurnAt;
  const startedAt = Math.min(calledAt > 0 ? calledAt : executedAt, endedAt);
  const kind = 'orchestration' as const;
  const ended = { kind, instanceId, name, status, startedAt, endedAt, trace };
  telemetry.ended(failure === undefined ? ended : { ...ended, failure });
}

/** The contexts of the callers who raised these events and sent these updates. */
export function causesOf(messages: readonly Message[]): readonly TraceContext[] {
  return messages.flatMap((message) => {
    const isTraced = message.kind === 'eventRaised' || message.kind === 'update';
    const trace = isTraced ? toTrace(message.trace) : undefined;
    return trace === undefined ? [] : [trace];
  });
}
