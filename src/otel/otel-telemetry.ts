import {
  context as contextApi,
  SpanKind,
  SpanStatusCode,
  trace as traceApi,
  type Attributes,
  type Context,
  type Link,
  type Span,
  type Tracer,
} from '@opentelemetry/api';
import { toEpochMs } from '../model/epoch-time.ts';
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
import { traceIdsOf, type TraceContext } from '../model/trace-context.ts';
import {
  isUnsampled,
  place,
  toSpanContext,
  toTraceContext,
  type Placement,
  type Relation,
} from './span-context.ts';

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

const noSpan: CallSpan = { trace: undefined, end: () => undefined };

/** Turns what happens once into spans. No span stays open across turns. */
export class OtelTelemetry implements Telemetry {
  readonly dropsUnsampled = true;
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
    const startTime = nowMs();
    const span = this.#tracer.startSpan(name === undefined ? kind : `${kind} ${name}`, {
      kind: SpanKind.PRODUCER,
      startTime,
    });
    // Most spans are not sampled: their attributes would be copied and dropped.
    if (span.isRecording()) {
      span.setAttributes({
        'perdure.operation': kind,
        ...(instanceId !== undefined && { 'perdure.instance.id': instanceId }),
        ...(name !== undefined && { [nameAttributes[kind] ?? 'perdure.name']: name }),
        ...(count !== undefined && { 'perdure.count': count }),
      });
    }
    return {
      trace: toTraceContext(span.spanContext(), Math.floor(startTime)),
      end: (error) => {
        if (error !== undefined) fail(span, error);
        span.end(nowMs());
      },
    };
  }

  attempt(attempt: TracedAttempt): AttemptSpan {
    const { trace, isRetry: isLater } = attempt;
    const { parent, links, isDropped } = this.#place(trace, isLater);
    if (this.#tracer === undefined || isDropped) return withoutSpan(parent, trace);
    const span = this.#tracer.startSpan(
      `run ${attempt.name}`,
      {
        kind: SpanKind.CONSUMER,
        links: [...links],
        attributes: attemptAttributes(attempt),
        startTime: nowMs(),
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
        span.end(nowMs());
      },
    };
  }

  turn(turn: TracedTurn): void {
    const { trace, causes, status, failure } = turn;
    if (isUnsampled(trace)) return;
    const placement = this.#place(trace, false);
    this.#emit(
      `turn ${turn.orchestration}`,
      { ...turn, failure },
      {
        ...placement,
        links: [...placement.links, ...causes.map(toLink)],
        attributes: {
          'perdure.instance.id': turn.instanceId,
          'perdure.execution.id': turn.executionId,
          'perdure.name': turn.orchestration,
          'perdure.version': turn.version,
          'perdure.events': turn.events,
          'perdure.path': turn.path,
          'perdure.status': status,
        },
      },
    );
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
    { parent, links, isDropped, attributes }: Placement & { readonly attributes: Attributes },
  ): void {
    if (isDropped || this.#tracer === undefined) return;
    const span = this.#tracer.startSpan(
      name,
      { kind: SpanKind.INTERNAL, links: [...links], attributes, startTime: startedAt },
      parent,
    );
    if (failure !== undefined) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
    }
    span.end(Math.max(startedAt, endedAt));
  }
}

/** The time in milliseconds since the epoch. Given to spans, because the SDK takes longer to read the clock itself. */
function nowMs(): number {
  return toEpochMs(performance.now());
}

/** The cause was not sampled: spans of the handler follow it. */
function withoutSpan(parent: Context, trace: TraceContext | undefined): AttemptSpan {
  return {
    ids: trace && traceIdsOf(trace),
    run: (handler) => contextApi.with(parent, handler),
    end: () => undefined,
  };
}

function toLink(trace: TraceContext): Link {
  return { context: toSpanContext(trace) };
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
