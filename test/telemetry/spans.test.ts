import { fork, type ChildProcess } from 'node:child_process';
import { on, once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  context,
  createContextKey,
  metrics,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
} from '@opentelemetry/api';
import { ParentBasedSampler, type Sampler } from '@opentelemetry/sdk-trace-base';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { flow } from '../../src/flows.ts';
import { activity, orchestration, Perdure, silentLogger, task } from '../../src/index.ts';
import { epochNow } from '../../src/model/epoch-time.ts';
import { createMetricProducer, followLinks, otel } from '../../src/otel.ts';
import { serve } from '../../src/server.ts';
import { createDatabase } from '../postgres/helpers/server.ts';
import { recordSpans, useAsyncContext, type RecordedSpan } from './span-recorder.ts';
import { tracedDefinitions } from './traced-definitions.ts';

const program = new URL('./traced-worker-program.ts', import.meta.url);

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});
let undoContext: () => void;
beforeAll(() => (undoContext = useAsyncContext()));
afterAll(() => undoContext());

type StoreKind = 'SQLite' | 'PostgreSQL';

async function newStore(kind: StoreKind): Promise<string> {
  if (kind === 'PostgreSQL') {
    const database = await createDatabase();
    cleanups.push(() => database.drop());
    return database.url;
  }
  const folder = await mkdtemp(join(tmpdir(), 'perdure-telemetry-'));
  cleanups.push(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'store.db');
}

interface Reply {
  readonly kind: string;
  readonly finished: readonly RecordedSpan[];
  readonly open: number;
}

async function next(child: ChildProcess, kind: string): Promise<Reply> {
  for await (const [message] of on(child, 'message', { signal: AbortSignal.timeout(30_000) })) {
    if ((message as Reply).kind === kind) return message as Reply;
  }
  throw new Error('The process has ended.');
}

async function startWorker(store: string, role: string): Promise<ChildProcess> {
  const child = fork(program, [store, role]);
  cleanups.push(() => kill(child));
  await next(child, 'ready');
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

async function spansOf(child: ChildProcess): Promise<Reply> {
  const reply = next(child, 'spans');
  child.send('spans');
  return reply;
}

const named = (spans: readonly RecordedSpan[], name: string) =>
  spans.filter((span) => span.name === name);

async function open(store: string, options: Parameters<typeof Perdure.open>[1] = {}) {
  const perdure = await Perdure.open(store, { logger: silentLogger, ...options });
  cleanups.push(() => perdure.close());
  return perdure;
}

/** A history without its times and ids, which differ between two runs. */
async function comparableHistory(perdure: Perdure, id: string): Promise<string> {
  const { events } = await perdure.client.exportHistory(id);
  return JSON.stringify(events).replaceAll(/\d{13}(\.\d+)?/g, 'time');
}

describe.each(['SQLite', 'PostgreSQL'] as const)('spans (%s)', (kind) => {
  it('each attempt of a run with retries, a crash and replays has one span, with its parent or link', async () => {
    const store = await newStore(kind);
    const caller = recordSpans();
    const perdure = await open(store, { telemetry: otel({ tracerProvider: caller.provider }) });
    const { client } = perdure;
    const victim = await startWorker(store, 'victim');

    const tracer = caller.provider.getTracer('application');
    const handle = await tracer.startActiveSpan('request', async (span) => {
      const started = await client.start('order', 'a', { id: 'order-1' });
      span.end();
      return started;
    });
    await next(victim, 'crashing');
    const before = await spansOf(victim);
    await kill(victim);
    const survivor = await startWorker(store, 'survivor');
    await handle.raiseEvent('approved', 'yes');
    expect(await handle.result({ timeout: '40s' })).toEqual(['a', 3, 'survived', 'yes', 'done']);
    await expect.poll(async () => (await spansOf(survivor)).finished.length).toBeGreaterThan(5);
    await expect
      .poll(async () => named((await spansOf(survivor)).finished, 'instance order').length)
      .toBe(1);
    const after = await spansOf(survivor);

    // Nothing is open at idle. The attempt that was killed died with its process.
    expect([caller.open(), after.open, before.open]).toEqual([0, 0, 1]);

    const [request] = named(caller.finished(), 'request');
    const [start, ...otherStarts] = named(caller.finished(), 'start order');
    expect(otherStarts).toEqual([]);
    expect(start).toMatchObject({ kind: SpanKind.PRODUCER, parentId: request?.spanId });
    const [raised] = named(caller.finished(), 'event approved');
    expect(raised).toMatchObject({ kind: SpanKind.PRODUCER });

    const all = [...before.finished, ...after.finished];
    expect(new Set(all.map(({ spanId }) => spanId)).size).toBe(all.length);
    const attempts = all
      .filter(({ name }) => name.startsWith('run '))
      .map(({ attributes }) =>
        [attributes['perdure.name'], attributes['perdure.attempt']].join(' '),
      );
    expect(attempts).toEqual(['first 1', 'flaky 1', 'flaky 2', 'flaky 3', 'crashes 1', 'last 1']);

    const parented = { parentId: start?.spanId, traceId: start?.traceId, links: [] };
    const linked = { parentId: null, links: [start?.spanId] };
    const runs = (name: string) => named(all, `run ${name}`);
    expect(runs('first')).toMatchObject([{ ...parented, kind: SpanKind.CONSUMER }]);
    expect(runs('flaky')).toMatchObject([
      { ...parented, status: 2, attributes: { 'perdure.outcome': 'retried' } },
      { ...linked, status: 2 },
      { ...linked, status: 0, attributes: { 'perdure.outcome': 'completed' } },
    ]);
    // Its first claim had no outcome.
    expect(runs('crashes')).toMatchObject([linked]);
    expect(runs('last')).toMatchObject([parented]);
    expect(named(all, 'user work')).toMatchObject([{ parentId: runs('first')[0]?.spanId }]);

    // The turns have recorded each event of the history once: replays make no spans.
    const turns = named(all, 'turn order');
    expect(turns.every(({ parentId }) => parentId === start?.spanId)).toBe(true);
    const { events } = await client.exportHistory('order-1');
    const counted = turns.map(({ attributes }) => Number(attributes['perdure.events']));
    expect(counted.reduce((sum, count) => sum + count, 0)).toBe(events.length);
    const replayed = turns.filter(({ attributes }) => attributes['perdure.path'] === 'slow');
    expect(replayed.length).toBeGreaterThanOrEqual(3);
    const receiving = turns.filter(({ links }) => links.includes(raised?.spanId ?? ''));
    expect(receiving).toHaveLength(1);
    expect(named(all, 'turn sub').every(({ parentId }) => parentId === start?.spanId)).toBe(true);
    expect(named(all, 'instance order')).toMatchObject([
      { ...parented, attributes: { 'perdure.status': 'completed' } },
    ]);
  });

  it('each attempt of a flow with retries, a crash and replays has one span, with its parent or link', async () => {
    const store = await newStore(kind);
    const caller = recordSpans();
    const perdure = await open(store, { telemetry: otel({ tracerProvider: caller.provider }) });
    const [delivery] = tracedDefinitions(caller.provider, () => Promise.resolve()).flows;
    const victim = await startWorker(store, 'victim');
    const run = await perdure.client.runFlow(delivery!, 'parcel', { id: 'delivery-1' });
    await next(victim, 'crashing');
    const before = await spansOf(victim);
    await kill(victim);
    const survivor = await startWorker(store, 'survivor');
    expect(await run.result({ timeout: '40s' })).toBe('survived, done');
    const isInstance = ({ name }: RecordedSpan) => name.startsWith('instance ');
    await expect
      .poll(async () => (await spansOf(survivor)).finished.filter(isInstance).length)
      .toBe(1);
    const after = await spansOf(survivor);
    expect([caller.open(), after.open, before.open]).toEqual([0, 0, 1]);

    const starts = caller.finished().filter(({ name }) => name.startsWith('start '));
    expect(starts).toHaveLength(1);
    const all = [...before.finished, ...after.finished];
    const attempts = all.filter(({ name }) => name.startsWith('run '));
    const parented = { parentId: starts[0]?.spanId, links: [] };
    const linked = { parentId: null, links: [starts[0]?.spanId] };
    // The attempt that was killed has no span, and the one after it links.
    expect(attempts).toMatchObject([parented, parented, linked, linked, linked, parented]);
    expect(attempts.map(({ attributes }) => attributes['perdure.attempt'])).toEqual([
      1, 1, 2, 3, 1, 1,
    ]);
    const turns = all.filter(({ name }) => name.startsWith('turn '));
    const { events } = await perdure.client.exportHistory('delivery-1');
    const counted = turns.map(({ attributes }) => Number(attributes['perdure.events']));
    expect(counted.reduce((sum, count) => sum + count, 0)).toBe(events.length);
    const replayed = turns.filter(({ attributes }) => attributes['perdure.path'] === 'slow');
    expect(replayed.length).toBeGreaterThanOrEqual(3);
  });

  it('the history has the same bytes with and without telemetry', async () => {
    const step = activity('step', (_ctx, n: number) => Promise.resolve(n + 1));
    const retry = { maxAttempts: 3, backoff: 'fixed', initialDelay: 1 } as const;
    const flaky = activity(
      'flaky',
      (ctx) => {
        if (ctx.attempt < 3) throw new Error(`attempt ${ctx.attempt}`);
        return Promise.resolve(ctx.attempt);
      },
      { retry },
    );
    const again = orchestration('again', async (ctx, n: number) => {
      const next = await ctx.call(step, n);
      await ctx.waitFor('go');
      if (next < 3) return ctx.continueAsNew(next);
      return ctx.child(leaf, next);
    });
    const leaf = orchestration('leaf', async (ctx, n: number) => ctx.call(step, n));
    const updated = orchestration('updated', async (ctx) => {
      let total = await ctx.call(flaky);
      ctx.onUpdate('add', { handle: (value) => (total += Number(value)) });
      await ctx.waitFor('end');
      return total;
    });
    const delivery = flow('delivery')
      .input<string>()
      .step('pick', (_ctx, { input }) => input)
      .step('pack', { needs: ['pick'], retry }, (ctx, { pick }) => {
        if (ctx.attempt < 2) throw new Error('again');
        return pick;
      })
      .output();
    const spans = recordSpans();
    const histories: ReadonlyMap<string, string>[] = [];
    for (const telemetry of [undefined, otel({ tracerProvider: spans.provider })]) {
      const perdure = await open(await newStore(kind), telemetry && { telemetry });
      const { client } = perdure;
      await perdure.startWorker({
        orchestrations: [again, leaf, updated],
        activities: [step, flaky],
        flows: [delivery],
        name: 'worker',
      });
      // Sent only once the code waits for it, so that both runs record the same order.
      const waits = async (id: string, execution = 1): Promise<void> => {
        await expect
          .poll(async () => {
            const { executionId, events } = await client.exportHistory(id);
            const awaited = events.some((event) => event.kind === 'eventAwaited');
            return executionId === execution && awaited;
          })
          .toBe(true);
      };
      const handle = await client.start(again, 1, { id: 'a' });
      for (let n = 1; n <= 2; n += 1) {
        await waits('a', n);
        await handle.raiseEvent('go');
      }
      expect(await handle.result()).toBe(4);
      const counting = await client.start(updated, undefined, { id: 'b' });
      await waits('b');
      expect(await client.update('b', 'add', 4, { key: 'one' })).toBe(7);
      await counting.raiseEvent('end');
      expect(await counting.result()).toBe(7);
      const run = await client.runFlow(delivery, 'parcel', { id: 'c' });
      expect(await run.result()).toEqual('parcel');
      const texts = new Map<string, string>();
      for (const { id } of (await client.list()).items) {
        const text = await comparableHistory(perdure, id);
        const key = ['a', 'b', 'c'].includes(id) ? id : 'child';
        texts.set(key, text.replaceAll(/"childId":"[^"]*"/g, ''));
      }
      histories.push(texts);
      const { items } = await client.listExecutions('a');
      expect(items).toHaveLength(2);
    }
    expect([...(histories[0]?.keys() ?? [])].toSorted()).toEqual(['a', 'b', 'c', 'child']);
    expect(histories[1]).toEqual(histories[0]);
    // The second run was traced, with its update and its retries.
    const names = spans.finished().map(({ name }) => name);
    expect(names).toContain('update add');
    expect(names.filter((name) => name === 'run flaky')).toHaveLength(3);
    // The later execution links to the start, which began the trace of the first.
    const [start] = named(spans.finished(), 'start again');
    const later = spans
      .finished()
      .filter(({ attributes }) => attributes['perdure.execution.id'] === 2);
    expect(later.length).toBeGreaterThan(0);
    expect(later.every(({ parentId }) => parentId === null)).toBe(true);
    expect(later.every(({ links }) => links.includes(start?.spanId ?? ''))).toBe(true);
  });

  it('the span of a turn is internal and has the times of the turn', async () => {
    const spans = recordSpans();
    const perdure = await open(await newStore(kind), {
      telemetry: otel({ tracerProvider: spans.provider }),
    });
    const times: number[] = [];
    const slow = orchestration('slow', () => {
      times.push(epochNow());
      while (epochNow() < (times[0] ?? 0) + 20);
      times.push(epochNow());
      return Promise.resolve();
    });
    await perdure.startWorker({ orchestrations: [slow] });
    const began = epochNow();
    await (await perdure.client.start(slow)).result();
    await expect.poll(() => named(spans.finished(), 'turn slow').length).toBe(1);
    const [turn] = named(spans.finished(), 'turn slow');
    expect(turn).toMatchObject({ kind: SpanKind.INTERNAL });
    const { startTime = 0, endTime = 0 } = turn ?? {};
    // The SDK stores nanoseconds, and the store may have whole milliseconds.
    expect(startTime).toBeGreaterThanOrEqual(Math.floor(began));
    expect(startTime).toBeLessThanOrEqual((times[0] ?? 0) + 0.01);
    expect(endTime).toBeGreaterThanOrEqual(Math.floor(times[1] ?? Infinity));
    expect(endTime).toBeLessThanOrEqual(epochNow());
  });

  it('a repeated start with the same id and input in another trace is the same start', async () => {
    const store = await newStore(kind);
    const spans = recordSpans(
      new ParentBasedSampler({
        root: {
          shouldSample: (_context, _traceId, name) => ({ decision: name === 'unsampled' ? 0 : 2 }),
          toString: () => 'ByName',
        },
      }),
    );
    const telemetry = otel({ tracerProvider: spans.provider });
    const traced = await open(store, { telemetry });
    const untraced = await open(store);
    const tracer = spans.provider.getTracer('application');
    const work = orchestration('work', (_ctx, input: object) => Promise.resolve(input));
    const job = task('job', (_ctx, input: object) => Promise.resolve(input));
    const starts = async ({ client }: Perdure): Promise<void> => {
      await client.start(work, { n: 1 }, { id: 'a' });
      await client.runTask(job, { n: 1 }, { id: 'b' });
      await client.runTasks([{ task: job, input: { n: 1 }, options: { id: 'c' } }]);
    };
    for (const name of ['first', 'second', 'unsampled']) {
      const request = tracer.startSpan(name, {}, ROOT_CONTEXT);
      await context.with(trace.setSpan(ROOT_CONTEXT, request), () => starts(traced));
      request.end();
    }
    await starts(untraced);
    // Another input is another start.
    await expect(traced.client.start(work, { n: 2 }, { id: 'a' })).rejects.toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
    });

    // The first start has begun the trace of the work.
    await traced.startWorker({ orchestrations: [work], tasks: [job] });
    for (const id of ['a', 'b', 'c']) await traced.client.wait(id);
    const [first] = named(spans.finished(), 'first');
    await expect.poll(() => named(spans.finished(), 'turn work').length).toBe(1);
    const ran = spans.finished().filter(({ name }) => /^(?:turn|run) /.test(name));
    expect(ran).toHaveLength(3);
    expect(ran.every(({ traceId }) => traceId === first?.traceId)).toBe(true);
    expect(named(spans.finished(), 'start work')).toHaveLength(3);
  });

  it('a remote client sends its context in the header of the request', async () => {
    const remote = recordSpans();
    const worker = recordSpans();
    const perdure = await open(await newStore(kind), {
      telemetry: otel({ tracerProvider: worker.provider }),
    });
    const echo = activity('echo', (_ctx, text: string) => Promise.resolve(text));
    const hello = orchestration('hello', (ctx, text: string) => ctx.call(echo, text));
    const job = task('job', (_ctx, text: string) => Promise.resolve(text));
    await perdure.startWorker({ orchestrations: [hello], activities: [echo], tasks: [job] });
    const server = await serve(perdure, { port: 0 });
    cleanups.push(() => server.close());
    const connection = await Perdure.connect(server.url, {
      telemetry: otel({ tracerProvider: remote.provider }),
    });
    cleanups.push(() => connection.close());
    const { client } = connection;
    expect(await (await client.start(hello, 'a')).result()).toBe('a');
    expect(await (await client.runTask(job, 'b')).result()).toBe('b');
    expect(await client.submit(job, 'c').result()).toBe('c');
    expect(await client.submit(hello, 'd').result()).toBe('d');
    const parents = remote.finished().filter(({ name }) => name.startsWith('start '));
    expect(parents.map(({ name }) => name)).toEqual([
      'start hello',
      'start job',
      'start job',
      'start hello',
    ]);
    await expect.poll(() => named(worker.finished(), 'run job').length).toBe(2);
    // The server has made no spans of its own.
    expect(worker.finished().filter(({ name }) => name.startsWith('start '))).toEqual([]);
    const runs = worker.finished().filter(({ name }) => name.startsWith('run '));
    expect(new Set(runs.map(({ parentId }) => parentId))).toEqual(
      new Set(parents.map(({ spanId }) => spanId)),
    );
    expect(runs).toHaveLength(parents.length);
  });
});

describe.each(['local', 'remote'] as const)('updates (%s client)', (kind) => {
  it('an update has a span, and the turn that handles it links to the span', async () => {
    const caller = recordSpans();
    const worker = recordSpans();
    const perdure = await open(await newStore('SQLite'), {
      telemetry: otel({ tracerProvider: kind === 'local' ? caller.provider : worker.provider }),
    });
    const counted = orchestration('counted', async (ctx) => {
      ctx.onUpdate('add', { handle: (value) => Number(value) + 1 });
      return ctx.waitFor('end');
    });
    await perdure.startWorker({ orchestrations: [counted] });
    const server = await serve(perdure, { port: 0 });
    cleanups.push(() => server.close());
    const remote = await Perdure.connect(server.url, {
      telemetry: otel({ tracerProvider: caller.provider }),
    });
    cleanups.push(() => remote.close());
    const { client } = kind === 'local' ? perdure : remote;
    await client.start(counted, undefined, { id: 'c' });
    expect(await client.update('c', 'add', 1)).toBe(2);
    const [update, ...others] = named(caller.finished(), 'update add');
    expect(others).toEqual([]);
    expect(update).toMatchObject({
      kind: SpanKind.PRODUCER,
      attributes: { 'perdure.update': 'add', 'perdure.instance.id': 'c' },
    });
    const turns = named(kind === 'local' ? caller.finished() : worker.finished(), 'turn counted');
    expect(turns.filter(({ links }) => links.includes(update?.spanId ?? ''))).toHaveLength(1);
  });
});

describe.each(['local', 'remote'] as const)('schedules (%s client)', (kind) => {
  const work = task('work', () => Promise.resolve('done'));
  const hello = orchestration('hello', () => Promise.resolve('done'));

  /** Runs one tick and one trigger of a schedule for each definition. */
  async function run(sampler?: Sampler) {
    const spans = recordSpans(sampler);
    const telemetry = otel({ tracerProvider: spans.provider });
    const store = await newStore('SQLite');
    const perdure = await open(store, { telemetry });
    await perdure.startWorker({ orchestrations: [hello], tasks: [work] });
    const server = await serve(perdure, { port: 0 });
    cleanups.push(() => server.close());
    const remote = await Perdure.connect(server.url, { telemetry });
    cleanups.push(() => remote.close());
    const { client } = kind === 'local' ? perdure : remote;
    const cron = '* * * * * *';
    await client.schedules.put('tasks', { cron, task: work });
    await client.schedules.put('runs', { cron, orchestration: hello });
    const ticks = async (name: string) => (await client.schedules.get(name))?.lastRuns ?? [];
    for (const name of ['tasks', 'runs']) {
      await expect
        .poll(async () => (await ticks(name)).map(({ status }) => status), { timeout: 5_000 })
        .toContain('completed');
      await client.schedules.pause(name);
      const { id } = await client.schedules.trigger(name);
      await client.wait(id);
    }
    const of = (span: string, part: string) =>
      named(spans.finished(), span).filter(({ attributes }) =>
        String(attributes['perdure.instance.id']).includes(part),
      );
    await expect.poll(() => spans.open()).toBe(0);
    return { spans: spans.finished(), of, client, cron };
  }

  it('runs of ticks link to the last change of the schedule, and triggered ones have a parent', async () => {
    const { spans, of, client, cron } = await run();
    for (const [name, span] of [
      ['tasks', 'run work'],
      ['runs', 'turn hello'],
    ] as const) {
      const [put] = named(spans, `schedule ${name}`);
      expect(put?.attributes).toMatchObject({ 'perdure.schedule': name });
      const ticked = of(span, `${name}@2`);
      expect(ticked.length).toBeGreaterThan(0);
      for (const tick of ticked) {
        expect(tick).toMatchObject({ parentId: null, links: [put?.spanId] });
      }
      const [trigger] = named(spans, `trigger ${name}`);
      expect(of(span, `${name}@trigger-`)).toMatchObject([{ parentId: trigger?.spanId }]);
    }
    // The context is no change of the schedule.
    const before = await client.schedules.get('tasks');
    await client.schedules.put('tasks', { cron, task: work });
    expect((await client.schedules.get('tasks'))?.updatedAt).toBe(before?.updatedAt);
  });

  it('ticks of a schedule whose change was not sampled are sampled by themselves', async () => {
    const { of } = await run({
      shouldSample: (_context, _traceId, name) => ({
        decision: name.startsWith('schedule') ? 0 : 2,
      }),
      toString: () => 'NotSchedules',
    });
    const [tick] = of('run work', 'tasks@2');
    expect(tick).toMatchObject({ parentId: null, links: [] });
  });
});

describe('sampling and relation', () => {
  const first = activity(
    'first',
    (ctx) => {
      if (ctx.attempt < 2) throw new Error('again');
      return Promise.resolve(trace.getActiveSpan()?.spanContext().traceFlags);
    },
    { retry: { maxAttempts: 2, backoff: 'fixed', initialDelay: 1 } },
  );
  const hello = orchestration('hello', (ctx) => ctx.call(first));
  /** Samples spans whose name does not contain `unsampled`. */
  const byName: Sampler = {
    shouldSample: (_context, _traceId, name) => ({ decision: name.includes('unsampled') ? 0 : 2 }),
    toString: () => 'ByName',
  };

  async function run(spanName: string, options: Parameters<typeof otel>[0], sampler: Sampler) {
    const spans = recordSpans(sampler);
    const telemetry = otel({ tracerProvider: spans.provider, ...options });
    const perdure = await open(':memory:', { telemetry });
    await perdure.startWorker({ orchestrations: [hello], activities: [first] });
    const tracer = spans.provider.getTracer('application');
    const span = tracer.startSpan(spanName);
    const result = await context.with(trace.setSpan(context.active(), span), async () =>
      (await perdure.client.start(hello)).result(),
    );
    span.end();
    await perdure.close();
    return { spans: spans.finished(), result };
  }

  it('an unsampled caller has unsampled work, and sampled work links to a sampled caller', async () => {
    const never: Sampler = { shouldSample: () => ({ decision: 0 }), toString: () => 'Never' };
    const sampler = new ParentBasedSampler({ root: byName });
    const unsampled = await run('unsampled request', {}, sampler);
    expect(unsampled.spans).toEqual([]);
    // The handler runs below the unsampled context, so that its own spans are dropped too.
    expect(unsampled.result).toBe(TraceFlags.NONE);
    const following = new ParentBasedSampler({
      root: followLinks({
        ...never,
        shouldSample: (...args) => (args[2] === 'request' ? { decision: 2 } : { decision: 0 }),
      }),
    });
    const sampled = await run('request', {}, following);
    const [, retry] = named(sampled.spans, 'run first');
    const [start] = named(sampled.spans, 'start hello');
    expect(retry).toMatchObject({ parentId: null, links: [start?.spanId] });
  });

  it('the handler of an unsampled caller runs in the trace of the caller', async () => {
    const spans = recordSpans(new ParentBasedSampler({ root: byName }));
    const tracer = spans.provider.getTracer('application');
    const key = createContextKey('key');
    const nests = activity('nests', () => {
      const own = context.active().setValue(key, 'value');
      return Promise.resolve(
        context.with(own, () => {
          const inner = tracer.startSpan('inner');
          inner.end();
          const active = trace.getActiveSpan()?.spanContext();
          return [
            context.active().getValue(key),
            active?.spanId,
            inner.spanContext().traceId,
            trace.getSpan(context.active().deleteValue(key))?.spanContext().traceId,
          ];
        }),
      );
    });
    const nesting = orchestration('nesting', (ctx) => ctx.call(nests));
    const perdure = await open(':memory:', { telemetry: otel({ tracerProvider: spans.provider }) });
    await perdure.startWorker({ orchestrations: [nesting], activities: [nests] });
    const request = tracer.startSpan('unsampled request');
    const { traceId } = request.spanContext();
    const [value, activeId, ...traces] = await context.with(
      trace.setSpan(context.active(), request),
      async () => (await perdure.client.start(nesting)).result(),
    );
    expect([value, ...traces]).toEqual(['value', traceId, traceId]);
    expect(activeId).toMatch(/^[0-9a-f]{16}$/);
    expect(spans.finished()).toEqual([]);
  });

  it.each(['SQLite', 'PostgreSQL'] as const)(
    'work of an unsampled caller that another worker claims is unsampled, in the trace of the caller (%s)',
    async (kind) => {
      const spans = recordSpans(new ParentBasedSampler({ root: byName }));
      const store = await newStore(kind);
      const telemetry = otel({ tracerProvider: spans.provider });
      const ids = (): unknown => trace.getActiveSpan()?.spanContext();
      const reads = activity('reads', () => Promise.resolve(ids()));
      const reading = orchestration('reading', (ctx) => ctx.call(reads));
      const job = task('job', () => Promise.resolve(ids()));
      const caller = await open(store, { telemetry });
      const request = spans.provider.getTracer('application').startSpan('unsampled request');
      const [handle, run] = await context.with(trace.setSpan(context.active(), request), () =>
        Promise.all([caller.client.start(reading), caller.client.runTask(job)]),
      );
      const worker = await open(store, { telemetry });
      await worker.startWorker({ orchestrations: [reading], activities: [reads], tasks: [job] });
      const { traceId } = request.spanContext();
      const expected = { traceId, traceFlags: TraceFlags.NONE };
      expect(await handle.result()).toMatchObject(expected);
      expect(await run.result()).toMatchObject(expected);
      expect(spans.finished()).toEqual([]);
    },
  );

  it('relation: link and parent replace the rule', async () => {
    const always = new ParentBasedSampler({ root: byName });
    const parents = await run('request', { relation: 'parent' }, always);
    const links = await run('request', { relation: 'link' }, always);
    for (const { spans, isParent } of [
      { spans: parents.spans, isParent: true },
      { spans: links.spans, isParent: false },
    ]) {
      const [start] = named(spans, 'start hello');
      const later = spans.filter(({ name }) => /^(?:run|turn) /.test(name));
      expect(later.length).toBeGreaterThanOrEqual(4);
      for (const span of later) {
        expect(span.parentId).toBe(isParent ? start?.spanId : null);
        expect(span.links).toEqual(isParent ? [] : [start?.spanId]);
      }
    }
  });

  it('work after a step of the wall clock is still a child of its start', async () => {
    const now = Date.now.bind(Date);
    const spy = vi.spyOn(Date, 'now').mockImplementation(() => now() + 3_600_000);
    cleanups.push(() => spy.mockRestore());
    const { spans } = await run('request', {}, new ParentBasedSampler({ root: byName }));
    const [start] = named(spans, 'start hello');
    expect(named(spans, 'run first')[0]?.parentId).toBe(start?.spanId);
  });

  it('the span of a call that rejects has the error, and no span stays open', async () => {
    const spans = recordSpans();
    const perdure = await open(':memory:', { telemetry: otel({ tracerProvider: spans.provider }) });
    const { client } = perdure;
    await client.start('hello', 1, { id: 'a' });
    await expect(client.start('hello', 2, { id: 'a' })).rejects.toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
    });
    await expect(client.raiseEvent('unknown', 'go')).rejects.toMatchObject({
      code: 'INSTANCE_NOT_FOUND',
    });
    expect(spans.finished().map(({ name, status }) => [name, status])).toEqual([
      ['start hello', SpanStatusCode.UNSET],
      ['start hello', SpanStatusCode.ERROR],
      ['event go', SpanStatusCode.ERROR],
    ]);
    expect(spans.open()).toBe(0);
  });

  it('a cancel has a span, and instance spans are off by default', async () => {
    const spans = recordSpans();
    const perdure = await open(':memory:', { telemetry: otel({ tracerProvider: spans.provider }) });
    const waits = orchestration('waits', (ctx) => ctx.waitFor('never'));
    await perdure.startWorker({ orchestrations: [waits] });
    const handle = await perdure.client.start(waits, undefined, { id: 'w' });
    await handle.cancel({ wait: true });
    expect(named(spans.finished(), 'cancel')).toMatchObject([
      { kind: SpanKind.PRODUCER, attributes: { 'perdure.instance.id': 'w' } },
    ]);
    expect(spans.finished().filter(({ name }) => name.startsWith('instance '))).toEqual([]);
  });
});

describe('otel()', () => {
  it('turns and instances have exactly the times of what they describe', () => {
    const spans = recordSpans();
    const telemetry = otel({ tracerProvider: spans.provider, instanceSpans: true });
    const [startedAt, endedAt] = [1_700_000_000_000, 1_700_000_002_500];
    const common = { instanceId: 'a', trace: undefined, startedAt, endedAt };
    telemetry.turn({
      ...common,
      executionId: 1,
      orchestration: 'order',
      version: '1',
      events: 3,
      path: 'fast',
      status: 'running',
      causes: [],
    });
    telemetry.ended({ ...common, kind: 'orchestration', name: 'order', status: 'completed' });
    const expected = { kind: SpanKind.INTERNAL, startTime: startedAt, endTime: endedAt };
    expect(spans.finished()).toMatchObject([
      { name: 'turn order', ...expected },
      { name: 'instance order', ...expected },
    ]);
  });

  it.each([
    [{ relation: 'sibling' }, 'relation'],
    [{ instanceSpans: 1 }, 'instanceSpans'],
    [{ tracerProvider: {} }, 'tracerProvider'],
    [{ meterProvider: 'x' }, 'meterProvider'],
    [{ metricProducer: {} }, 'metricProducer'],
    [{ metricProducer: createMetricProducer(), meterProvider: metrics }, 'metricProducer'],
    [{ spans: true }, 'spans'],
  ])('throws INVALID_OPTION for %j', (options, name) => {
    expect(() => otel(options as never)).toThrow(name);
  });

  it('Perdure.open() and connect() reject other values as telemetry', async () => {
    await expect(Perdure.open(':memory:', { telemetry: {} as never })).rejects.toThrow('telemetry');
    await expect(Perdure.connect('http://127.0.0.1:1', { telemetry: {} as never })).rejects.toThrow(
      'telemetry',
    );
  });
});
