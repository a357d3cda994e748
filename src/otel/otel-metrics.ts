import {
  ROOT_CONTEXT,
  type Attributes,
  type Histogram,
  type Meter,
  type ObservableGauge,
  type ObservableResult,
} from '@opentelemetry/api';
import { instruments } from '../model/metrics/instruments.ts';
import type { Instrument, MetricLabels, MetricSamples, MetricSink } from '../model/telemetry.ts';

const maxPending = 512;

/** Sends the metrics of workers to OpenTelemetry, under the names of Prometheus with dots and without units. */
export class OtelMetrics implements MetricSink {
  readonly #meter: Meter;
  readonly #counts = new Map<Instrument, Map<MetricLabels, number>>();
  readonly #histograms = new Map<Instrument, Histogram>();
  readonly #gauges = new Map<Instrument, ObservableGauge>();
  // The durations that the SDK does not have yet, in parallel arrays.
  readonly #values = new Float64Array(maxPending);
  readonly #instruments: Instrument[] = [];
  readonly #labels: MetricLabels[] = [];
  #pending = 0;

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  /** Counts in memory: the SDK hashes the attributes in each call. */
  add(instrument: Instrument, value: number, labels: MetricLabels): void {
    const counts = this.#countsOf(instrument);
    counts.set(labels, (counts.get(labels) ?? 0) + value);
  }

  #countsOf(instrument: Instrument): Map<MetricLabels, number> {
    let counts = this.#counts.get(instrument);
    if (counts === undefined) {
      counts = new Map<MetricLabels, number>();
      this.#counts.set(instrument, counts);
      this.#observeCounts(instrument, counts);
    }
    return counts;
  }

  #observeCounts(instrument: Instrument, counts: ReadonlyMap<MetricLabels, number>): void {
    const options = { description: instrument.help };
    const counter = this.#meter.createObservableCounter(nameOf(instrument), options);
    counter.addCallback((result) => {
      this.#flush();
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

  /** Buffers a duration. The SDK gets it when the buffer is full, or before it collects. */
  record(instrument: Instrument, value: number, labels: MetricLabels): void {
    // Its callback flushes the buffer before the SDK collects.
    if (this.#histograms.size === 0) this.#countsOf(instruments.started);
    const index = this.#pending;
    this.#values[index] = value;
    this.#instruments[index] = instrument;
    this.#labels[index] = labels;
    this.#pending = index + 1;
    if (this.#pending === maxPending) this.#flush();
  }

  #flush(): void {
    const count = this.#pending;
    // First: if the SDK throws, the values of this buffer are dropped, not sent again.
    this.#pending = 0;
    for (let index = 0; index < count; index += 1) {
      const instrument = this.#instruments[index];
      const labels = this.#labels[index];
      if (instrument === undefined || labels === undefined) continue;
      const histogram = this.#histogramOf(instrument);
      histogram.record(this.#values[index] ?? 0, attributesOf(labels), ROOT_CONTEXT);
    }
  }

  #histogramOf(instrument: Instrument): Histogram {
    let histogram = this.#histograms.get(instrument);
    if (histogram === undefined) {
      histogram = this.#meter.createHistogram(nameOf(instrument), {
        description: instrument.help,
        unit: 's',
        advice: { explicitBucketBoundaries: [...(instrument.bounds ?? [])] },
      });
      this.#histograms.set(instrument, histogram);
    }
    return histogram;
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
