import { ValueType, type Attributes, type HrTime } from '@opentelemetry/api';
import { epochNow } from '../model/epoch-time.ts';
import type {
  CounterSample,
  HistogramSample,
  Instrument,
  MetricSamples,
  MetricSink,
} from '../model/telemetry.ts';
import { attributesOf, groupByLabels, metricName, sumByLabels } from './metric-names.ts';

/** A point of a metric, as the SDK defines it. */
interface Point<Value> {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
  readonly attributes: Attributes;
  readonly value: Value;
}

/** The value of a histogram, as the SDK defines it. */
interface HistogramValue {
  readonly buckets: { readonly boundaries: number[]; readonly counts: number[] };
  readonly sum: number;
  readonly count: number;
}

/** A metric, as the SDK defines it: a histogram (0), a gauge (2) or a sum (3), cumulative (1). */
type ProducedMetric = {
  readonly descriptor: {
    readonly name: string;
    readonly description: string;
    readonly unit: string;
    readonly valueType: ValueType;
  };
  readonly aggregationTemporality: 1;
} & (
  | { readonly dataPointType: 0; readonly dataPoints: Point<HistogramValue>[] }
  | { readonly dataPointType: 2; readonly dataPoints: Point<number>[] }
  | {
      readonly dataPointType: 3;
      readonly isMonotonic: true;
      readonly dataPoints: Point<number>[];
    }
);

/** The metrics of Perdure for `metricProducers` of a metric reader of the SDK. */
export interface MetricProducer {
  /** Returns all metrics, cumulative since the producer was created. A gauge that cannot be read is left out. */
  collect(): Promise<{
    readonly resourceMetrics: {
      // The reader replaces it by the resource of the SDK.
      readonly resource: never;
      readonly scopeMetrics: {
        readonly scope: { readonly name: string };
        readonly metrics: ProducedMetric[];
      }[];
    };
    readonly errors: unknown[];
  }>;
}

type Gauge = () => MetricSamples | Promise<MetricSamples>;

/** Keeps references to the aggregates of `RunMetrics`, and reads them when the SDK collects. */
export class AggregatedMetrics implements MetricSink, MetricProducer {
  readonly #startTime = toHrTime(epochNow());
  readonly #counters = new Map<Instrument, CounterSample[]>();
  readonly #histograms = new Map<Instrument, HistogramSample[]>();
  readonly #gauges = new Map<Instrument, Set<Gauge>>();

  counter(instrument: Instrument, sample: CounterSample): void {
    listOf(this.#counters, instrument).push(sample);
  }

  histogram(instrument: Instrument, sample: HistogramSample): undefined {
    listOf(this.#histograms, instrument).push(sample);
  }

  observe(instrument: Instrument, read: Gauge): () => void {
    let readers = this.#gauges.get(instrument);
    if (readers === undefined) this.#gauges.set(instrument, (readers = new Set()));
    readers.add(read);
    return () => void readers.delete(read);
  }

  async collect(): ReturnType<MetricProducer['collect']> {
    const errors: unknown[] = [];
    const time = { startTime: this.#startTime, endTime: toHrTime(epochNow()) };
    const metrics: ProducedMetric[] = [];
    for (const [instrument, samples] of this.#counters) {
      const dataPoints = sumByLabels(samples)
        .filter(({ value }) => value > 0)
        .map(({ labels, value }) => ({ ...time, attributes: attributesOf(labels), value }));
      if (dataPoints.length > 0)
        metrics.push({ ...head(instrument), dataPointType: 3, isMonotonic: true, dataPoints });
    }
    for (const [instrument, samples] of this.#histograms) {
      const dataPoints = groupByLabels(samples)
        .map((group) => ({
          ...time,
          attributes: attributesOf(group[0].labels),
          value: toHistogram(instrument, group),
        }))
        .filter(({ value }) => value.count > 0);
      if (dataPoints.length > 0)
        metrics.push({ ...head(instrument), dataPointType: 0, dataPoints });
    }
    for (const [instrument, readers] of this.#gauges) {
      const points = new Map<string, Point<number>>();
      for (const read of readers) {
        try {
          // Stores may be the same: the last value of equal labels wins, as with instruments of the SDK.
          for (const [labels, value] of await read())
            points.set(JSON.stringify(labels), {
              ...time,
              attributes: attributesOf(labels),
              value,
            });
        } catch (error) {
          errors.push(error);
        }
      }
      if (points.size > 0)
        metrics.push({ ...head(instrument), dataPointType: 2, dataPoints: [...points.values()] });
    }
    const scopeMetrics = [{ scope: { name: 'perdure' }, metrics }];
    return { resourceMetrics: { resource: undefined as never, scopeMetrics }, errors };
  }
}

/**
 * Creates a producer of metrics: pass it to `metricProducers` of a metric reader and to `otel()`. Durations are then aggregated
 * without a call of the SDK each.
 */
export function createMetricProducer(): MetricProducer {
  return new AggregatedMetrics();
}

function head(
  instrument: Instrument,
): Pick<ProducedMetric, 'descriptor' | 'aggregationTemporality'> {
  return {
    descriptor: {
      name: metricName(instrument),
      description: instrument.help,
      unit: instrument.kind === 'histogram' ? 's' : '',
      valueType: ValueType.DOUBLE,
    },
    aggregationTemporality: 1,
  };
}

function toHistogram(
  { bounds = [] }: Instrument,
  group: readonly HistogramSample[],
): HistogramValue {
  const counts = [...bounds, Infinity].map((_, bucket) =>
    group.reduce((total, sample) => total + (sample.counts[bucket] ?? 0), 0),
  );
  return {
    buckets: { boundaries: [...bounds], counts },
    sum: group.reduce((total, { sum }) => total + sum, 0),
    count: counts.reduce((total, count) => total + count, 0),
  };
}

function listOf<Sample>(lists: Map<Instrument, Sample[]>, instrument: Instrument): Sample[] {
  let list = lists.get(instrument);
  if (list === undefined) lists.set(instrument, (list = []));
  return list;
}

function toHrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.floor((ms - seconds * 1_000) * 1_000_000)];
}
