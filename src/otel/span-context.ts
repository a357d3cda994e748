import {
  createTraceState,
  ROOT_CONTEXT,
  trace as traceApi,
  TraceFlags,
  type Context,
  type Link,
  type SpanContext,
} from '@opentelemetry/api';
import { createTrace, isSampled, traceIdsOf, type TraceContext } from '../model/trace-context.ts';

/** How spans of later work relate to the span of the start. */
export type Relation = 'link' | 'parent';

// Later work links to its cause: a trace does not grow for days.
const parentForMs = 60_000;

/** Formats the context of a span for the store. `undefined` without an SDK, and for ids that W3C does not allow. */
export function toTraceContext(context: SpanContext, at: number): TraceContext | undefined {
  return createTrace(context, at, context.traceState?.serialize());
}

/** Returns the span context of a stored trace context. */
export function toSpanContext(trace: TraceContext): SpanContext {
  const { traceId, spanId } = traceIdsOf(trace);
  const traceFlags = isSampled(trace) ? TraceFlags.SAMPLED : TraceFlags.NONE;
  const context = { traceId, spanId, traceFlags, isRemote: true };
  return trace.tracestate === undefined
    ? context
    : { ...context, traceState: createTraceState(trace.tracestate) };
}

/** Whether a caller was not sampled. */
export function isUnsampled(cause: TraceContext | undefined): boolean {
  return cause !== undefined && !isSampled(cause);
}

/** Where a span belongs: below a parent, or as the root of a trace with links. */
export interface Placement {
  readonly parent: Context;
  readonly links: Link[];
}

/** Places a span by the context of its cause, which was sampled. */
export function place(
  cause: TraceContext | undefined,
  {
    relation,
    isLater,
    nowMs,
  }: {
    readonly relation: Relation | undefined;
    /** Whether it is a retry, or of a later execution. */
    readonly isLater: boolean;
    readonly nowMs: number;
  },
): Placement {
  if (cause === undefined) return { parent: ROOT_CONTEXT, links: [] };
  const context = toSpanContext(cause);
  const isOld = isLater || cause.link === true || nowMs - cause.at > parentForMs;
  return (relation ?? (isOld ? 'link' : 'parent')) === 'parent'
    ? { parent: traceApi.setSpanContext(ROOT_CONTEXT, context), links: [] }
    : { parent: ROOT_CONTEXT, links: [{ context }] };
}
