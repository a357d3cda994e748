import nodeCrypto, { randomUUID } from 'node:crypto';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
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

/** What an expression is inside an orchestration whose time is 86,400,000. */
async function inside(code: () => unknown): Promise<unknown> {
  const run = drive(async () => code());
  run.nowMs = 86_400_000;
  await run.start();
  return run.output;
}

describe('inside an orchestration', () => {
  it('dates show the time of the last event', async () => {
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
  ] as const)('%s throws with a hint of what to use instead', async (name, use, hint) => {
    const run = drive(async () => use());
    await run.start();
    expect(run.failure).toMatchObject({ code: 'FORBIDDEN_IN_ORCHESTRATION' });
    expect(run.failure.message).toContain(`${name}() cannot be used in an orchestration`);
    expect(run.failure.message).toContain(hint);
  });
});

describe('outside an orchestration', () => {
  it('dates are real', () => {
    const before = real.Date.now();
    expect(Date.now()).toBeGreaterThanOrEqual(before);
    expect(Math.abs(new Date().getTime() - Date.now())).toBeLessThan(5_000);
    expect(Date()).toContain(String(new Date().getFullYear()));
    expect(performance.now()).not.toBe(performance.timeOrigin);
  });

  it('everything that Date can do still works', () => {
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

  it('randomness is random', () => {
    expect(Math.random()).not.toBe(Math.random());
    expect(crypto.randomUUID()).not.toBe(crypto.randomUUID());
    expect(randomUUID()).toMatch(/^[\w-]{36}$/);
  });

  it('a second installation changes nothing', () => {
    const { Date: date, setTimeout: timeout } = globalThis;
    installDeterministicGlobals();
    expect(globalThis.Date).toBe(date);
    expect(globalThis.setTimeout).toBe(timeout);
  });
});

describe('a process of its own', () => {
  const program = join(import.meta.dirname, '../../test/replay/programs/globals.ts');
  const run = async (mode: string) =>
    (await promisify(execFile)(process.execPath, [program, mode])).stdout.trim().split('\n');

  it('may log from an orchestration with console and with ctx.log, whatever the sink does', async () => {
    expect(await run('install')).toEqual([
      'console line',
      'sink line after a timer',
      'returned 1970-01-01T00:00:01.000Z',
    ]);
  });

  // Not in this process: while it reports a test, vitest puts the real nextTick back for a moment.
  it('may not use process.nextTick in an orchestration', async () => {
    expect(await run('tick')).toEqual([
      'FORBIDDEN_IN_ORCHESTRATION nextTick() cannot be used in an orchestration: its effect would not survive a crash or a replay. Use queueMicrotask(), or a plain await.',
    ]);
  });

  it('keeps its globals when nobody installs the patch', async () => {
    const [line, ...others] = await run('leave');
    expect(line).toBe('console line');
    expect(others.at(-1)).not.toContain('1970');
  });
});
