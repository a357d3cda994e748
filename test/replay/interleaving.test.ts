import { describe, expect, it } from 'vitest';
import { installDeterministicGlobals } from '../../src/orchestration/deterministic-globals.ts';
import { drive, type TurnDriver } from './turn-driver.ts';

installDeterministicGlobals();

/** An instance whose output shows any value, time or random number of another instance. */
function instance(index: number): TurnDriver {
  const run = drive(
    async (ctx, me: number) => {
      const helper = async (tag: string) => {
        const value = await ctx.call(`work-${me}`, tag);
        await Promise.resolve();
        return [value, ctx.instanceId, Date.now() === ctx.now()];
      };
      const parallel = await Promise.all(['x', 'y', 'z'].map(helper));
      const random = Math.random();
      const event = await ctx.waitFor('go');
      return { me, parallel, event, random, later: await helper('last') };
    },
    { instanceId: `i-${index}`, incarnation: `i-${index}` },
  );
  run.nowMs = 1_000_000 + index * 7;
  return run;
}

describe('a thousand interleaved instances', () => {
  it('1,000 interleaved instances share no values, time or randomness, warm or replayed', async () => {
    const runs = Array.from({ length: 1_000 }, (_, index) => instance(index));
    const each = (act: (run: TurnDriver, index: number) => Promise<unknown>) =>
      Promise.all(runs.map(act));
    await each((run, index) => run.start(index));
    await each((run, index) =>
      run.turn(run.completed(1 + (index % 3), index), run.completed(1 + ((index + 1) % 3), index)),
    );
    await each((run, index) => run.turn(run.completed(1 + ((index + 2) % 3), index)));
    await each((run, index) => run.turn(run.raised('go', -index)));
    await each((run, index) => run.turn(run.completed(5, index)));
    const randoms = new Set<number>();
    runs.forEach((run, index) => {
      const seen = [index, `i-${index}`, true];
      const output = run.output as { random: number };
      randoms.add(output.random);
      expect(output).toEqual({
        me: index,
        parallel: [seen, seen, seen],
        event: -index === 0 ? 0 : -index,
        random: output.random,
        later: seen,
      });
      expect(
        run.history.every(
          (event) =>
            !('name' in event) || !event.name.startsWith('work-') || event.name === `work-${index}`,
        ),
      ).toBe(true);
    });
    expect(randoms.size).toBe(1_000);
  });
});
