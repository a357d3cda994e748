import { isPerdureError } from '../../../src/model/failures/errors.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import type { OrchestrationContext } from '../../../src/orchestration/orchestration-context.ts';
import type { Definitions } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import { notYet } from './not-yet.ts';
import type { WorkPart } from './workload.ts';

interface CollectorInput {
  readonly count: number;
  readonly got: readonly number[];
  /** After so many events it continues as new. */
  readonly againAt: number;
}

interface Collector {
  readonly id: string;
  readonly count: number;
  output?: readonly number[];
}

/** The input of the start that contradicts the first one. */
const otherInput: CollectorInput = { count: 99, got: [], againAt: 99 };

/** Orchestrations that collect events with keys, each raised twice, and starts that repeat or contradict another. */
export class EventWork implements WorkPart {
  readonly #simulation: Simulation;
  readonly #collectors: Collector[] = [];

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  define(_process: SimProcess): Definitions {
    const collector = orchestration(
      'collector',
      async (ctx: OrchestrationContext, input: CollectorInput): Promise<readonly number[]> => {
        const got = [...input.got];
        while (got.length < input.count) {
          got.push((await ctx.waitFor('item')) as number);
          if (got.length === input.againAt) return ctx.continueAsNew({ ...input, got, againAt: 0 });
        }
        // An event that was raised again would come now.
        const late = await ctx.race([ctx.waitFor('item'), ctx.sleep(300).then(() => undefined)]);
        if (late !== undefined) got.push(late as number);
        return got;
      },
    );
    return { orchestrations: [collector] };
  }

  begin(): void {
    const { world, fleet } = this.#simulation;
    const draw = (): number => world.decisions.draw('collector');
    for (const id of ['e-a', 'e-b']) {
      const count = 2 + Math.floor(draw() * 4);
      const againAt = draw() < 0.5 ? 1 + Math.floor(draw() * count) : 0;
      const startMs = Math.floor(draw() * 200);
      if (!world.decisions.happens(`start:${id}`, 0.9)) continue;
      const input: CollectorInput = { count, got: [], againAt };
      const run: Collector = { id, count };
      this.#collectors.push(run);
      for (const delayMs of [startMs, startMs + Math.floor(draw() * 50)]) {
        this.#simulation.act(
          () => fleet.clients[0],
          delayMs,
          `start ${id}`,
          async (client) => {
            const handle = await client.start('collector', input, { id });
            world.reached.add('program collector');
            run.output = (await handle.result()) as readonly number[];
          },
        );
      }
      this.#simulation.act(
        () => fleet.clients[1],
        startMs + 100,
        `start ${id} with another input`,
        async (client) => {
          if ((await client.get(id)) === undefined) throw notYet('start', 'not started');
          await this.#expectConflict(id, client.start('collector', otherInput, { id }));
        },
      );
      for (let item = 0; item < 2 * count; item++) {
        const value = item % count;
        this.#simulation.act(
          () => fleet.clients[item % 2],
          startMs + Math.floor(draw() * 700),
          `raise ${value} at ${id}`,
          async (client) => {
            try {
              await client.raiseEvent(id, 'item', value, { key: `item ${value}` });
            } catch (error) {
              // Its start may have no response yet.
              if (isPerdureError(error, 'INSTANCE_NOT_FOUND'))
                throw notYet('raiseEvent', 'not started', error);
              throw error;
            }
          },
        );
      }
    }
  }

  async #expectConflict(id: string, start: Promise<unknown>): Promise<void> {
    try {
      await start;
    } catch (error) {
      if (isPerdureError(error, 'INSTANCE_ALREADY_EXISTS')) return;
      throw error;
    }
    this.#simulation.world.violate(`${id} was started with another input`);
  }

  heal(): void {
    // All events are raised until they are stored.
  }

  unfinished(): readonly string[] {
    return this.#collectors.flatMap(({ id, output }) => (output === undefined ? [id] : []));
  }

  async check(): Promise<void> {
    const { world } = this.#simulation;
    for (const { id, count, output } of this.#collectors) {
      const expected = Array.from({ length: count }, (_, item) => item);
      const sorted = [...(output ?? [])].sort((a, b) => a - b);
      if (sorted.join() !== expected.join())
        world.violate(`${id} got the events ${sorted.join()}, not ${expected.join()}`);
    }
    await Promise.resolve();
  }
}
