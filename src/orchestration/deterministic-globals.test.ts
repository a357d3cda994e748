import nodeCrypto, { randomBytes, randomUUID } from 'node:crypto';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { hrtime } from 'node:process';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { drive } from '../../test/replay/turn-driver.ts';
import { installDeterministicGlobals } from './deterministic-globals.ts';

const real = {
  Date: globalThis.Date,
  random: Math.random,
  setTimeout: globalThis.setTimeout,
};

beforeAll(() => {
  installDeterministicGlobals();
});

/** Evaluates an expression inside an orchestration whose time is 86,400,000. */
async function inside(code: () => unknown): Promise<unknown> {
  const run = drive(async () => code());
  run.nowMs = 86_400_000;
  await run.start();
  return run.output;
}

describe('inside an orchestration', () => {
  it('dates return the time of the last event', async () => {
    expect(await inside(() => Date.now())).toBe(86_400_000);
    expect(await inside(() => new Date().toISOString())).toBe('1970-01-02T00:00:00.000Z');
    expect(await inside(() => new Date(5).getTime())).toBe(5);
    expect(await inside(() => Date() === new Date(86_400_000).toString())).toBe(true);
    expect(await inside(() => Reflect.construct(Date, []) instanceof Date)).toBe(true);
  });

  it('time advances with events, and performance.now() with it', async () => {
    const run = drive(async (ctx) => {
      const times = [[Date.now(), performance.now()]];
      await ctx.call('a');
      times.push([Date.now(), performance.now()]);
      return times;
    });
    await run.start();
    await run.turn(run.completed(1));
    expect(run.output).toEqual([
      [1_000, 0],
      [1_010, 10],
    ]);
  });

  it('formatters without a date format the time of the last event', async () => {
    const formatter = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeZone: 'UTC' });
    const format: () => string = Reflect.get(formatter, 'format');
    const parts = formatter.formatToParts(86_400_000);
    expect(await inside(() => formatter.format())).toBe('Jan 2, 1970');
    expect(await inside(() => format())).toBe('Jan 2, 1970');
    expect(await inside(() => formatter.format(0))).toBe('Jan 1, 1970');
    expect(await inside(() => formatter.formatToParts())).toEqual(parts);
    const local = new Intl.DateTimeFormat().format(86_400_000);
    expect(await inside(() => Intl.DateTimeFormat().format())).toBe(local);
  });

  it('process.hrtime, process.uptime and performance.timeOrigin follow the time of the events', async () => {
    const run = drive(async (ctx) => {
      const before = process.hrtime();
      const since = process.hrtime.bigint();
      await ctx.call('a');
      return [
        before,
        process.hrtime(),
        process.hrtime(before),
        process.hrtime([0, 4_000_000]),
        hrtime(),
        String(process.hrtime.bigint() - since),
        process.uptime(),
        performance.timeOrigin + performance.now(),
      ];
    });
    await run.start();
    await run.turn(run.completed(1));
    const later = [0, 10_000_000];
    expect(run.output).toEqual([
      [0, 0],
      later,
      later,
      [0, 6_000_000],
      later,
      '10000000',
      0.01,
      1_010,
    ]);
  });

  it('random numbers and UUIDs are the same in every replay', async () => {
    const draw = () => [
      Math.random(),
      crypto.randomUUID(),
      nodeCrypto.randomUUID(),
      randomUUID({ disableEntropyCache: true }),
    ];
    const first = (await inside(draw)) as unknown[];
    expect(await inside(draw)).toEqual(first);
    expect(new Set(first).size).toBe(4);
  });

  it.each([
    ['setTimeout', () => setTimeout(() => undefined, 1), 'ctx.sleep()'],
    ['setInterval', () => setInterval(() => undefined, 1), 'ctx.sleep() in a loop'],
    ['setImmediate', () => setImmediate(() => undefined), 'plain awaits'],
    ['fetch', () => fetch('http://localhost:1'), 'an activity that fetches'],
    ['getRandomValues', () => crypto.getRandomValues(new Uint8Array(1)), 'ctx.uuid()'],
    ['getRandomValues', () => nodeCrypto.getRandomValues(new Uint8Array(1)), 'ctx.uuid()'],
    ['randomBytes', () => randomBytes(1), 'ctx.uuid()'],
    ['randomInt', () => nodeCrypto.randomInt(2), 'ctx.random()'],
    ['randomFillSync', () => nodeCrypto.randomFillSync(Buffer.alloc(1)), 'an activity for keys'],
    [
      'generateKeySync',
      () => nodeCrypto.generateKeySync('hmac', { length: 64 }),
      'an activity for keys',
    ],
  ] as const)('%s throws with a hint of what to use instead', async (name, use, hint) => {
    const run = drive(async () => use());
    await run.start();
    expect(run.failure).toMatchObject({ code: 'FORBIDDEN_IN_ORCHESTRATION' });
    expect(run.failure.message).toContain(`${name}() cannot be used in an orchestration`);
    expect(run.failure.message).toContain(hint);
  });
});

describe('outside an orchestration', () => {
  it('dates return the system time', () => {
    const before = real.Date.now();
    expect(Date.now()).toBeGreaterThanOrEqual(before);
    expect(Math.abs(new Date().getTime() - Date.now())).toBeLessThan(5_000);
    expect(Date()).toContain(String(new Date().getFullYear()));
    expect(performance.now()).not.toBe(performance.timeOrigin);
  });

  it('all features of Date work', () => {
    expect(new Date(2020, 1, 2, 3, 4, 5, 6).getMonth()).toBe(1);
    expect(new Date('2020-01-01T00:00:00Z').toISOString()).toBe('2020-01-01T00:00:00.000Z');
    expect(Date.parse('1970-01-01T00:00:01Z')).toBe(1_000);
    expect(Date.UTC(1970, 0, 1)).toBe(0);
    expect([Date.name, Date.length]).toEqual(['Date', 7]);
    expect(new Date() instanceof Date).toBe(true);
    expect(new real.Date() instanceof Date).toBe(true);
    expect(new Date() instanceof real.Date).toBe(true);
    expect(new Date().constructor).toBe(Date);
    expect(structuredClone(new Date(7))).toEqual(new Date(7));
  });

  it('Date can be subclassed', () => {
    class Birthday extends Date {
      readonly isBirthday = true;
    }
    const birthday = new Birthday(5);
    expect(birthday instanceof Birthday && birthday instanceof Date).toBe(true);
    expect(birthday.isBirthday && birthday.getTime()).toBe(5);
    expect(new Birthday().getTime()).toBeGreaterThan(1_000_000);
    expect(Object.getPrototypeOf(birthday)).toBe(Birthday.prototype);
  });

  it('timers, ticks and promisified timers work', async () => {
    await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise<void>((resolve) => process.nextTick(resolve));
    expect(await promisify(setTimeout)(1, 'value')).toBe('value');
    expect(setTimeout.name).toBe(real.setTimeout.name);
  });

  it('random values differ', () => {
    expect(Math.random()).not.toBe(Math.random());
    expect(crypto.randomUUID()).not.toBe(crypto.randomUUID());
    expect(randomUUID()).toMatch(/^[\w-]{36}$/);
  });

  it('formatters, clocks and random bytes are not patched', () => {
    const formatter = new Intl.DateTimeFormat('en', { year: 'numeric' });
    expect(formatter.format()).toBe(formatter.format(real.Date.now()));
    expect(Reflect.get(formatter, 'format')).toBe(Reflect.get(formatter, 'format'));
    expect(formatter.formatToParts()).toEqual(formatter.formatToParts(real.Date.now()));
    const format: (date: number) => string = Reflect.get(formatter, 'format');
    expect([0, 0].map((date) => format(date))).toEqual(['1970', '1970']);
    expect(process.hrtime()[0]).toBeGreaterThan(0);
    expect(process.hrtime(process.hrtime())[0]).toBe(0);
    expect(process.hrtime.bigint() < process.hrtime.bigint()).toBe(true);
    expect(process.uptime()).toBeGreaterThan(0);
    expect(Math.abs(performance.timeOrigin + performance.now() - Date.now())).toBeLessThan(60_000);
    expect(crypto.getRandomValues(new Uint8Array(32))).not.toEqual(new Uint8Array(32));
    expect(nodeCrypto.getRandomValues(new Uint8Array(32))).not.toEqual(new Uint8Array(32));
    expect(formatter.format(null as never)).toBe('1970');
    expect(randomBytes(32)).not.toEqual(randomBytes(32));
    expect(() => formatter.format(Number.NaN)).toThrow(RangeError);
  });

  it('a second installation has no effect', () => {
    const { Date: date, setTimeout: timeout } = globalThis;
    installDeterministicGlobals();
    expect(globalThis.Date).toBe(date);
    expect(globalThis.setTimeout).toBe(timeout);
  });
});

describe('a separate process', () => {
  const program = join(import.meta.dirname, '../../test/replay/programs/globals.ts');
  const run = async (mode: string) =>
    (await promisify(execFile)(process.execPath, [program, mode])).stdout.trim().split('\n');

  it('can log from an orchestration with console and ctx.log, with a sink that uses timers', async () => {
    expect(await run('install')).toEqual([
      'console line',
      'sink line after a timer',
      'returned 1970-01-01T00:00:01.000Z',
    ]);
  });

  // A separate process, because vitest restores the real nextTick while it reports a test.
  it('throws for process.nextTick in an orchestration', async () => {
    expect(await run('tick')).toEqual([
      'FORBIDDEN_IN_ORCHESTRATION nextTick() cannot be used in an orchestration: its effect would not survive a crash or a replay. Use queueMicrotask(), or a plain await.',
    ]);
  });

  it('keeps its globals if the patch is not installed', async () => {
    const [line, ...others] = await run('leave');
    expect(line).toBe('console line');
    expect(others.at(-1)).not.toContain('1970');
  });
});
