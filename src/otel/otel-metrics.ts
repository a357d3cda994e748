import {
  ROOT_CONTEXT,
  type Histogram,
  type Meter,
  type ObservableGauge,
  type ObservableResult,
} from '@opentelemetry/api';
import { instruments } from '../model/metrics/instruments.ts';
import type {
  CounterSample,
  HistogramSample,
  Instrument,
  MetricSamples,
  MetricSink,
} from '../model/telemetry.ts';
import { attributesOf, metricName, sumByLabels } from './metric-names.ts';

const maxPending = 512;

/** Sends the metrics of workers to instruments of a meter. */
export class OtelMetrics implements MetricSink {
  readonly #meter: Meter;
  readonly #counters = new Map<Instrument, CounterSample[]>();
  readonly #histograms = new Map<Instrument, Histogram>();
  readonly #gauges = new Map<Instrument, ObservableGauge>();
  // The durations that the SDK does not have yet, in parallel arrays.
  readonly #values = new Float64Array(maxPending);
  readonly #recorders: ((seconds: number) => void)[] = [];
  #pending = 0;

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  counter(instrument: Instrument, sample: CounterSample): void {
    this.#samplesOf(instrument).push(sample);
  }

  #samplesOf(instrument: Instrument): CounterSample[] {
    let samples = this.#counters.get(instrument);
    if (samples === undefined) {
      samples = [];
      this.#counters.set(instrument, samples);
      this.#observeCounts(instrument, samples);
    }
    return samples;
  }

  #observeCounts(instrument: Instrument, samples: readonly CounterSample[]): void {
    const options = { description: instrument.help };
    const counter = this.#meter.createObservableCounter(metricName(instrument), options);
    counter.addCallback((result) => {
      this.#flush();
      for (const { labels, value } of sumByLabels(samples))
        if (value > 0) result.observe(value, attributesOf(labels));
    });
  }

  /** Returns a function that buffers a duration. The SDK gets it when the buffer is full, or before it collects. */
  histogram(instrument: Instrument, { labels }: HistogramSample): (seconds: number) => void {
    // Its callback flushes the buffer before the SDK collects.
    this.#samplesOf(instruments.started);
    const attributes = attributesOf(labels);
    let histogram: Histogram | undefined;
    // The SDK hashes the attributes in each call.
    const record = (seconds: number): void => {
      histogram ??= this.#histogramOf(instrument);
      histogram.record(seconds, attributes, ROOT_CONTEXT);
    };
    return (seconds) => {
      const index = this.#pending;
      this.#values[index] = seconds;
      this.#recorders[index] = record;
      this.#pending = index + 1;
      if (this.#pending === maxPending) this.#flush();
    };
  }

  #flush(): void {
    const count = this.#pending;
    // First: if the SDK throws, the values of this buffer are dropped, not sent again.
    this.#pending = 0;
    for (let index = 0; index < count; index += 1)
      this.#recorders[index]?.(this.#values[index] ?? 0);
  }

  #histogramOf(instrument: Instrument): Histogram {
    let histogram = this.#histograms.get(instrument);
    if (histogram === undefined) {
      histogram = this.#meter.createHistogram(metricName(instrument), {
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
      gauge = this.#meter.createObservableGauge(metricName(instrument), options);
      this.#gauges.set(instrument, gauge);
    }
    const callback = async (result: ObservableResult): Promise<void> => {
      for (const [labels, value] of await read()) result.observe(value, attributesOf(labels));
    };
    gauge.addCallback(callback);
    return () => gauge.removeCallback(callback);
  }
}
