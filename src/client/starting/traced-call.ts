import { PerdureError } from '../../model/failures/errors.ts';
import type { MiddlewareChain } from '../../model/middleware.ts';
import type { CallSpan, Telemetry, TracedCall } from '../../model/telemetry.ts';
import { toTrace, type TraceContext } from '../../model/trace-context.ts';

/** The part of telemetry that clients use. */
export type CallTelemetry = Pick<Telemetry, 'call'>;

/** What surrounds the calls of a client. */
export interface CallPath {
  readonly telemetry: CallTelemetry | undefined;
  readonly middleware: MiddlewareChain | undefined;
}

/**
 * Sends a call inside the middleware and in a span. Without both, only sends it. Rejects with `INVALID_INPUT` if the middleware
 * returns without `next()`.
 */
export function traced<Result>(
  { telemetry, middleware }: CallPath,
  call: TracedCall,
  send: (trace: TraceContext | undefined) => Promise<Result>,
): Promise<Result> {
  const hasMiddleware = middleware !== undefined && !middleware.isEmpty('client');
  if (!hasMiddleware)
    return telemetry === undefined ? send(undefined) : sendInSpan(telemetry, call, send);
  return sendInside(middleware, call, () =>
    telemetry === undefined ? send(undefined) : sendInSpan(telemetry, call, send),
  );
}

async function sendInside<Result>(
  middleware: MiddlewareChain,
  call: TracedCall,
  send: () => Promise<Result>,
): Promise<Result> {
  const { kind, name, instanceId } = call;
  let sent: Promise<Result> | undefined;
  const result = await middleware.run('client', { kind, name, instanceId }, () => (sent = send()));
  if (sent === undefined) throw notSent(call);
  // An event has no result, and the reply to an update may be `undefined`. Every other result is an object.
  const isChanged = result !== undefined || kind === 'event' || kind === 'update';
  return isChanged ? (result as Result) : sent;
}

function notSent({ kind, name, instanceId }: TracedCall): PerdureError {
  const ofName = name === undefined ? '' : ` of ${JSON.stringify(name)}`;
  const ofInstance = instanceId === undefined ? '' : ` for instance ${JSON.stringify(instanceId)}`;
  return new PerdureError(
    'INVALID_INPUT',
    `The client middleware did not call next(), so the ${kind}${ofName}${ofInstance} was not sent. Call next(), or throw an error.`,
  );
}

/** Sends a job inside the middleware. Rejects if the middleware returns without `next()`: a job needs a run. */
export async function sendJob<Result>(
  middleware: MiddlewareChain | undefined,
  call: TracedCall,
  send: () => Promise<Result>,
): Promise<Result> {
  if (middleware === undefined || middleware.isEmpty('client')) return send();
  const { kind, name, instanceId } = call;
  let sent: Promise<Result> | undefined;
  await middleware.run('client', { kind, name, instanceId }, () => (sent = send()));
  if (sent !== undefined) return sent;
  throw new PerdureError(
    'INVALID_INPUT',
    `The client middleware did not call next(), so job ${JSON.stringify(instanceId)} was not submitted.`,
  );
}

function sendInSpan<Result>(
  telemetry: CallTelemetry,
  call: TracedCall,
  send: (trace: TraceContext | undefined) => Promise<Result>,
): Promise<Result> {
  const { trace, end } = beginCall(telemetry, call);
  const sent = send(trace);
  // Returns the same promise, so that the caller waits no longer for its result.
  if (end !== undefined) sent.then(() => end(), end);
  return sent;
}

/** Begins the span of a call. Telemetry that throws does not fail the call, and an invalid context is not sent. */
export function beginCall(telemetry: CallTelemetry, call: TracedCall): CallSpan {
  try {
    const span = telemetry.call(call);
    const trace = toTrace(span.trace);
    if (span.end === undefined) return { trace };
    const end = (error?: unknown): void => {
      try {
        span.end?.(error);
      } catch {
        // The call has settled: the caller gets its outcome.
      }
    };
    return { trace, end };
  } catch {
    return { trace: undefined };
  }
}

/** Passes on the context of a caller that has made the span itself. */
export function passOn(trace: TraceContext): CallTelemetry {
  return { call: () => ({ trace }) };
}
