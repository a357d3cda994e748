import type { TraceContext, TraceIds } from './trace-context.ts';

/** A call of a client that changes something, and gets a span. */
export interface TracedCall {
  readonly kind: 'start' | 'event' | 'update' | 'cancel' | 'schedule' | 'trigger';
  /** Name of the orchestration, task, event, update or schedule. Absent for a cancel, which has only an id. */
  readonly name?: string;
  readonly instanceId?: string;
  /** Number of runs that one call starts. Absent: 1. */
  readonly count?: number;
}

/** The span of a call. `end`, if present, must be called once. */
export interface CallSpan {
  /** The context to send with the call. Absent: none. */
  readonly trace: TraceContext | undefined;
  /** `error`: the call rejected with it. Absent: nothing is recorded, so that the end does not matter. */
  readonly end?: ((error?: unknown) => void) | undefined;
}

/** A committed turn. Times are milliseconds since the epoch. */
export interface TracedTurn {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestration: string;
  readonly version: string;
  readonly events: number;
  readonly path: 'fast' | 'slow';
  readonly status: 'running' | 'completed' | 'failed' | 'canceled' | 'continuedAsNew';
  /** The message of the failure, if the turn failed the instance. */
  readonly failure?: string;
  readonly startedAt: number;
  readonly endedAt: number;
  /** The context of the start. */
  readonly trace: TraceContext | undefined;
  /** The contexts of the events that the turn received. */
  readonly causes: readonly TraceContext[];
}

/** The end of an instance. Times are milliseconds since the epoch. */
export interface TracedInstance {
  readonly kind: 'orchestration' | 'task';
  readonly instanceId: string;
  readonly name: string;
  readonly status: string;
  readonly failure?: string;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly trace: TraceContext | undefined;
}

/** An attempt whose handler is about to be called. */
export interface TracedAttempt {
  readonly kind: 'activity' | 'task' | 'onFail' | 'step';
  readonly name: string;
  readonly instanceId: string;
  readonly executionId: number;
  readonly operation: number;
  readonly orchestration: string;
  readonly attempt: number;
  /** Whether an earlier attempt failed, or an earlier claim had no outcome. */
  readonly isRetry: boolean;
  /** How long it was due before the claim, in milliseconds. */
  readonly waitedMs: number;
  readonly worker: string;
  readonly trace: TraceContext | undefined;
}

/** The span of an attempt. `end`, if present, must be called once. */
export interface AttemptSpan {
  readonly ids: TraceIds | undefined;
  /** Calls the handler with the span as the active one, so that spans of the handler are its children. */
  run<Result>(handler: () => Result): Result;
  /** Absent: nothing is recorded, so that the end does not matter. */
  end?: (outcome: string, error?: { readonly name: string; readonly message: string }) => void;
}

/** The kinds of instruments. */
export type InstrumentKind = 'counter' | 'histogram' | 'gauge';

/** A metric. `name` is that of Prometheus. */
export interface Instrument {
  readonly name: string;
  readonly kind: InstrumentKind;
  readonly help: string;
  /** Upper bounds of the buckets of a histogram, in seconds. */
  readonly bounds?: readonly number[];
}

/** The labels of a sample. */
export type MetricLabels = Readonly<Record<string, string>>;

/** Labels and values of a gauge. */
export type MetricSamples = readonly (readonly [MetricLabels, number])[];

/** A counter with fixed labels. Its value grows. */
export interface CounterSample {
  readonly labels: MetricLabels;
  readonly value: number;
}

/** The durations with fixed labels. Its counts grow. */
export interface HistogramSample {
  readonly labels: MetricLabels;
  /** One count per bound, not cumulative, and one for the values above all bounds. */
  readonly counts: readonly number[];
  /** In seconds. */
  readonly sum: number;
}

/** Receives the metrics of the workers of a process. Counters and histograms are aggregated already. */
export interface MetricSink {
  /** Registers a counter. It is read when the metrics are collected, so that counting calls no telemetry. */
  counter(instrument: Instrument, sample: CounterSample): void;
  /** Registers a histogram. Returns a function that needs each duration in seconds. `undefined`: the sample is read instead. */
  histogram(
    instrument: Instrument,
    sample: HistogramSample,
  ): ((seconds: number) => void) | undefined;
  /** Registers a gauge that is read when the metrics are collected. Returns a function that removes it. */
  observe(instrument: Instrument, read: () => MetricSamples | Promise<MetricSamples>): () => void;
}

/**
 * Receives what happens once: calls of clients, committed turns, attempts, ends of instances. Never called for replays and
 * reads. `otel()` of `perdure/otel` implements it. Methods must not throw.
 */
export interface Telemetry {
  call(call: TracedCall): CallSpan;
  attempt(attempt: TracedAttempt): AttemptSpan;
  turn(turn: TracedTurn): void;
  ended(instance: TracedInstance): void;
  /** Absent: no metrics. */
  readonly metrics?: MetricSink;
  /**
   * Returns the attempt of an unsampled caller, which has no span. If present, it is called instead of `attempt`, and `turn`
   * and `ended` are not called for work of unsampled callers. Default: they are.
   */
  unsampled?(trace: TraceContext): AttemptSpan;
}

/** Whether a value of the user has the methods of `Telemetry`. */
export function isTelemetry(value: unknown): value is Telemetry {
  const methods = ['call', 'attempt', 'turn', 'ended'];
  return (
    typeof value === 'object' &&
    value !== null &&
    methods.every((name) => typeof (value as Record<string, unknown>)[name] === 'function')
  );
}
