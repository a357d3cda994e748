import { describe, expect, it } from 'vitest';
import { drive, type TurnDriver } from '../../test/replay/turn-driver.ts';

const fanOut = (combine: 'native' | 'context'): TurnDriver =>
  drive(
    async (ctx, width: number) => {
      const calls = Array.from({ length: width }, (_, i) => ctx.call('work', i));
      const results = await (combine === 'native' ? Promise.all(calls) : ctx.all(calls));
      return results.length;
    },
    { alwaysReplay: false },
  );

/** CPU time of this process, in ms: other processes do not add to it. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** The cheapest of three runs, in ms of CPU time. */
async function cheapest(run: () => Promise<number>): Promise<number> {
  return Math.min(await run(), await run(), await run());
}

async function timeFanOut(combine: 'native' | 'context', width: number): Promise<number> {
  const run = fanOut(combine);
  const begin = cpuMs();
  await run.start(width);
  for (let i = 1; i <= width; i++) await run.turn(run.completed(i, i));
  expect(run.output).toBe(width);
  return cpuMs() - begin;
}

async function timeLoop(steps: number): Promise<number> {
  const run = drive(
    async (ctx) => {
      for (let i = 0; i < steps; i++) await ctx.call('step', i);
    },
    { alwaysReplay: false },
  );
  await run.start();
  const begin = cpuMs();
  for (let i = 1; i <= steps; i++) await run.turn(run.completed(i));
  expect(run.outcome?.kind).toBe('executionCompleted');
  return cpuMs() - begin;
}

describe('R9: the cost of a turn does not depend on the length of the history', () => {
  it.each(['native', 'context'] as const)(
    'a %s join 10,000 wide costs about ten times one of 1,000',
    async (combine) => {
      await timeFanOut(combine, 1_000);
      const narrow = await cheapest(() => timeFanOut(combine, 1_000));
      const wide = await cheapest(() => timeFanOut(combine, 10_000));
      // A join that scans all its members on every completion would take a hundred times as long.
      expect(wide / narrow).toBeLessThan(40);
    },
  );

  it('10,000 sequential steps take about ten times as long as 1,000', async () => {
    await timeLoop(1_000);
    const short = await cheapest(() => timeLoop(1_000));
    const long = await cheapest(() => timeLoop(10_000));
    expect(long / short).toBeLessThan(40);
  });

  it('a replay of 100,000 events yields to the event loop', async () => {
    const steps = 50_000;
    const run = drive(
      async (ctx) => {
        for (let i = 0; i < steps; i++) await ctx.call('step');
      },
      { alwaysReplay: false },
    );
    await run.start();
    await run.turn(...Array.from({ length: steps }, (_, i) => run.completed(i + 1)));
    expect(run.history).toHaveLength(2 * steps + 2);
    let rounds = 0;
    let isOver = false;
    const count = (): void => {
      rounds += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const cold = await run.replayed();
    isOver = true;
    expect(cold.ended).toBe(true);
    expect(rounds).toBeGreaterThanOrEqual(100);
  });
});
