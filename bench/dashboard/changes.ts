import { once } from 'node:events';
import { orchestration } from 'perdure';
import { percentile, type Figures } from '../benchmark.ts';
import { forkProgram } from '../fork-program.ts';
import { exists, inTab, timeLoad, type DashboardBench } from './tab.ts';

/** Ends at the event `go`. */
export const waitsForEvent = orchestration('waitsForEvent', async (ctx) => {
  await ctx.waitFor('go');
});

/** A6: from the call that changes an instance until its page shows it, with the call in this and in another process. */
export async function changeDelays(bench: DashboardBench): Promise<Figures> {
  const count = bench.quick ? 5 : 20;
  const program = await forkProgram('event-program.ts', [bench.store]);
  const same: number[] = [];
  const other: number[] = [];
  await inTab(bench, async (page) => {
    const measure = async (id: string, end: () => Promise<number>): Promise<number> => {
      await bench.client.start(waitsForEvent, undefined, { id });
      await timeLoad(page, `${bench.url}instances/${id}`, exists('.chip[data-st="running"]'));
      // Without a poll of this process, which would add its own delay.
      const shown = page.evaluate<number>(
        `new Promise((resolve) => {
          const look = () => ${exists('.chip[data-st="completed"]')} ? resolve(Date.now()) : requestAnimationFrame(look);
          look();
        })`,
      );
      const begunAt = await end();
      return (await shown) - begunAt;
    };
    for (let round = 0; round < count; round += 1) {
      const [here, there] = [`here-${round}`, `there-${round}`];
      same.push(
        await measure(here, async () => {
          const at = Date.now();
          await bench.client.raiseEvent(here, 'go');
          return at;
        }),
      );
      other.push(
        await measure(there, async () => {
          program.send(there);
          const [at] = (await once(program, 'message')) as [number];
          return at;
        }),
      );
    }
  });
  program.disconnect();
  return { sameProcessP95Ms: percentile(same, 0.95), otherProcessP95Ms: percentile(other, 0.95) };
}
