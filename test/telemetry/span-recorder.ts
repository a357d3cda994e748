import { context, type HrTime } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
  type Sampler,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base';

/** A finished span, as one process sends it to another. */
export interface RecordedSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  /** `null` for the root of a trace. */
  readonly parentId: string | null;
  /** The ids of the linked spans. */
  readonly links: readonly string[];
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status: number;
  /** In milliseconds since the epoch. */
  readonly startTime: number;
  /** In milliseconds since the epoch. */
  readonly endTime: number;
}

/** The real SDK with an in-memory exporter, and a count of the spans that have not ended. */
export function recordSpans(sampler?: Sampler): {
  readonly provider: BasicTracerProvider;
  readonly finished: () => readonly RecordedSpan[];
  readonly open: () => number;
} {
  const exporter = new InMemorySpanExporter();
  let open = 0;
  const counter: SpanProcessor = {
    onStart: () => void (open += 1),
    onEnd: () => void (open -= 1),
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
  const provider = new BasicTracerProvider({
    spanProcessors: [counter, new SimpleSpanProcessor(exporter)],
    ...(sampler !== undefined && { sampler }),
  });
  return {
    provider,
    finished: () => exporter.getFinishedSpans().map(toRecorded),
    open: () => open,
  };
}

/** Makes active spans follow asynchronous calls. Returns a function that undoes it. */
export function useAsyncContext(): () => void {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  return () => context.disable();
}

function toRecorded(span: ReadableSpan): RecordedSpan {
  const { traceId, spanId } = span.spanContext();
  return {
    name: span.name,
    kind: span.kind,
    traceId,
    spanId,
    parentId: span.parentSpanContext?.spanId ?? null,
    links: span.links.map((link) => link.context.spanId),
    attributes: span.attributes,
    status: span.status.code,
    startTime: toMs(span.startTime),
    endTime: toMs(span.endTime),
  };
}

function toMs([seconds, nanoseconds]: HrTime): number {
  return seconds * 1_000 + nanoseconds / 1_000_000;
}
