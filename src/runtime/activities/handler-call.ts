import type { AttemptSpan, Telemetry } from '../../model/telemetry.ts';
import {
  decodeTrace,
  isSampled,
  traceOfExecution,
  traceOfOptions,
  type TraceContext,
} from '../../model/trace-context.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { ResolvedOptions } from '../options.ts';
import { isDebugged, wasStopped } from '../watchdog/watchdog.ts';
import type { RunningActivityContext } from './running-context.ts';

/** Begins the span of the attempt of an item. */
export function beginAttempt(telemetry: Telemetry, item: WorkItem, worker: string): AttemptSpan {
  const { kind, name, instanceId, executionId, operation, orchestration } = item;
  const { failures, claims, nowMs, dueAt } = item;
  const trace = item.trace ?? traceOfClaim(item);
  if (telemetry.unsampled !== undefined && trace !== undefined && !isSampled(trace))
    return telemetry.unsampled(trace);
  return telemetry.attempt({
    kind,
    name,
    instanceId,
    executionId,
    operation,
    orchestration,
    attempt: failures + 1,
    isRetry: failures > 0 || claims > 1,
    waitedMs: Math.max(0, nowMs - dueAt),
    worker,
    trace,
  });
}

/** Returns the trace context of a fetched item: an activity has that of its instance. */
function traceOfClaim({ headers, executionId, options }: WorkItem): TraceContext | undefined {
  return headers === undefined
    ? traceOfOptions(options)
    : traceOfExecution(decodeTrace(headers), executionId);
}

/** Whether there is no middleware around the attempt of an item. */
export function hasNoMiddleware({ middleware }: ResolvedOptions, { kind }: WorkItem): boolean {
  return middleware.isEmpty(kind === 'activity' ? 'activity' : 'task');
}

/** Calls the handler of an attempt inside the middleware of its kind. */
export function callInMiddleware(
  { middleware }: ResolvedOptions,
  attempt: {
    readonly item: WorkItem;
    readonly context: RunningActivityContext;
    readonly input: unknown;
  },
  call: () => unknown,
): unknown {
  const { item, context, input } = attempt;
  const { kind, name, instanceId, orchestration, failures } = item;
  const { headers, signal } = context;
  const shared = { name, instanceId, attempt: failures + 1, input, headers, signal };
  const inner = (): unknown => {
    // The middleware may have waited.
    context.throwIfCanceled();
    return call();
  };
  return kind === 'activity'
    ? middleware.run('activity', { kind, orchestration, ...shared }, inner)
    : middleware.run('task', { kind, ...shared }, inner);
}

/** Whether a handler blocked the event loop past its lease. A breakpoint or a suspended process is not its fault. */
export function hasBlocked(
  { activityLeaseMs }: ResolvedOptions,
  ms: number,
  watchdogAt: number | undefined,
): boolean {
  return ms >= activityLeaseMs && !isDebugged() && !wasStopped(watchdogAt, activityLeaseMs);
}
