/** Runs hellos with one setup of telemetry. Each message is a number of hellos; the response is their seconds. */
import { context } from '@opentelemetry/api';
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
} from '@opentelemetry/sdk-trace-base';
import { Perdure, type OpenOptions } from 'perdure';
import { createMetricProducer, followLinks, otel } from 'perdure/otel';
import { check, runInLanes } from './benchmark.ts';
import { definitions, hello } from './definitions.ts';

const lanes = 64;
const [store = '', variant = ''] = process.argv.slice(2);
let exported = 0;

function telemetryOf(): OpenOptions['telemetry'] {
  if (variant === 'off' || variant === 'control') return undefined;
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const tracerProvider = new BasicTracerProvider({
    sampler: new ParentBasedSampler({
      root: followLinks(new TraceIdRatioBasedSampler(variant === 'unsampled' ? 0 : 0.1)),
    }),
    spanProcessors: [
      new BatchSpanProcessor(
        {
          export: (spans, done) => {
            exported += spans.length;
            done({ code: ExportResultCode.SUCCESS });
          },
          shutdown: () => Promise.resolve(),
        },
        { maxQueueSize: 100_000 },
      ),
    ],
  });
  if (variant === 'unsampled' || variant === 'spans')
    return otel({ tracerProvider, meterProvider: false });
  const metricProducer = createMetricProducer();
  const reader = new PeriodicExportingMetricReader({
    exporter: new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE),
    metricProducers: [metricProducer],
  });
  const meterProvider = new MeterProvider({ readers: [reader] });
  return variant === 'producer'
    ? otel({ tracerProvider, metricProducer })
    : otel({ tracerProvider, meterProvider });
}

const telemetry = telemetryOf();
// Each variant has its own store, so that no worker runs the starts of another.
const perdure = await (store.startsWith('postgres')
  ? Perdure.open(store, { schema: variant, ...(telemetry && { telemetry }) })
  : Perdure.open(`${store}-${variant}`, telemetry && { telemetry }));
await perdure.startWorker(definitions);
const run = async (): Promise<void> => {
  const handle = await perdure.client.start(hello, 'World');
  check((await handle.result()) === 'Hello, World!', 'hello');
};
process.on('message', (count: number) => {
  void runInLanes(count, lanes, run).then((seconds) => process.send?.({ seconds, exported }));
});
process.once('disconnect', () => void perdure.close().then(() => process.exit()));
process.send?.('ready');
