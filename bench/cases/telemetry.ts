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
import { followLinks, otel } from 'perdure/otel';
import { check, median, runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, hello } from '../definitions.ts';

const lanes = 64;

/**
 * Hellos without telemetry and with spans and metrics of OpenTelemetry, 10 % of the traces sampled, in alternating rounds of
 * one process. The exporter drops the spans.
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
  const reader = new PeriodicExportingMetricReader({
    exporter: new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE),
  });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const telemetry = otel({ tracerProvider, meterProvider });
  const off: number[] = [];
  const on: number[] = [];
  const rounds = quick ? 3 : 7;
  const count = quick ? 3_000 : 8_000;
  for (let round = 0; round <= rounds; round += 1) {
    const [offSeconds, onSeconds] = await inTurn(
      round % 2 === 0,
      () => measure(store, count, {}),
      () => measure(store, count, { telemetry }),
    );
    // The first round is a warm-up.
    if (round === 0) continue;
    off.push(offSeconds);
    on.push(onSeconds);
  }
  await meterProvider.shutdown();
  check(exported > 0, 'spans were exported');
  return {
    offPerSecond: count / median(off),
    onPerSecond: count / median(on),
    cost: median(on.map((seconds, index) => seconds / (off[index] ?? Number.NaN))) - 1,
    exportedSpans: exported,
  };
}

/** Runs both, in either order. Returns their results in the same order. */
async function inTurn(
  isFirst: boolean,
  first: () => Promise<number>,
  second: () => Promise<number>,
): Promise<readonly [number, number]> {
  if (isFirst) return [await first(), await second()];
  const later = await second();
  return [await first(), later];
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
  return runInLanes(count, lanes, run);
}
