import type { Instrument, MetricLabels, MetricSink } from '../telemetry.ts';
import { instruments, maxMetricNames, maxRareStatuses, otherMetricName } from './instruments.ts';
import { formatHistogram, formatMetric } from './prometheus-text.ts';

/** The statuses that every name has samples for. */
const usualStatuses: ReadonlySet<string> = new Set(['completed', 'failed']);

type Observation = readonly (readonly [MetricLabels, number])[];

/** A counter with fixed labels. */
class Counter {
  readonly labels: MetricLabels;
  value = 0;

  constructor(instrument: Instrument, labels: MetricLabels, sink: MetricSink | undefined) {
    this.labels = labels;
    sink?.counter(instrument, this);
  }

  add(count: number): void {
    this.value += count;
  }
}

/** A histogram with fixed labels. */
class Histogram {
  readonly #record: ((seconds: number) => void) | undefined;
  readonly labels: MetricLabels;
  readonly bounds: readonly number[];
  readonly counts: number[];
  sum = 0;

  constructor(instrument: Instrument, labels: MetricLabels, sink: MetricSink | undefined) {
    this.labels = labels;
    this.bounds = instrument.bounds ?? [];
    this.counts = Array.from({ length: this.bounds.length + 1 }, () => 0);
    this.#record = sink?.histogram(instrument, this);
  }

  record(ms: number): void {
    // Also turns NaN into 0.
    const seconds = ms > 0 ? ms / 1_000 : 0;
    const { bounds } = this;
    let bucket = 0;
    while (bucket < bounds.length && seconds > (bounds[bucket] ?? 0)) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
    this.sum += seconds;
    this.#record?.(seconds);
  }
}

/** The samples of one instrument by the value of its label, or by two values. */
class Family<Sample> {
  readonly #byLabel = new Map<string, Sample>();
  readonly #create: (value: string) => Sample;

  constructor(create: (value: string) => Sample) {
    this.#create = create;
  }

  of(value: string): Sample {
    let sample = this.#byLabel.get(value);
    if (sample === undefined) this.#byLabel.set(value, (sample = this.#create(value)));
    return sample;
  }

  get all(): readonly Sample[] {
    return [...this.#byLabel.values()];
  }
}

/**
 * Counts what the workers of a process do. Always on: an entry costs a lookup and an addition. The text is in the format of
 * Prometheus; with telemetry, OpenTelemetry reads the same values.
 */
export class RunMetrics {
  readonly #sink: MetricSink | undefined;
  readonly #names = new Set<string>();
  readonly #started;
  readonly #ended: Family<Family<Counter>>;
  readonly #endedCounters: Counter[] = [];
  readonly #instances;
  readonly #turns;
  readonly #attempts;
  readonly #waits;
  readonly #timers;
  readonly #ticks;
  readonly #lookups;
  readonly #blocked;
  readonly #leaked;
  readonly #storeDurations;
  readonly #storeErrors;
  readonly #sweeps;
  readonly #swept;
  readonly #gauges = new Map<Instrument, Set<() => Observation>>();
  readonly #stops = new Map<Instrument, (() => void) | undefined>();
  #rareStatuses = 0;
  #isRead = false;

  constructor(given?: MetricSink) {
    const sink = given && guarded(given);
    this.#sink = sink;
    const counters = (instrument: Instrument, label: string) =>
      new Family((value) => new Counter(instrument, { [label]: value }, sink));
    const histograms = (instrument: Instrument, label: string) =>
      new Family((value) => new Histogram(instrument, { [label]: value }, sink));
    this.#started = counters(instruments.started, 'name');
    this.#ended = new Family((name) => new Family((status) => this.#createEnded({ name, status })));
    this.#instances = histograms(instruments.instanceDuration, 'status');
    this.#turns = histograms(instruments.turnDuration, 'path');
    this.#attempts = histograms(instruments.attemptDuration, 'outcome');
    this.#waits = histograms(instruments.scheduleToStart, 'kind');
    this.#timers = new Histogram(instruments.timerLateness, {}, sink);
    this.#ticks = new Histogram(instruments.scheduleLateness, {}, sink);
    this.#lookups = counters(instruments.cacheLookups, 'result');
    this.#blocked = new Counter(instruments.blockedTurns, {}, sink);
    this.#leaked = new Counter(instruments.leakedHandlers, {}, sink);
    this.#storeDurations = histograms(instruments.storeDuration, 'operation');
    this.#storeErrors = counters(instruments.storeErrors, 'operation');
    this.#sweeps = counters(instruments.sweeps, 'outcome');
    this.#swept = new Counter(instruments.sweptInstances, {}, sink);
  }

  started(name: string): void {
    this.#started.of(this.#cap(name)).add(1);
  }

  /** `durationMs` is that of an orchestration execution. Absent: unknown. */
  ended(name: string, status: string, durationMs?: number): void {
    this.#ended.of(this.#cap(name)).of(status).add(1);
    if (durationMs !== undefined) this.#instances.of(status).record(durationMs);
  }

  turn(path: 'fast' | 'slow', durationMs: number): void {
    this.#turns.of(path).record(durationMs);
  }

  attempt(outcome: string, durationMs: number): void {
    this.#attempts.of(outcome).record(durationMs);
  }

  waited(kind: string, waitedMs: number): void {
    this.#waits.of(kind).record(waitedMs);
  }

  timerFired(lateMs: number): void {
    this.#timers.record(lateMs);
  }

  ticked(lateMs: number): void {
    this.#ticks.record(lateMs);
  }

  lookedUp(isWarm: boolean): void {
    this.#lookups.of(isWarm ? 'hit' : 'miss').add(1);
  }

  blocked(): void {
    this.#blocked.add(1);
  }

  leaked(): void {
    this.#leaked.add(1);
  }

  /** Whether operations of the store are timed: OpenTelemetry is on, or the text was read. */
  get timesStore(): boolean {
    return this.#isRead || this.#sink !== undefined;
  }

  storeCalled(operation: string, durationMs: number): void {
    this.#storeDurations.of(operation).record(durationMs);
  }

  storeFailed(operation: string): void {
    this.#storeErrors.of(operation).add(1);
  }

  swept(outcome: string, deleted: number): void {
    this.#sweeps.of(outcome).add(1);
    this.#swept.add(deleted);
  }

  /** Registers a gauge. Several readers of an instrument are added up. Returns a function that removes it. */
  observe(instrument: Instrument, read: () => Observation): () => void {
    let readers = this.#gauges.get(instrument);
    if (readers === undefined) this.#gauges.set(instrument, (readers = new Set()));
    // A sink keeps only the last of several values with equal labels.
    if (readers.size === 0)
      this.#stops.set(
        instrument,
        this.#sink?.observe(instrument, () => this.#sumsOf(instrument)),
      );
    readers.add(read);
    return () => {
      if (readers.delete(read) && readers.size === 0) this.#stops.get(instrument)?.();
    };
  }

  /** Returns the metrics in the text format of Prometheus. */
  text(): string {
    this.#isRead = true;
    const counters = (instrument: Instrument, samples: readonly Counter[]) =>
      formatMetric(
        instrument.name,
        'counter',
        instrument.help,
        samples.map(({ labels, value }) => [labels, value]),
      );
    const histograms = (instrument: Instrument, samples: readonly Histogram[]) =>
      formatHistogram(instrument.name, instrument.help, samples);
    return [
      counters(instruments.started, this.#started.all),
      counters(instruments.ended, this.#endedCounters),
      histograms(instruments.instanceDuration, this.#instances.all),
      histograms(instruments.turnDuration, this.#turns.all),
      histograms(instruments.attemptDuration, this.#attempts.all),
      histograms(instruments.scheduleToStart, this.#waits.all),
      histograms(instruments.timerLateness, [this.#timers]),
      histograms(instruments.scheduleLateness, [this.#ticks]),
      counters(instruments.cacheLookups, this.#lookups.all),
      counters(instruments.blockedTurns, [this.#blocked]),
      counters(instruments.leakedHandlers, [this.#leaked]),
      histograms(instruments.storeDuration, this.#storeDurations.all),
      counters(instruments.storeErrors, this.#storeErrors.all),
      counters(instruments.sweeps, this.#sweeps.all),
      counters(instruments.sweptInstances, [this.#swept]),
      this.#gaugeText(instruments.slots),
      this.#gaugeText(instruments.warmInstances),
    ].join('');
  }

  #sumsOf(instrument: Instrument): Observation {
    const sums = new Map<string, { readonly labels: MetricLabels; value: number }>();
    for (const read of this.#gauges.get(instrument) ?? []) {
      for (const [labels, value] of read()) {
        const key = JSON.stringify(labels);
        const sum = sums.get(key);
        if (sum === undefined) sums.set(key, { labels, value });
        else sum.value += value;
      }
    }
    return [...sums.values()].map(({ labels, value }) => [labels, value] as const);
  }

  #gaugeText(instrument: Instrument): string {
    return formatMetric(instrument.name, 'gauge', instrument.help, this.#sumsOf(instrument));
  }

  /** Six statuses of 200 names would exceed the bound of the text: rare ones have samples of their own up to a number. */
  #createEnded(labels: { readonly name: string; readonly status: string }): Counter {
    const { name, status } = labels;
    if (name !== otherMetricName && !usualStatuses.has(status)) {
      if (this.#rareStatuses >= maxRareStatuses) return this.#ended.of(otherMetricName).of(status);
      this.#rareStatuses += 1;
    }
    const counter = new Counter(instruments.ended, labels, this.#sink);
    this.#endedCounters.push(counter);
    return counter;
  }

  #cap(name: string): string {
    if (this.#names.has(name)) return name;
    if (this.#names.size >= maxMetricNames) return otherMetricName;
    this.#names.add(name);
    return name;
  }
}

/** Drops the errors of a sink: metrics must not fail work. The values are still in the text. */
export function guarded(sink: MetricSink): MetricSink {
  return {
    counter(instrument, sample) {
      try {
        sink.counter(instrument, sample);
      } catch {}
    },
    histogram(instrument, sample) {
      try {
        const record = sink.histogram(instrument, sample);
        if (record === undefined) return undefined;
        return (seconds) => {
          try {
            record(seconds);
          } catch {}
        };
      } catch {
        return undefined;
      }
    },
    observe(instrument, read) {
      try {
        return sink.observe(instrument, read);
      } catch {
        return () => undefined;
      }
    },
  };
}
