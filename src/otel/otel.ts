import {
  metrics,
  trace,
  type Meter,
  type MeterProvider,
  type TracerProvider,
} from '@opentelemetry/api';
import { invalidOption, readFields } from '../model/option-fields.ts';
import type { Telemetry } from '../model/telemetry.ts';
import { AggregatedMetrics, type MetricProducer } from './metric-producer.ts';
import { OtelMetrics } from './otel-metrics.ts';
import { OtelTelemetry } from './otel-telemetry.ts';
import type { Relation } from './span-context.ts';

/** Options of `otel()`. */
export interface OtelOptions {
  /** Default: the global one. `false`: no spans and no trace context. */
  readonly tracerProvider?: TracerProvider | false | undefined;
  /** Default: the global one. `false`: no metrics. */
  readonly meterProvider?: MeterProvider | false | undefined;
  /** Collects the metrics in memory for a metric reader, instead of in instruments of `meterProvider`. Default: none. */
  readonly metricProducer?: MetricProducer | undefined;
  /**
   * How turns and attempts relate to the span of their start. Default: children within a minute of it; later work, retries and
   * later executions are roots with a link.
   */
  readonly relation?: Relation | undefined;
  /** Makes a span `instance {name}` when an instance ends, from its start to its end. Default: false. */
  readonly instanceSpans?: boolean | undefined;
}

const keys = [
  'tracerProvider',
  'meterProvider',
  'metricProducer',
  'relation',
  'instanceSpans',
] as const;

/**
 * Connects Perdure to OpenTelemetry: `Perdure.open(store, { telemetry: otel({ metricProducer }) })`. Call it after the SDK is
 * set up. Without `metricProducer`, metrics are instruments of the SDK, which cost more. Needs the package
 * `@opentelemetry/api`. Throws `INVALID_OPTION` for an invalid option.
 */
export function otel(options?: OtelOptions): Telemetry {
  const given = readFields(options, 'otel()', keys);
  const { relation, instanceSpans = false } = given;
  if (relation !== undefined && relation !== 'link' && relation !== 'parent') {
    throw invalidOption('relation', relation, "'link' or 'parent'");
  }
  if (typeof instanceSpans !== 'boolean') {
    throw invalidOption('instanceSpans', instanceSpans, 'true or false');
  }
  const tracers = providerOf(given.tracerProvider, 'getTracer') as
    | TracerProvider
    | false
    | undefined;
  const meters = providerOf(given.meterProvider, 'getMeter') as MeterProvider | false | undefined;
  const producer = producerOf(given.metricProducer);
  if (producer !== undefined && meters !== undefined && meters !== false) {
    throw invalidOption('metricProducer', given.metricProducer, 'absent if `meterProvider` is set');
  }
  const tracer = tracers === false ? undefined : (tracers ?? trace).getTracer('perdure');
  const withoutMeter = meters === false || producer !== undefined;
  const meter = withoutMeter ? undefined : (meters ?? metrics).getMeter('perdure');
  return new OtelTelemetry({
    tracer,
    metrics: producer ?? (meter && metricsOf(meter)),
    relation,
    instanceSpans,
  });
}

const metricsByMeter = new WeakMap<Meter, OtelMetrics>();

/** Returns the metrics of a meter. Shared: two counters of the same name would overwrite each other's values. */
function metricsOf(meter: Meter): OtelMetrics {
  let own = metricsByMeter.get(meter);
  if (own === undefined) metricsByMeter.set(meter, (own = new OtelMetrics(meter)));
  return own;
}

function producerOf(producer: unknown): AggregatedMetrics | undefined {
  if (producer === undefined || producer instanceof AggregatedMetrics) return producer;
  throw invalidOption('metricProducer', producer, 'the result of createMetricProducer()');
}

function providerOf(provider: unknown, method: 'getTracer' | 'getMeter'): unknown {
  if (provider === undefined || provider === false) return provider;
  const candidate = provider as Partial<Record<string, unknown>> | null;
  if (typeof candidate === 'object' && typeof candidate?.[method] === 'function') return provider;
  const option = method === 'getTracer' ? 'tracerProvider' : 'meterProvider';
  throw invalidOption(option, provider, `an object with ${method}(), or false`);
}
