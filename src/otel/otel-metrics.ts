import type {
  Attributes,
  Histogram,
  Meter,
  ObservableGauge,
  ObservableResult,
} from '@opentelemetry/api';
import type { Instrument, MetricLabels, MetricSamples, MetricSink } from '../model/telemetry.ts';

/** Sends the metrics of workers to OpenTelemetry, under the names of Prometheus with dots and without units. */
export class OtelMetrics implements MetricSink {
  readonly #meter: Meter;
  readonly #counts = new Map<Instrument, Map<MetricLabels, number>>();
  readonly #histograms = new Map<Instrument, Histogram>();
  readonly #gauges = new Map<Instrument, ObservableGauge>();

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  /** Counts in memory: the SDK hashes the attributes in each call. */
  add(instrument: Instrument, value: number, labels: MetricLabels): void {
    let counts = this.#counts.get(instrument);
    if (counts === undefined) {
      counts = new Map<MetricLabels, number>();
      this.#counts.set(instrument, counts);
      this.#observeCounts(instrument, counts);
    }
    counts.set(labels, (counts.get(labels) ?? 0) + value);
  }

  #observeCounts(instrument: Instrument, counts: ReadonlyMap<MetricLabels, number>): void {
    const options = { description: instrument.help };
    const counter = this.#meter.createObservableCounter(nameOf(instrument), options);
    counter.addCallback((result) => {
      // Several `Perdure` objects may share this object: their labels are equal, not identical.
      const sums = new Map<string, { readonly labels: MetricLabels; value: number }>();
      for (const [labels, value] of counts) {
        const key = JSON.stringify(labels);
        const sum = sums.get(key);
        if (sum === undefined) sums.set(key, { labels, value });
        else sum.value += value;
      }
      for (const { labels, value } of sums.values()) result.observe(value, attributesOf(labels));
    });
  }

  record(instrument: Instrument, value: number, labels: MetricLabels): void {
    let histogram = this.#histograms.get(instrument);
    if (histogram === undefined) {
      histogram = this.#meter.createHistogram(nameOf(instrument), {
        description: instrument.help,
        unit: 's',
        advice: { explicitBucketBoundaries: [...(instrument.bounds ?? [])] },
      });
      this.#histograms.set(instrument, histogram);
    }
    histogram.record(value, attributesOf(labels));
  }

  observe(instrument: Instrument, read: () => MetricSamples | Promise<MetricSamples>): () => void {
    let gauge = this.#gauges.get(instrument);
    if (gauge === undefined) {
      const options = { description: instrument.help };
      gauge = this.#meter.createObservableGauge(nameOf(instrument), options);
      this.#gauges.set(instrument, gauge);
    }
    const callback = async (result: ObservableResult): Promise<void> => {
      for (const [labels, value] of await read()) result.observe(value, attributesOf(labels));
    };
    gauge.addCallback(callback);
    return () => gauge.removeCallback(callback);
  }
}

/** `perdure_turn_duration_seconds` becomes `perdure.turn.duration`, with the unit `s`. */
function nameOf({ name }: Instrument): string {
  return name.replace(/_(?:total|seconds)$/, '').replaceAll('_', '.');
}

const attributesByLabels = new WeakMap<MetricLabels, Attributes>();

/** `name` becomes `perdure.name`. Cached: the labels of a sample are the same object each time. */
function attributesOf(labels: MetricLabels): Attributes {
  let attributes = attributesByLabels.get(labels);
  if (attributes === undefined) {
    attributes = Object.fromEntries(
      Object.entries(labels).map(([label, value]) => [`perdure.${label}`, value]),
    );
    attributesByLabels.set(labels, attributes);
  }
  return attributes;
}
