import {
  context as contextApi,
  SpanKind,
  SpanStatusCode,
  trace as traceApi,
  type Attributes,
  type Span,
  type Tracer,
} from '@opentelemetry/api';
import { epochNow } from '../model/epoch-time.ts';
import type {
  AttemptSpan,
  CallSpan,
  MetricSink,
  Telemetry,
  TracedAttempt,
  TracedCall,
  TracedInstance,
  TracedTurn,
} from '../model/telemetry.ts';
import type { TraceContext } from '../model/trace-context.ts';
import {
  isUnsampled,
  place,
  toSpanContext,
  toTraceContext,
  type Placement,
  type Relation,
} from './span-context.ts';
import { UnsampledAttempt } from './unsampled-attempt.ts';

export interface OtelTelemetryParams {
  readonly tracer: Tracer | undefined;
  readonly metrics: MetricSink | undefined;
  readonly relation: Relation | undefined;
  readonly instanceSpans: boolean;
}

const nameAttributes: Partial<Record<TracedCall['kind'], string>> = {
  event: 'perdure.event',
  update: 'perdure.update',
  schedule: 'perdure.schedule',
  trigger: 'perdure.schedule',
};

const noSpan: CallSpan = { trace: undefined };

/** Turns what happens once into spans. No span stays open across turns. */
export class OtelTelemetry implements Telemetry {
  readonly #tracer: Tracer | undefined;
  readonly #relation: Relation | undefined;
  readonly #instanceSpans: boolean;
  readonly metrics?: MetricSink;

  constructor({ tracer, metrics, relation, instanceSpans }: OtelTelemetryParams) {
    this.#tracer = tracer;
    this.#relation = relation;
    this.#instanceSpans = instanceSpans;
    if (metrics !== undefined) this.metrics = metrics;
  }

  call({ kind, name, instanceId, count }: TracedCall): CallSpan {
    if (this.#tracer === undefined) return noSpan;
    const startTime = epochNow();
    const span = this.#tracer.startSpan(name === undefined ? kind : `${kind} ${name}`, {
      kind: SpanKind.PRODUCER,
      startTime,
    });
    const trace = toTraceContext(span.spanContext(), Math.floor(startTime));
    // Most spans are not sampled: their attributes would be copied and dropped.
    if (!span.isRecording()) return { trace };
    span.setAttribute('perdure.operation', kind);
    if (instanceId !== undefined) span.setAttribute('perdure.instance.id', instanceId);
    if (name !== undefined) span.setAttribute(nameAttributes[kind] ?? 'perdure.name', name);
    if (count !== undefined) span.setAttribute('perdure.count', count);
    return {
      trace,
      end: (error) => {
        if (error !== undefined) fail(span, error);
        span.end(epochNow());
      },
    };
  }

  unsampled(trace: TraceContext): AttemptSpan {
    return new UnsampledAttempt(trace);
  }

  attempt(attempt: TracedAttempt): AttemptSpan {
    const { trace, isRetry } = attempt;
    if (this.#tracer === undefined || isUnsampled(trace)) return new UnsampledAttempt(trace);
    const { parent, links } = this.#place(trace, isRetry);
    const span = this.#tracer.startSpan(
      `run ${attempt.name}`,
      {
        kind: SpanKind.CONSUMER,
        links,
        attributes: attemptAttributes(attempt),
        startTime: epochNow(),
      },
      parent,
    );
    const active = traceApi.setSpan(parent, span);
    const { traceId, spanId } = span.spanContext();
    return {
      ids: { traceId, spanId },
      run: (handler) => contextApi.with(active, handler),
      end: (outcome, error) => {
        span.setAttribute('perdure.outcome', outcome);
        if (error !== undefined) fail(span, error);
        span.end(epochNow());
      },
    };
  }

  turn(turn: TracedTurn): void {
    const { trace, causes } = turn;
    if (isUnsampled(trace)) return;
    const { parent, links } = this.#place(trace, false);
    for (const cause of causes) links.push({ context: toSpanContext(cause) });
    this.#emit(`turn ${turn.orchestration}`, turn, {
      parent,
      links,
      attributes: {
        'perdure.instance.id': turn.instanceId,
        'perdure.execution.id': turn.executionId,
        'perdure.name': turn.orchestration,
        'perdure.version': turn.version,
        'perdure.events': turn.events,
        'perdure.path': turn.path,
        'perdure.status': turn.status,
      },
    });
  }

  ended(instance: TracedInstance): void {
    if (!this.#instanceSpans || isUnsampled(instance.trace)) return;
    const { kind, instanceId, name, status } = instance;
    this.#emit(`instance ${name}`, instance, {
      ...this.#place(instance.trace, false),
      attributes: {
        'perdure.instance.id': instanceId,
        'perdure.kind': kind,
        'perdure.name': name,
        'perdure.status': status,
      },
    });
  }

  #place(trace: TraceContext | undefined, isLater: boolean): Placement {
    return place(trace, { relation: this.#relation, isLater, nowMs: Date.now() });
  }

  /** Makes a span of something that is over. */
  #emit(
    name: string,
    {
      startedAt,
      endedAt,
      failure,
    }: {
      readonly startedAt: number;
      readonly endedAt: number;
      readonly failure?: string | undefined;
    },
    { parent, links, attributes }: Placement & { readonly attributes: Attributes },
  ): void {
    if (this.#tracer === undefined) return;
    const span = this.#tracer.startSpan(
      name,
      { kind: SpanKind.INTERNAL, links, attributes, startTime: startedAt },
      parent,
    );
    if (failure !== undefined) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
    }
    span.end(Math.max(startedAt, endedAt));
  }
}

function attemptAttributes(attempt: TracedAttempt): Attributes {
  return {
    'perdure.instance.id': attempt.instanceId,
    'perdure.execution.id': attempt.executionId,
    'perdure.operation.id': attempt.operation,
    'perdure.kind': attempt.kind,
    'perdure.name': attempt.name,
    'perdure.orchestration': attempt.orchestration,
    'perdure.attempt': attempt.attempt,
    'perdure.waited_ms': attempt.waitedMs,
    'perdure.worker': attempt.worker,
  };
}

function fail(span: Span, error: unknown): void {
  const { name, message } = error as { readonly name?: unknown; readonly message?: unknown };
  const text = typeof message === 'string' ? message : String(error);
  span.recordException({ name: typeof name === 'string' ? name : 'Error', message: text });
  span.setStatus({ code: SpanStatusCode.ERROR, message: text });
}
