import { afterEach, describe, expect, it } from 'vitest';
import { activity, orchestration, Perdure, silentLogger, task } from '../../src/index.ts';
import type { Telemetry } from '../../src/otel.ts';
import { serve } from '../../src/server.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const fail = (): never => {
  throw new Error('telemetry is broken');
};

const sink = { counter: fail, histogram: fail, observe: fail };
/** Each method of it throws. */
const broken: Telemetry = { call: fail, attempt: fail, turn: fail, ended: fail, metrics: sink };
/** Makes spans whose methods throw, with a context that no header can carry. */
const brokenSpans: Telemetry = {
  ...broken,
  call: () => ({
    trace: {
      traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`,
      tracestate: `a=${'\n'.repeat(600)}`,
      at: Date.now(),
    },
    end: fail,
  }),
  attempt: () => ({ ids: undefined, run: fail, end: fail }),
};

const echo = activity('echo', (_ctx, text: string) => Promise.resolve(text));
const hello = orchestration('hello', async (ctx, text: string) => {
  await ctx.waitFor('go');
  return ctx.call(echo, text);
});
const job = task('job', (_ctx, text: string) => Promise.resolve(text));
const refuses = activity('refuses', () => {
  throw new Error('refused');
});
const bad = orchestration('bad', (ctx) => ctx.call(refuses));

describe.each([
  ['throws', broken],
  ['has spans that throw', brokenSpans],
])('telemetry that %s', (_, telemetry) => {
  it('fails no call, turn and attempt, locally and remotely', async () => {
    const perdure = await Perdure.open(':memory:', { logger: silentLogger, telemetry });
    cleanups.push(() => perdure.close());
    const worker = await perdure.startWorker({
      orchestrations: [hello, bad],
      activities: [echo, refuses],
      tasks: [job],
    });
    const server = await serve(perdure, { port: 0 });
    cleanups.push(() => server.close());
    const connection = await Perdure.connect(server.url, { telemetry });
    cleanups.push(() => connection.close());
    for (const client of [perdure.client, connection.client]) {
      const handle = await client.start(hello, 'a');
      await handle.raiseEvent('go');
      expect(await handle.result()).toBe('a');
      expect(await (await client.runTask(job, 'b')).result()).toBe('b');
      expect(await client.submit(job, 'c').result()).toBe('c');
      const canceled = await client.start(hello, 'd');
      await canceled.cancel({ wait: true });
      await expect((await client.start(bad)).result()).rejects.toThrow('refused');
    }
    // The slots of failed attempts are free again.
    await expect.poll(() => worker.metrics).toContain('perdure_process_slots{state="used"} 0');
  });
});

it('a logger that throws fails no turn and attempt', async () => {
  const perdure = await Perdure.open(':memory:', {
    logger: { debug: fail, info: fail, warn: fail, error: fail },
  });
  cleanups.push(() => perdure.close());
  const logs = activity('logs', (ctx) => {
    ctx.log.info({}, 'in the activity');
    return Promise.resolve('done');
  });
  const logsToo = orchestration('logsToo', (ctx) => {
    ctx.log.info({}, 'in the orchestration');
    return ctx.call(logs);
  });
  await perdure.startWorker({ orchestrations: [logsToo], activities: [logs] });
  expect(await (await perdure.client.start(logsToo)).result()).toBe('done');
});
