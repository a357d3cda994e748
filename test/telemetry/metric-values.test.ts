import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  activity,
  orchestration,
  Perdure,
  silentLogger,
  task,
  type OpenOptions,
} from '../../src/index.ts';
import { createMetricProducer, otel } from '../../src/otel.ts';
import { serve } from '../../src/server.ts';
import { openSqlite } from '../../src/sqlite.ts';
import { FakeClock } from '../../src/testing.ts';
import { makeGate } from '../tasks/gate.ts';
import { parsePrometheus, sample } from './parse-prometheus.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function open(
  store: Parameters<typeof Perdure.open>[0] = ':memory:',
  options: OpenOptions = {},
): Promise<Perdure> {
  const perdure = await Perdure.open(store, { logger: silentLogger, ...options });
  cleanups.push(() => perdure.close());
  return perdure;
}

const valuesOf = (text: string) => {
  const parsed = parsePrometheus(text);
  return (name: string, labels?: Readonly<Record<string, string>>) => sample(parsed, name, labels);
};

/** Reads the metrics of a server on this store. */
async function scrape(perdure: Perdure) {
  const server = await serve(perdure, { port: 0 });
  cleanups.push(() => server.close());
  return valuesOf(await (await fetch(`${server.url}/v1/metrics`)).text());
}

/** OpenTelemetry with a function that reads the value of a gauge, by its attributes. */
function collected() {
  const producer = createMetricProducer();
  const read = async (name: string, attributes: Readonly<Record<string, string>> = {}) => {
    const { resourceMetrics } = await producer.collect();
    const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
    const points = metrics.find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? [];
    const expected = JSON.stringify(attributes);
    return points.find((one) => JSON.stringify(one.attributes) === expected)?.value;
  };
  return { telemetry: otel({ metricProducer: producer, tracerProvider: false }), read };
}

const hourly = { pollInterval: '1h', shutdownGrace: 0 } as const;

describe('values of metrics', () => {
  it('a tick that fires 40 s late has this lateness', async () => {
    const clock = new FakeClock();
    const perdure = await open(':memory:', { clock });
    const job = task('job', () => Promise.resolve());
    await perdure.client.schedules.put('late', { cron: '* * * * *', task: job });
    // No worker runs when the tick of the first minute is due.
    await clock.advance('100s');
    const worker = await perdure.startWorker({ ...hourly, tasks: [job] });
    await expect
      .poll(() => valuesOf(worker.metrics)('perdure_schedule_lateness_seconds_count'))
      .toBe(1);
    const of = valuesOf(worker.metrics);
    expect(of('perdure_schedule_lateness_seconds_sum')).toBe(40);
    expect(of('perdure_schedule_lateness_seconds_bucket', { le: '30' })).toBe(0);
    expect(of('perdure_schedule_lateness_seconds_bucket', { le: '120' })).toBe(1);
  });

  it('a turn whose code disagrees with its history is counted, and its instance is blocked', async () => {
    const { telemetry, read } = collected();
    const perdure = await open(':memory:', { telemetry });
    const { client } = perdure;
    const [one, two] = ['one', 'two'].map((name) => activity(name, () => Promise.resolve(name)));
    const build = (calls: typeof one) =>
      orchestration('changed', async (ctx) => {
        await ctx.call(calls!);
        await ctx.waitFor('go');
      });
    const activities = [one!, two!];
    const first = await perdure.startWorker({ orchestrations: [build(one)], activities });
    const handle = await client.start('changed');
    await expect
      .poll(async () => (await client.history(handle.id)).items.at(-1)?.event.kind)
      .toBe('eventAwaited');
    expect(valuesOf(first.metrics)('perdure_blocked_turns_total')).toBe(0);
    await first.stop();
    const wrong = await perdure.startWorker({ orchestrations: [build(two)], activities });
    await handle.raiseEvent('go', null);
    await expect.poll(async () => (await client.get(handle.id))?.blocked).toBeTruthy();
    await wrong.stop();
    const of = await scrape(perdure);
    expect(of('perdure_blocked_turns_total')).toBeGreaterThan(0);
    expect(of('perdure_blocked_instances')).toBe(1);
    expect(await read('perdure.blocked.instances')).toBe(1);
  });

  it('a task and an inline step that still run after their grace are counted as leaked', async () => {
    const [started, mayEnd] = [makeGate(), makeGate()];
    const ignoreCancel = async (): Promise<void> => {
      started.open();
      await mayEnd.opened;
    };
    const deaf = task('deaf', ignoreCancel);
    const perdure = await open();
    const worker = await perdure.startWorker({
      tasks: [deaf],
      orchestrations: [orchestration('steps', (ctx) => ctx.run('deaf', ignoreStep))],
      cancelGrace: 5,
    });
    const stepStarted = makeGate();
    async function ignoreStep(): Promise<void> {
      stepStarted.open();
      await mayEnd.opened;
    }
    const leaked = () => valuesOf(worker.metrics)('perdure_handlers_leaked_total');
    const run = await perdure.client.runTask(deaf);
    await started.opened;
    expect(leaked()).toBe(0);
    await run.cancel({ wait: true });
    expect(leaked()).toBe(1);
    const handle = await perdure.client.start('steps');
    await stepStarted.opened;
    await handle.cancel({ wait: true });
    expect(leaked()).toBe(2);
    mayEnd.open();
  });

  it('an operation that the store rejects is counted under its name, and others as other', async () => {
    const store = await openSqlite({ path: ':memory:' });
    cleanups.push(() => store.close());
    const perdure = await open(store);
    const worker = await perdure.startWorker({});
    // Operations of the store are counted from the first read on.
    expect(valuesOf(worker.metrics)('perdure_store_errors_total')).toBeUndefined();
    const { client } = perdure;
    vi.spyOn(store, 'createTasks').mockRejectedValueOnce(new Error('disk is full'));
    vi.spyOn(store, 'listLimits').mockRejectedValueOnce(new Error('disk is full'));
    await expect(client.runTask('job')).rejects.toThrow('disk is full');
    await expect(client.limits.list()).rejects.toThrow('disk is full');
    await client.runTask('job');
    const of = valuesOf(worker.metrics);
    expect(of('perdure_store_errors_total', { operation: 'createTasks' })).toBe(1);
    expect(of('perdure_store_errors_total', { operation: 'other' })).toBe(1);
    // A failed operation has no duration.
    const created = { operation: 'createTasks' };
    expect(of('perdure_store_operation_duration_seconds_count', created)).toBe(1);
  });

  it('the duration of an operation has the statement that runs before the call returns', async () => {
    const store = await openSqlite({ path: ':memory:' });
    cleanups.push(() => store.close());
    const perdure = await open(store);
    const worker = await perdure.startWorker({});
    expect(worker.metrics).not.toBe('');
    const create = store.createTasks.bind(store);
    vi.spyOn(store, 'createTasks').mockImplementationOnce((...given) => {
      const endAt = performance.now() + 20;
      while (performance.now() < endAt);
      return create(...given);
    });
    await perdure.client.runTask('job');
    const sum = 'perdure_store_operation_duration_seconds_sum';
    const seconds = valuesOf(worker.metrics)(sum, { operation: 'createTasks' });
    expect(seconds).toBeGreaterThanOrEqual(0.02);
  });

  it('retention sweeps are counted by outcome, with the instances that they delete', async () => {
    const clock = new FakeClock();
    const perdure = await open(':memory:', { clock });
    const job = task('job', () => Promise.resolve());
    const worker = await perdure.startWorker({
      ...hourly,
      pollInterval: '36500d',
      tasks: [job],
      retention: { policies: [{ keepFor: '90m' }], interval: '1h' },
    });
    for (let n = 0; n < 3; n += 1) await (await perdure.client.runTask(job)).result();
    const read = () => {
      const of = valuesOf(worker.metrics);
      return {
        sweeps: of('perdure_retention_sweeps_total', { outcome: 'done' }),
        deleted: of('perdure_retention_deleted_instances_total'),
      };
    };
    expect(read()).toEqual({ sweeps: undefined, deleted: 0 });
    // The first sweep finds nothing that is old enough.
    await clock.advance('1h');
    await expect.poll(read).toEqual({ sweeps: 1, deleted: 0 });
    // A sweep pauses in real time, and the interval has jitter.
    await expect
      .poll(async () => {
        await clock.advance('30m');
        return read().deleted;
      })
      .toBe(3);
    expect(read().sweeps).toBeGreaterThanOrEqual(2);
  });

  it('turns without a warm cache are misses', async () => {
    const perdure = await open();
    const works = activity('works', () => Promise.resolve());
    const calls = orchestration('calls', (ctx) => ctx.call(works));
    const worker = await perdure.startWorker({
      orchestrations: [calls],
      activities: [works],
      warmCacheBytes: 0,
    });
    await (await perdure.client.start(calls)).result();
    const of = valuesOf(worker.metrics);
    expect(of('perdure_warm_cache_lookups_total', { result: 'miss' })).toBeGreaterThanOrEqual(2);
    expect(of('perdure_warm_cache_lookups_total', { result: 'hit' })).toBeUndefined();
    expect(of('perdure_process_warm_instances')).toBe(0);
  });

  it('the slots and warm instances of a worker are those in use', async () => {
    const [started, mayEnd] = [makeGate(), makeGate()];
    const holds = task('holds', async () => {
      started.open();
      await mayEnd.opened;
    });
    const waits = orchestration('waits', (ctx) => ctx.waitFor('go'));
    const perdure = await open();
    const worker = await perdure.startWorker({
      orchestrations: [waits],
      tasks: [holds],
      activityConcurrency: 7,
    });
    const read = () => {
      const of = valuesOf(worker.metrics);
      return {
        used: of('perdure_process_slots', { state: 'used' }),
        free: of('perdure_process_slots', { state: 'free' }),
        warm: of('perdure_process_warm_instances'),
      };
    };
    expect(read()).toEqual({ used: 0, free: 7, warm: 0 });
    const run = await perdure.client.runTask(holds);
    await perdure.client.start(waits);
    await started.opened;
    await expect.poll(read).toEqual({ used: 1, free: 6, warm: 1 });
    mayEnd.open();
    await run.result();
    await expect.poll(read).toEqual({ used: 0, free: 7, warm: 1 });
  });

  it('the age of a queue is that of its oldest claimable entry', async () => {
    const clock = new FakeClock();
    const { telemetry, read } = collected();
    const perdure = await open(':memory:', { clock, telemetry });
    await perdure.client.runTask('job');
    await clock.advance('2m');
    await perdure.client.runTask('job');
    // Not claimable yet.
    await perdure.client.start('order', undefined, { delay: '1h' });
    await clock.advance('30s');
    const of = await scrape(perdure);
    const ages = { tasks: 150, orchestrations: 0, activities: 0 };
    for (const [queue, age] of Object.entries(ages)) {
      expect([queue, of('perdure_queue_oldest_ready_seconds', { queue })]).toEqual([queue, age]);
      const point = await read('perdure.queue.oldest.ready', { 'perdure.queue': queue });
      expect([queue, point]).toEqual([queue, age]);
    }
    expect(of('perdure_queue_depth', { queue: 'tasks', state: 'ready' })).toBe(2);
    expect(of('perdure_queue_depth', { queue: 'orchestrations', state: 'delayed' })).toBe(1);
  });
});
