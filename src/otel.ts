/** OpenTelemetry for Perdure. Needs the peer dependency `@opentelemetry/api`. */
import './require-node.ts';

export { followLinks, type LinkSampler } from './otel/follow-links.ts';
export { createMetricProducer, type MetricProducer } from './otel/metric-producer.ts';
export { otel, type OtelOptions } from './otel/otel.ts';
export type { Relation } from './otel/span-context.ts';
export type {
  AttemptSpan,
  CallSpan,
  CounterSample,
  HistogramSample,
  Instrument,
  InstrumentKind,
  MetricLabels,
  MetricSamples,
  MetricSink,
  Telemetry,
  TracedAttempt,
  TracedCall,
  TracedInstance,
  TracedTurn,
} from './model/telemetry.ts';
export type { TraceContext, TraceIds } from './model/trace-context.ts';
