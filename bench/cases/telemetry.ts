import { context, type TracerProvider } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { ExportResultCode } from '@opentelemetry/core';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base';
import { Perdure, type OpenOptions } from 'perdure';
import { createMetricProducer, followLinks, otel } from 'perdure/otel';
import { check, median, runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, hello } from '../definitions.ts';

const lanes = 64;

/**
 * Measures hellos without telemetry, with spans, with spans and a metric producer, and with spans and instruments of the SDK.
 * The variants run in alternating rounds of one process. 10 % of the traces are sampled, and the exporter drops the spans.
 */
export async function telemetryOverhead({ store, quick }: BenchmarkSetup): Promise<Figures> {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  let exported = 0;
  const exporter: SpanExporter = {
    export: (spans, done) => {
      exported += spans.length;
      done({ code: ExportResultCode.SUCCESS });
    },
    shutdown: () => Promise.resolve(),
  };
  const tracerProvider: TracerProvider = new BasicTracerProvider({
    sampler: new ParentBasedSampler({ root: followLinks(new TraceIdRatioBasedSampler(0.1)) }),
    spanProcessors: [new BatchSpanProcessor(exporter, { maxQueueSize: 100_000 })],
  });
  const metricProducer = createMetricProducer();
  const reader = new PeriodicExportingMetricReader({
    exporter: new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE),
    metricProducers: [metricProducer],
  });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const variants: readonly OpenOptions[] = [
    {},
    { telemetry: otel({ tracerProvider, meterProvider: false }) },
    { telemetry: otel({ tracerProvider, metricProducer }) },
    { telemetry: otel({ tracerProvider, meterProvider }) },
  ];
  const seconds: number[][] = variants.map(() => []);
  const rounds = quick ? 3 : 7;
  const count = quick ? 3_000 : 6_000;
  for (let round = 0; round <= rounds; round += 1) {
    for (let step = 0; step < variants.length; step += 1) {
      // Rotates the order, so that no variant always comes first.
      const index = (round + step) % variants.length;
      const taken = await measure(store, count, variants[index] ?? {});
      // The first round is a warm-up.
      if (round > 0) seconds[index]?.push(taken);
    }
  }
  await meterProvider.shutdown();
  check(exported > 0, 'spans were exported');
  const [off = [], spans = [], produced = [], metered = []] = seconds;
  const costOf = (on: readonly number[]): number =>
    median(on.map((taken, index) => taken / (off[index] ?? Number.NaN))) - 1;
  return {
    offPerSecond: count / median(off),
    spansPerSecond: count / median(spans),
    onPerSecond: count / median(produced),
    spansCost: costOf(spans),
    cost: costOf(produced),
    meterCost: costOf(metered),
    exportedSpans: exported,
  };
}

/** Seconds for `count` hellos. */
async function measure(store: string, count: number, options: OpenOptions): Promise<number> {
  await using perdure = await Perdure.open(store, options);
  await perdure.startWorker(definitions);
  const run = async (): Promise<void> => {
    const handle = await perdure.client.start(hello, 'World');
    check((await handle.result()) === 'Hello, World!', 'hello');
  };
  await runInLanes(count / 4, lanes, run);
  return await runInLanes(count, lanes, run);
}
