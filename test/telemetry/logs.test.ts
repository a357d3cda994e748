import { execFileSync } from 'node:child_process';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { activity, orchestration, Perdure, task, type Logger } from '../../src/index.ts';
import { otel } from '../../src/otel.ts';
import { recordSpans } from './span-recorder.ts';

interface Line {
  readonly level: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** A logger with the signature of pino, which uses `this`. */
class Pino implements Logger {
  readonly lines: Line[] = [];

  debug(fields: object, message: string): void {
    this.#write('debug', fields, message);
  }

  info(fields: object, message: string): void {
    this.#write('info', fields, message);
  }

  warn(fields: object, message: string): void {
    this.#write('warn', fields, message);
  }

  error(fields: object, message: string): void {
    this.#write('error', fields, message);
  }

  #write(level: string, fields: object, message: string): void {
    this.lines.push({ level, fields: fields as Line['fields'], message });
  }
}

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const charge = activity('charge', (ctx) => {
  ctx.log.info({ own: 1 }, 'charging');
  return Promise.resolve('charged');
});
const order = orchestration('order', async (ctx) => {
  ctx.log.info({}, 'begun');
  return ctx.call(charge);
});
const mail = task('mail', (ctx) => {
  ctx.log.warn({ attempt: 'mine' }, 'sending');
  return Promise.resolve();
});
const definitions = { orchestrations: [order], activities: [charge], tasks: [mail] };

async function run(options: Parameters<typeof Perdure.open>[1]): Promise<void> {
  const perdure = await Perdure.open(':memory:', options);
  cleanups.push(() => perdure.close());
  await perdure.startWorker(definitions);
  await (await perdure.client.start(order, undefined, { id: 'order-1' })).result();
  await (await perdure.client.runTask(mail, undefined, { id: 'mail-1' })).result();
}

describe('ctx.log', () => {
  it('has the ids of instance, operation, attempt, trace and span', async () => {
    const logger = new Pino();
    const spans = recordSpans();
    await run({ logger, telemetry: otel({ tracerProvider: spans.provider }) });
    await expect.poll(() => spans.finished().length).toBeGreaterThanOrEqual(6);
    const byName = (name: string) => spans.finished().find((span) => span.name === name);
    const ids = (name: string) => ({
      traceId: byName(name)?.traceId,
      spanId: byName(name)?.spanId,
    });
    const own = logger.lines.filter(({ message }) => /^(?:begun|charging|sending)$/.test(message));
    expect(own).toEqual([
      {
        level: 'info',
        message: 'begun',
        fields: {
          instanceId: 'order-1',
          executionId: 1,
          orchestration: 'order',
          ...ids('start order'),
        },
      },
      {
        level: 'info',
        message: 'charging',
        fields: {
          instanceId: 'order-1',
          executionId: 1,
          orchestration: 'order',
          activity: 'charge',
          operation: 1,
          attempt: 1,
          own: 1,
          ...ids('run charge'),
        },
      },
      {
        level: 'warn',
        message: 'sending',
        // A field of the line wins.
        fields: { instanceId: 'mail-1', task: 'mail', attempt: 'mine', ...ids('run mail') },
      },
    ]);
  });

  it('fits the console, and has no trace ids without telemetry', async () => {
    const info = vi.spyOn(console, 'info').mockImplementation(() => undefined);
    vi.spyOn(console, 'debug').mockImplementation(() => undefined);
    vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    cleanups.push(() => vi.restoreAllMocks());
    await run({ logger: console });
    expect(info.mock.calls).toContainEqual([
      expect.objectContaining({ instanceId: 'order-1', attempt: 1, own: 1 }),
      'charging',
    ]);
    expect(JSON.stringify(info.mock.calls)).not.toContain('traceId');
  });
});

it('the hooks of failed instances and task runs get the error', async () => {
  const errors: unknown[] = [];
  const perdure = await Perdure.open(':memory:', { logger: new Pino() });
  cleanups.push(() => perdure.close());
  const fails = orchestration('fails', () => Promise.reject(new TypeError('no account')));
  const breaks = task('breaks', () => Promise.reject(new RangeError('no host')));
  await perdure.startWorker({
    orchestrations: [fails],
    tasks: [breaks],
    hooks: {
      turnCommitted: ({ status, error }) => errors.push([status, error?.message]),
      taskEnded: ({ status, error }) => errors.push([status, error?.message]),
    },
  });
  await expect((await perdure.client.start(fails)).result()).rejects.toThrow('no account');
  await expect((await perdure.client.runTask(breaks)).result()).rejects.toThrow('no host');
  expect(errors).toEqual([
    ['failed', 'no account'],
    ['failed', 'no host'],
  ]);
});

it('importing perdure, its server and its remote client loads no module of OpenTelemetry', () => {
  const source = (name: string): string =>
    JSON.stringify(new URL(`../../src/${name}.ts`, import.meta.url).href);
  const load = (names: readonly string[]): string =>
    execFileSync(
      process.execPath,
      [
        '--input-type=module',
        '--eval',
        `import { createRequire } from 'node:module';
         ${names.map((name) => `await import(${source(name)});`).join('\n')}
         const { cache } = createRequire(import.meta.url);
         console.log(Object.keys(cache).filter((path) => path.includes('opentelemetry')).length);`,
      ],
      { encoding: 'utf8', cwd: new URL('../..', import.meta.url) },
    ).trim();
  expect(load(['index', 'server', 'remote', 'flows', 'testing'])).toBe('0');
  expect(Number(load(['otel']))).toBeGreaterThan(0);
});
