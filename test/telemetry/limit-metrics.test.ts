import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { describe, expect, it, onTestFinished } from 'vitest';
import { orchestration, Perdure, silentLogger, task } from '../../src/index.ts';
import { otel } from '../../src/otel.ts';
import { serve } from '../../src/server.ts';
import { engineStores } from '../engine/engine-store.ts';
import { makeGate } from '../tasks/gate.ts';
import { parsePrometheus } from './parse-prometheus.ts';

/** Values of a gauge, by `<kind> <name>`. */
type Figures = Readonly<Record<string, number>>;

/** The limit figures of a process or a server. */
interface LimitFigures {
  readonly running: Figures;
  readonly max: Figures;
  readonly waiting: Figures;
}

const gauges = ['running', 'max', 'waiting'] as const;

/** Reads each gauge of limits. */
function figuresOf(
  samplesOf: (
    gauge: string,
  ) => readonly (readonly [kind: unknown, name: unknown, value: unknown])[],
): LimitFigures {
  const entries = gauges.map((gauge) => [
    gauge,
    Object.fromEntries(
      samplesOf(gauge).map(([kind, name, value]) => [[kind, name].join(' '), value]),
    ),
  ]);
  return Object.fromEntries(entries) as LimitFigures;
}

/** A reader of the OpenTelemetry SDK, and the figures that it collects. */
function openCollector() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 60_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  onTestFinished(() => meterProvider.shutdown());
  return {
    telemetry: otel({ meterProvider, tracerProvider: false }),
    collect: async (): Promise<LimitFigures> => {
      await meterProvider.forceFlush();
      const metrics = exporter
        .getMetrics()
        .at(-1)
        ?.scopeMetrics.flatMap((one) => one.metrics);
      return figuresOf((gauge) => {
        const metric = metrics?.find(
          ({ descriptor }) => descriptor.name === `perdure.limit.${gauge}`,
        );
        return (metric?.dataPoints ?? []).map(({ attributes, value }) => [
          attributes['perdure.kind'],
          attributes['perdure.name'],
          value,
        ]);
      });
    },
  };
}

/** Reads the figures in the text of a server. */
async function readText(url: string): Promise<LimitFigures> {
  const metrics = parsePrometheus(await (await fetch(`${url}/v1/metrics`)).text());
  return figuresOf((gauge) =>
    (metrics.get(`perdure_limit_${gauge}`)?.samples ?? []).map(({ labels, value }) => [
      labels['kind'],
      labels['name'],
      value,
    ]),
  );
}

describe.each(['SQLite', 'PostgreSQL'] as const)('metrics of limits (%s)', (kind) => {
  const newStore = engineStores(kind);

  it('OpenTelemetry and the text of a server count running and waiting runs of a store', async () => {
    const gate = makeGate();
    const sync = task('sync', () => gate.opened, { concurrency: { global: 1 } });
    const keyed = task('keyed', () => gate.opened, { concurrency: { perKey: 5 } });
    const order = orchestration('order', (ctx) => ctx.waitFor('end'), {
      concurrency: { global: 2 },
    });
    const { telemetry, collect } = openCollector();
    const store = await newStore();
    const perdure = await Perdure.open(await store.open(), { logger: silentLogger, telemetry });
    onTestFinished(async () => {
      gate.open();
      await perdure.close();
      await store.remove();
    });
    await perdure.startWorker({ tasks: [sync, keyed], orchestrations: [order] });
    const server = await serve(perdure, { port: 0, logger: silentLogger });
    onTestFinished(() => server.close());
    const { client } = perdure;
    const runs = [await client.runTask(sync), await client.runTask(sync)];
    runs.push(await client.runTask(keyed, undefined, { key: 'acme' }));
    const orders = await Promise.all([1, 2, 3].map(() => client.start(order)));

    const busy: LimitFigures = {
      running: { 'task sync': 1, 'task keyed': 1, 'orchestration order': 2 },
      max: { 'task sync': 1, 'orchestration order': 2 },
      waiting: { 'task sync': 1, 'task keyed': 0, 'orchestration order': 1 },
    };
    await expect.poll(() => readText(server.url)).toEqual(busy);
    expect(await collect()).toEqual(busy);

    await client.limits.set('sync', { concurrency: { global: 7 } });
    gate.open();
    await Promise.all(runs.map((run) => run.result()));
    await Promise.all(orders.map((one) => one.raiseEvent('end', 1)));
    await Promise.all(orders.map((one) => one.result()));
    const idle: LimitFigures = {
      running: { 'task sync': 0, 'task keyed': 0, 'orchestration order': 0 },
      max: { 'task sync': 7, 'orchestration order': 2 },
      waiting: { 'task sync': 0, 'task keyed': 0, 'orchestration order': 0 },
    };
    await expect.poll(() => readText(server.url)).toEqual(idle);
    expect(await collect()).toEqual(idle);
  });
});
