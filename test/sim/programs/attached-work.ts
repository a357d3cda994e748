import { isPerdureError, ProviderError } from '../../../src/model/failures/errors.ts';
import { flow } from '../../../src/flows.ts';
import { task } from '../../../src/tasks/task.ts';
import type { Definitions } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import type { WorkPart } from './workload.ts';

const chunkCount = 3;

/** Flows, schedules with retention, and jobs with sessions and streams. */
export class AttachedWork implements WorkPart {
  readonly #simulation: Simulation;
  readonly #open = new Set<string>();
  #ticks = 0;
  #hasSchedule = false;
  #putAt = Infinity;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  define(process: SimProcess): Definitions {
    const { claims, world } = this.#simulation;
    const pass = (): Promise<void> =>
      new Promise((resolve) => {
        world.add(
          process,
          'works',
          resolve,
          world.decisions.pick(`handler ms:${process.name}`, 30),
        );
      });
    const chatty = task(
      'chatty',
      async (ctx, input: string) => {
        claims.started(process, ctx.idempotencyKey, ctx.signal);
        for (let chunk = 0; chunk < chunkCount; chunk++) {
          await ctx.emit(chunk);
          await pass();
          ctx.throwIfCanceled();
        }
        return `c:${input}`;
      },
      { retry: { maxAttempts: 3, initialDelay: 20 } },
    );
    const tick = task('tick', async (ctx) => {
      claims.started(process, ctx.idempotencyKey, ctx.signal);
      await pass();
      this.#ticks += 1;
    });
    const policies = [{ names: 'tick', keepFor: 400 }];
    const retention = { policies, interval: '1s' };
    return { tasks: [chatty, tick], flows: [this.#diamond(pass)], retention };
  }

  #diamond(pass: () => Promise<void>) {
    return flow('diamond')
      .input<number>()
      .step('top', async (_, { input }) => {
        await pass();
        return input + 1;
      })
      .step('left', { needs: ['top'] }, async (_, { top }) => {
        await pass();
        return top * 10;
      })
      .step('right', { needs: ['top'] }, (_, { top }) => `<${top}>`)
      .step('bottom', { needs: ['left', 'right'] }, (_, { left, right }) => `${left} ${right}`)
      .output();
  }

  begin(): void {
    const { decisions } = this.#simulation.world;
    const delays = Array.from({ length: 5 }, () => Math.floor(decisions.draw('attached') * 800));
    if (decisions.happens('flow', 0.5)) this.#runFlow(delays[0] ?? 0);
    if (decisions.happens('schedule', 0.4)) this.#runSchedule(delays[1] ?? 0);
    if (decisions.happens('job', 0.5)) this.#runJob('j0', delays[2] ?? 0);
    if (decisions.happens('job', 0.3)) this.#runJob('j1', delays[3] ?? 0);
  }

  #runFlow(delayMs: number): void {
    const { world, fleet } = this.#simulation;
    this.#open.add('flow');
    const diamond = this.#diamond(() => Promise.resolve());
    this.#simulation.act(
      () => fleet.clients[0],
      delayMs,
      'run a flow',
      async (client) => {
        const run = await client.runFlow(diamond, 4, { id: 'd0' });
        const output = await run.result();
        if (output !== '50 <5>') world.violate(`the flow returned ${JSON.stringify(output)}`);
        this.#open.delete('flow');
      },
    );
  }

  #runSchedule(delayMs: number): void {
    const { fleet, world } = this.#simulation;
    this.#hasSchedule = true;
    this.#open.add('schedule');
    this.#simulation.act(
      () => fleet.clients[1],
      delayMs,
      'put a schedule',
      async (client) => {
        await client.schedules.put('every', { every: '1s', task: 'tick', overlap: 'skip' });
        this.#putAt = Math.min(this.#putAt, world.now);
      },
    );
  }

  #runJob(id: string, delayMs: number): void {
    const { world, fleet } = this.#simulation;
    this.#open.add(id);
    const closesEarly = world.decisions.happens('close job', 0.25);
    this.#simulation.act(
      () => fleet.clients[1],
      delayMs,
      `job ${id}`,
      async (client) => {
        const session = await client.openSession({ idleTimeout: '5s' });
        try {
          const job = session.submit('chatty', id, { kind: 'task' });
          const chunks: unknown[] = [];
          for await (const chunk of job.stream<number>()) {
            chunks.push(chunk);
            if (closesEarly) break;
          }
          if (!closesEarly) {
            const output = await job.result();
            if (output !== `c:${id}`) world.violate(`job ${id} returned ${JSON.stringify(output)}`);
            // A repeated attempt, or a commit with an unknown outcome, emits chunks again.
            const distinct = chunks.filter((chunk, index) => chunk !== chunks[index - 1]);
            const last = distinct.slice(-chunkCount).join();
            if (last !== '0,1,2') world.violate(`job ${id} streamed ${chunks.join()}`);
          }
        } catch (error) {
          if (error instanceof ProviderError || !isPerdureError(error)) throw error;
          // A client that is stopped for long loses its session; an attempt can fail for good.
          world.note(`job ${id} ended with ${error.code}`);
        } finally {
          await session.close();
        }
        this.#open.delete(id);
      },
    );
  }

  heal(): void {
    const { world, fleet } = this.#simulation;
    if (!this.#hasSchedule) return;
    const elapsedMs = world.now;
    this.#simulation.act(
      () => fleet.clients[1],
      1_500,
      'delete the schedule',
      async (client) => {
        const runs = this.#countTicks();
        const most = Math.floor((elapsedMs + 3_000) / 1_000) + 1;
        if (runs > most)
          world.violate(`the schedule started ${runs} runs, at most ${most} are due`);
        if (this.#ticks === 0 && world.now > this.#putAt + 3_000) {
          world.violate('the schedule started no run');
        }
        await client.schedules.delete('every');
        this.#open.delete('schedule');
      },
    );
  }

  #countTicks(): number {
    const { db } = this.#simulation.store;
    const sql = `SELECT count(*) FROM instances WHERE instance_id LIKE 'every@%'`;
    return db.prepare<[], number>(sql).pluck().get() ?? 0;
  }

  /** Sessions of clients that were killed end by themselves. */
  unfinished(): readonly string[] {
    return [...this.#open];
  }
}
