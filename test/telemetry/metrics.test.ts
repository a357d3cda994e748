import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  MeterProvider,
  InMemoryMetricExporter,
  AggregationTemporality,
  DataPointType,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import parsePrometheusTextFormat from 'parse-prometheus-text-format';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { activity, orchestration, Perdure, silentLogger, task } from '../../src/index.ts';
import { createMetricProducer, otel } from '../../src/otel.ts';
import { instruments } from '../../src/model/metrics/instruments.ts';
import { RunMetrics } from '../../src/model/metrics/run-metrics.ts';
import { serve } from '../../src/server.ts';
import { ServerMetrics } from '../../src/server/monitoring/server-metrics.ts';
import { routes, type RouteName } from '../../src/server/routes/table.ts';
import { metricsOf, parsePrometheus, sample, type ParsedMetric } from './parse-prometheus.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const folder = new URL('../../grafana/', import.meta.url);
const file = (path: string): string => readFileSync(new URL(path, folder), 'utf8');
const hasPromtool = spawnSync('promtool', ['--version']).status === 0;

const fails = activity('fails', () => Promise.reject(new Error('broken')));
const works = activity(
  'works',
  (ctx) => (ctx.attempt < 2 ? Promise.reject(new Error('again')) : Promise.resolve('done')),
  { retry: { maxAttempts: 2, backoff: 'fixed', initialDelay: 1 } },
);
const ok = orchestration('ok', async (ctx) => {
  await ctx.call(works);
  await ctx.sleep(1);
});
const bad = orchestration('bad \\ name', (ctx) => ctx.call(fails));
const job = task('job', () => Promise.resolve('done'));

async function openWorker(options: Parameters<typeof Perdure.open>[1] = {}) {
  const perdure = await Perdure.open(':memory:', { logger: silentLogger, ...options });
  cleanups.push(() => perdure.close());
  const worker = await perdure.startWorker({
    orchestrations: [ok, bad],
    activities: [fails, works],
    tasks: [job],
    activityConcurrency: 7,
  });
  return { perdure, worker };
}

async function runAll({ client }: Perdure): Promise<void> {
  await (await client.start(ok)).result();
  await expect((await client.start(bad)).result()).rejects.toThrow('broken');
  await (await client.runTask(job)).result();
}

const samplesOf = (parsed: ReadonlyMap<string, ParsedMetric>) =>
  [...parsed.values()].flatMap(({ samples }) => samples);

const statuses = ['completed', 'failed', 'canceled', 'terminated', 'skipped', 'expired'];
const outcomes = ['completed', 'failed', 'skipped', 'retried', 'canceled', 'lost', 'deleted'];

/** Counts every value of every label once, for so many names. */
function countEverything(metrics: RunMetrics, names: number): void {
  for (let n = 0; n < names; n += 1) {
    metrics.started(`name-${n}`);
    for (const status of statuses) metrics.ended(`name-${n}`, status, n);
  }
  for (const outcome of outcomes) metrics.attempt(outcome, 1);
  for (const kind of ['activity', 'task', 'onFail']) metrics.waited(kind, 1);
  for (const path of ['fast', 'slow'] as const) metrics.turn(path, 1);
  for (const isWarm of [true, false]) metrics.lookedUp(isWarm);
  for (const outcome of ['done', 'paused', 'stopped', 'lostLease', 'failed'])
    metrics.swept(outcome, 1);
  for (let n = 0; n < 16; n += 1) {
    metrics.storeCalled(`operation-${n}`, 1);
    metrics.storeFailed(`operation-${n}`);
  }
}

describe('worker.metrics', () => {
  it('counts starts, ends, attempts, waits, turns, timers and operations of the store', async () => {
    const { perdure, worker } = await openWorker();
    // Operations of the store are timed from the first read on.
    parsePrometheus(worker.metrics);
    await runAll(perdure);
    const metrics = parsePrometheus(worker.metrics);
    const of = (name: string, labels?: Readonly<Record<string, string>>) =>
      sample(metrics, name, labels);
    expect(of('perdure_instances_started_total', { name: 'ok' })).toBe(1);
    expect(of('perdure_instances_started_total', { name: bad.name })).toBe(1);
    expect(of('perdure_instances_started_total', { name: 'job' })).toBe(1);
    expect(of('perdure_instances_ended_total', { name: 'ok', status: 'completed' })).toBe(1);
    expect(of('perdure_instances_ended_total', { name: bad.name, status: 'failed' })).toBe(1);
    expect(of('perdure_instances_ended_total', { name: 'job', status: 'completed' })).toBe(1);
    expect(of('perdure_instance_duration_seconds_count', { status: 'completed' })).toBe(1);
    expect(of('perdure_attempt_duration_seconds_count', { outcome: 'completed' })).toBe(2);
    expect(of('perdure_attempt_duration_seconds_count', { outcome: 'retried' })).toBe(1);
    expect(of('perdure_attempt_duration_seconds_count', { outcome: 'failed' })).toBe(1);
    expect(of('perdure_schedule_to_start_seconds_count', { kind: 'activity' })).toBe(3);
    expect(of('perdure_schedule_to_start_seconds_count', { kind: 'task' })).toBe(1);
    expect(of('perdure_turn_duration_seconds_count', { path: 'fast' })).toBeGreaterThanOrEqual(3);
    expect(of('perdure_timer_lateness_seconds_count')).toBe(1);
    expect(of('perdure_warm_cache_lookups_total', { result: 'hit' })).toBeGreaterThan(0);
    expect(of('perdure_process_slots', { state: 'free' })).toBe(7);
    const created = { operation: 'createInstances' };
    expect(of('perdure_store_operation_duration_seconds_count', created)).toBe(2);
  });

  it('counts each start and each end of a task run that an operator retries', async () => {
    let calls = 0;
    const fickle = task('fickle', () => {
      calls += 1;
      return calls === 1 ? Promise.reject(new Error('broken')) : Promise.resolve('done');
    });
    const perdure = await Perdure.open(':memory:', { logger: silentLogger });
    cleanups.push(() => perdure.close());
    const worker = await perdure.startWorker({ tasks: [fickle] });
    const run = await perdure.client.runTask(fickle);
    await expect(run.result()).rejects.toThrow('broken');
    await perdure.client.retry(run.id, { from: 'start' });
    expect(await run.result()).toBe('done');
    const metrics = parsePrometheus(worker.metrics);
    expect(sample(metrics, 'perdure_instances_started_total', { name: 'fickle' })).toBe(2);
    for (const status of ['failed', 'completed']) {
      const labels = { name: 'fickle', status };
      expect(sample(metrics, 'perdure_instances_ended_total', labels)).toBe(1);
    }
  });

  it('has at most 2,000 samples for 200 names, and counts further names as other', () => {
    const metrics = new RunMetrics();
    countEverything(metrics, 300);
    const parsed = parsePrometheus(metrics.text());
    expect(samplesOf(parsed).length).toBeLessThanOrEqual(2_000);
    expect(sample(parsed, 'perdure_instances_started_total', { name: 'other' })).toBe(100);
  });

  it('counts every status of every name, rare ones of many names under the name other', () => {
    const metrics = new RunMetrics();
    countEverything(metrics, 300);
    const ended = samplesOf(parsePrometheus(metrics.text())).filter(
      ({ name }) => name === 'perdure_instances_ended_total',
    );
    const valuesOf = (status: string, isOther: boolean) =>
      ended
        .filter(({ labels }) => labels['status'] === status)
        .filter(({ labels }) => (labels['name'] === 'other') === isOther)
        .map(({ value }) => value);
    for (const status of statuses) {
      const own = valuesOf(status, false);
      const others = valuesOf(status, true);
      const isUsual = status === 'completed' || status === 'failed';
      expect({ status, own: own.length }).toEqual({ status, own: isUsual ? 200 : 50 });
      expect(others).toEqual([300 - own.length]);
      expect(own.every((value) => value === 1)).toBe(true);
    }
    // Counters that are shared stay shared.
    metrics.ended('name-150', 'canceled');
    const labels = { name: 'other', status: 'canceled' };
    const after = parsePrometheus(metrics.text());
    expect(sample(after, 'perdure_instances_ended_total', labels)).toBe(251);
  });

  it('the text of a server has at most 2,000 samples with every status, error, limit and unclaimed definition', async () => {
    const started = vi.spyOn(RunMetrics.prototype, 'started');
    const counted = vi.spyOn(ServerMetrics.prototype, 'countResponse');
    cleanups.push(() => {
      started.mockRestore();
      counted.mockRestore();
    });
    const { perdure } = await openWorker();
    const { client } = perdure;
    await (await client.runTask(job)).result();
    for (let n = 0; n < 200; n += 1) {
      const target = { kind: 'task', name: n === 7 ? 'other' : `work-${n}` } as const;
      await client.limits.set(target, { concurrency: { global: 9 } });
    }
    vi.spyOn(client, 'unclaimedWork').mockResolvedValue(
      Array.from({ length: 100 }, (_, n) => ({ kind: 'task', name: `old-${n}`, dueForMs: 10_001 })),
    );
    const server = await serve(perdure, { port: 0 });
    cleanups.push(() => server.close());
    const read = async () =>
      parsePrometheus(await (await fetch(`${server.url}/v1/metrics`)).text());
    const limitsOf = (parsed: ReadonlyMap<string, ParsedMetric>, name: string) =>
      parsed.get(name)?.samples ?? [];
    // As long as they fit, all have samples of their own.
    const before = await read();
    for (const name of ['perdure_limit_running', 'perdure_limit_max', 'perdure_limit_waiting'])
      expect(limitsOf(before, name)).toHaveLength(200);

    const [metrics] = started.mock.contexts;
    const [responses] = counted.mock.contexts;
    if (!(metrics instanceof RunMetrics) || !(responses instanceof ServerMetrics))
      throw new Error('Nothing was counted.');
    countEverything(metrics, 200);
    for (const route of Object.keys(routes) as RouteName[])
      for (const status of [200, 400, 401, 403, 404, 408, 409, 413, 415, 429, 431, 500, 503])
        responses.countResponse(route, status);
    const reasons = ['token', 'revoked', 'role', 'definition', 'session', 'origin'] as const;
    for (const reason of [...reasons, 'proxy', 'csrf', 'readOnly'] as const)
      for (const status of [401, 403]) responses.countRejection(status, reason);

    const after = await read();
    const { length } = samplesOf(after);
    expect(length).toBeLessThanOrEqual(2_000);
    expect(length).toBeGreaterThan(1_950);
    // Each kept definition has its three figures, and the others are added up.
    const running = limitsOf(after, 'perdure_limit_running');
    expect(running.length).toBeGreaterThan(90);
    expect(running.at(-1)?.labels).toEqual({ kind: 'task', name: 'other' });
    expect(limitsOf(after, 'perdure_limit_waiting')).toHaveLength(running.length);
    expect(limitsOf(after, 'perdure_limit_max')).toHaveLength(running.length - 1);
    // No response is lost: a route without its own sample is counted as other.
    const conflicts = (after.get('perdure_server_answers_total')?.samples ?? []).filter(
      ({ labels }) => labels['status'] === '503',
    );
    expect(conflicts.reduce((sum, { value }) => sum + value, 0)).toBe(Object.keys(routes).length);
    expect(conflicts.map(({ labels }) => labels['route'])).toContain('other');
  });

  it('the text of a server has at most 2,000 samples for 200 names with completed and failed runs and limits', async () => {
    const perdure = await Perdure.open(':memory:', { logger: silentLogger });
    cleanups.push(() => perdure.close());
    const orchestrations = Array.from({ length: 200 }, (_, n) =>
      orchestration(`name-${n}`, (_ctx, isBad: boolean) =>
        isBad ? Promise.reject(new Error('broken')) : Promise.resolve(n),
      ),
    );
    await perdure.startWorker({ orchestrations });
    const { client } = perdure;
    await Promise.all(
      orchestrations.map(async (definition) => {
        const { name } = definition;
        await (await client.start(definition, false)).result();
        await (await client.start(definition, true)).result().catch(() => undefined);
        await client.limits.set({ kind: 'orchestration', name }, { concurrency: { global: 9 } });
      }),
    );
    const server = await serve(perdure, { port: 0 });
    cleanups.push(() => server.close());
    const parsed = parsePrometheus(await (await fetch(`${server.url}/v1/metrics`)).text());
    const samples = [...parsed.values()].flatMap((metric) => metric.samples);
    const ofNames = samples.filter(({ labels }) => labels['name']?.startsWith('name-') === true);
    // Started, completed, failed, and three figures of the limit.
    expect(ofNames).toHaveLength(200 * 6);
    expect(samples.length).toBeLessThanOrEqual(2_000);
  });

  it('the text of a server is read alike by another parser', async () => {
    const { perdure } = await openWorker();
    await runAll(perdure);
    const server = await serve(perdure, { port: 0 });
    cleanups.push(() => server.close());
    const text = await (await fetch(`${server.url}/v1/metrics`)).text();
    const parsed = parsePrometheus(text);
    const others = parsePrometheusTextFormat(text);
    expect(others.map(({ name, type, help }) => [name, type.toLowerCase(), help])).toEqual(
      [...parsed.values()].map(({ name, type, help }) => [name, type, help]),
    );
    const sorted = (all: readonly unknown[]) => all.map((one) => JSON.stringify(one)).toSorted();
    const plain = others.filter(({ type }) => type !== 'HISTOGRAM');
    const values = plain.flatMap(({ name, metrics }) =>
      metrics.map(({ labels = {}, value }) => [name, labels, Number(value)]),
    );
    const samples = plain.flatMap(({ name }) => parsed.get(name)?.samples ?? []);
    expect(values.length).toBeGreaterThan(30);
    expect(sorted(values)).toEqual(
      sorted(samples.map(({ name, labels, value }) => [name, labels, value])),
    );
    // The other parser keeps one label set of a histogram: its bounds are compared.
    for (const { name, type, metrics } of others) {
      if (type !== 'HISTOGRAM') continue;
      const bounds = (parsed.get(name)?.samples ?? []).flatMap(({ labels: { le } }) => le ?? []);
      const found = metrics.flatMap(({ buckets = {} }) => Object.keys(buckets));
      expect([name, found.toSorted()]).toEqual([name, [...new Set(bounds)].toSorted()]);
    }
  });

  it('the text of a server has the metrics of the store, the server and the workers, without duplicates', async () => {
    const { perdure } = await openWorker();
    await runAll(perdure);
    const server = await serve(perdure, { port: 0 });
    cleanups.push(() => server.close());
    const parsed = parsePrometheus(await (await fetch(`${server.url}/v1/metrics`)).text());
    expect(sample(parsed, 'perdure_instances_started_total', { name: 'ok' })).toBe(1);
    expect(sample(parsed, 'perdure_blocked_instances')).toBe(0);
    expect([...parsed.keys()]).toEqual(
      expect.arrayContaining(Object.values(instruments).map(({ name }) => name)),
    );
  });
});

/** The metrics in the SDK: through instruments of a meter, or through a producer of Perdure's. */
function collector(through: 'meter' | 'producer') {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const producer = createMetricProducer();
  const reader = new PeriodicExportingMetricReader({
    exporter,
    exportIntervalMillis: 60_000,
    ...(through === 'producer' && { metricProducers: [producer] }),
  });
  const meterProvider = new MeterProvider({ readers: [reader] });
  cleanups.push(() => meterProvider.shutdown());
  return {
    telemetry: () =>
      through === 'meter'
        ? otel({ meterProvider, tracerProvider: false })
        : otel({ metricProducer: producer, tracerProvider: false }),
    collect: async () => {
      await meterProvider.forceFlush();
      const [collected] = exporter.getMetrics().slice(-1);
      return collected?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? [];
    },
  };
}

describe.each(['meter', 'producer'] as const)('OpenTelemetry metrics (%s)', (through) => {
  it('have the values of the text, with units and bounds', async () => {
    const { telemetry, collect } = collector(through);
    const { perdure } = await openWorker({ telemetry: telemetry() });
    await runAll(perdure);
    const byName = new Map((await collect()).map((metric) => [metric.descriptor.name, metric]));
    expect(byName.get('perdure.instances.started')).toMatchObject({
      dataPointType: DataPointType.SUM,
      isMonotonic: true,
      aggregationTemporality: AggregationTemporality.CUMULATIVE,
    });
    expect(byName.get('perdure.instances.started')?.dataPoints).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ attributes: { 'perdure.name': 'ok' }, value: 1 }),
      ]),
    );
    const attempts = byName.get('perdure.attempt.duration');
    expect(attempts).toMatchObject({
      descriptor: { unit: 's', description: instruments.attemptDuration.help },
      dataPointType: DataPointType.HISTOGRAM,
    });
    expect(attempts?.dataPoints).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          attributes: { 'perdure.outcome': 'completed' },
          value: expect.objectContaining({
            count: 2,
            buckets: {
              boundaries: instruments.attemptDuration.bounds,
              counts: expect.any(Array) as number[],
            },
          }) as object,
        }),
      ]),
    );
    expect(byName.get('perdure.process.slots')?.dataPoints).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ attributes: { 'perdure.state': 'free' }, value: 7 }),
      ]),
    );
    expect([...byName.keys()]).toContain('perdure.store.operation.duration');
    expect(byName.get('perdure.queue.oldest.ready')?.dataPoints).toHaveLength(3);
    expect(byName.get('perdure.blocked.instances')?.dataPoints).toMatchObject([{ value: 0 }]);
  });

  it('counters and durations of two stores with otel() each are added up', async () => {
    const { telemetry, collect } = collector(through);
    for (const runs of [2, 3]) {
      const { perdure } = await openWorker({ telemetry: telemetry() });
      for (let n = 0; n < runs; n += 1) await (await perdure.client.start(ok)).result();
    }
    const byName = new Map((await collect()).map((metric) => [metric.descriptor.name, metric]));
    const valuesOf = (name: string) => byName.get(name)?.dataPoints.map(({ value }) => value);
    expect(valuesOf('perdure.instances.started')).toEqual([5]);
    expect(valuesOf('perdure.instance.duration')).toMatchObject([{ count: 5 }]);
  });

  it('histograms have every duration, also those that are buffered and those of a client alone', async () => {
    const { telemetry, collect } = collector(through);
    const metrics = new RunMetrics(telemetry().metrics);
    for (const [recorded, expected] of [
      [1, 1],
      [1_300, 1_301],
    ] as const) {
      for (let n = 0; n < recorded; n += 1) metrics.storeCalled('createTasks', 20);
      const all = await collect();
      // A counter without values is not exported.
      expect(all.map(({ descriptor }) => descriptor.name)).toEqual([
        'perdure.store.operation.duration',
      ]);
      const sum = expect.closeTo(expected * 0.02, 6) as number;
      expect(all[0]?.dataPoints).toMatchObject([
        { attributes: { 'perdure.operation': 'createTasks' }, value: { count: expected, sum } },
      ]);
      expect(all[0]?.dataPoints[0]?.value).toHaveProperty('buckets.counts', [
        0,
        0,
        expected,
        0,
        0,
        0,
        0,
      ]);
    }
  });
});

describe('gauges', () => {
  it('a gauge of the producer that fails is left out, and the others are collected', async () => {
    const producer = createMetricProducer();
    const { metrics } = otel({ metricProducer: producer, tracerProvider: false });
    metrics?.observe(instruments.slots, () => Promise.reject(new Error('store is closed')));
    const end = metrics?.observe(instruments.warmInstances, () => [[{}, 3]]);
    const { resourceMetrics, errors } = await producer.collect();
    expect(errors).toMatchObject([{ message: 'store is closed' }]);
    expect(resourceMetrics.scopeMetrics[0]?.metrics).toMatchObject([
      { descriptor: { name: 'perdure.process.warm.instances' }, dataPoints: [{ value: 3 }] },
    ]);
    end?.();
    expect((await producer.collect()).resourceMetrics.scopeMetrics[0]?.metrics).toEqual([]);
  });

  it('gauges of several workers are added up, as in the text', () => {
    const reads: (() => unknown)[] = [];
    const metrics = new RunMetrics({
      counter: () => undefined,
      histogram: () => undefined,
      observe: (_, read) => {
        reads.push(read);
        return () => void reads.splice(reads.indexOf(read), 1);
      },
    });
    const ends = [3, 4].map((free) =>
      metrics.observe(instruments.slots, () => [[{ state: 'free' }, free]]),
    );
    expect(reads.map((read) => read())).toEqual([[[{ state: 'free' }, 7]]]);
    ends[0]?.();
    expect(reads.map((read) => read())).toEqual([[[{ state: 'free' }, 4]]]);
    ends[1]?.();
    expect(reads).toEqual([]);
    metrics.observe(instruments.slots, () => [[{ state: 'free' }, 5]]);
    expect(reads.map((read) => read())).toEqual([[[{ state: 'free' }, 5]]]);
  });
});

describe('grafana', () => {
  async function names(): Promise<ReadonlySet<string>> {
    const { perdure } = await openWorker();
    const server = await serve(perdure, { port: 0 });
    cleanups.push(() => server.close());
    const parsed = parsePrometheus(await (await fetch(`${server.url}/v1/metrics`)).text());
    const known = new Set<string>();
    for (const { name, type } of parsed.values()) {
      if (type !== 'histogram') known.add(name);
      else for (const suffix of ['bucket', 'sum', 'count']) known.add(`${name}_${suffix}`);
    }
    return known;
  }

  it('every name in the dashboard and in the alert rules is a metric of the server', async () => {
    const known = await names();
    const { panels } = JSON.parse(file('perdure.json')) as {
      readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
    };
    const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    const alerts = file('alerts.yaml');
    const rules = alerts.match(/^ +expr: .*(?:\n {10}.*)*/gm) ?? [];
    expect(expressions.length).toBeGreaterThan(20);
    expect(rules).toHaveLength(alerts.match(/- alert:/g)?.length ?? 0);
    const used = [...expressions, ...rules].flatMap(metricsOf);
    expect(used.filter((name) => !known.has(name))).toEqual([]);
    // A wrong name would be found.
    expect(
      metricsOf('rate(perdure_turn_duration_bucket[5m])').filter((one) => known.has(one)),
    ).toEqual([]);
    // Every metric of workers is shown.
    const shown = new Set(expressions.flatMap(metricsOf));
    const missing = Object.values(instruments).filter(
      ({ name }) => ![name, `${name}_bucket`, `${name}_count`].some((one) => shown.has(one)),
    );
    expect(missing).toEqual([]);
  });

  it.skipIf(!hasPromtool)(
    'promtool accepts the metrics of the server and the alert rules (needs promtool)',
    async () => {
      const { perdure } = await openWorker();
      await runAll(perdure);
      const server = await serve(perdure, { port: 0 });
      cleanups.push(() => server.close());
      const text = await (await fetch(`${server.url}/v1/metrics`)).text();
      const check = (args: readonly string[], input?: string) =>
        spawnSync('promtool', ['check', ...args], { input, encoding: 'utf8' });
      expect(check(['metrics'], text)).toMatchObject({ status: 0, stderr: '' });
      expect(check(['rules', fileURLToPath(new URL('alerts.yaml', folder))])).toMatchObject({
        status: 0,
      });
    },
  );

  it('counts in a panel of ratios or seconds have their own unit', () => {
    interface Panel {
      readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
      /** Absent for a row. */
      readonly fieldConfig?: {
        readonly defaults: { readonly unit?: string };
        readonly overrides: readonly { readonly matcher: { readonly options: string } }[];
      };
    }
    const { panels } = JSON.parse(file('perdure.json')) as { readonly panels: readonly Panel[] };
    const wrong = panels.flatMap(({ targets = [], fieldConfig }) => {
      const unit = fieldConfig?.defaults.unit;
      if (unit !== 's' && unit !== 'percentunit') return [];
      const own = new Set(fieldConfig?.overrides.map(({ matcher }) => matcher.options));
      const fits = (expr: string): boolean => expr.includes(unit === 's' ? '_seconds' : ' / ');
      return targets.filter(({ expr, legendFormat }) => !fits(expr) && !own.has(legendFormat));
    });
    expect(wrong).toEqual([]);
  });
});
