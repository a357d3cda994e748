import type Database from 'better-sqlite3';
import { isPerdureError, ProviderError } from '../../../src/model/failures/errors.ts';
import { flow } from '../../../src/flows.ts';
import { task } from '../../../src/tasks/task.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { Definitions } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import type { WorkPart } from './workload.ts';

const chunkCount = 3;
const retry = { maxAttempts: 3, initialDelay: 20 } as const;
/** With this value, the first attempt of a step of the flow fails. */
const failingTop = 6;
const overlaps = ['skip', 'allow', 'buffer', 'cancelRunning'] as const;

/** Retention of ended runs of the schedule. */
const keepMs = 400;
const sweepMs = 1_000;
/** A sweeper waits up to a tenth of the interval longer, and a sweep takes several calls. */
const sweepSlackMs = 800;
/** The clock of a sweeper is an estimate of the store's. */
const clockErrorMs = 5;
/** With these faults, a sweeper may hold its lease of a minute without sweeping. */
const delaysSweeps = ['kill', 'gracefulStop', 'failBefore', 'failAfter', 'slow', 'stop'] as const;

/** Errors of jobs that faults explain: a client that is suspended for long loses its session, and with it its jobs. */
const faultCodes: ReadonlySet<string> = new Set(['SESSION_CLOSED']);

interface StartedContext {
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
}

interface EndedTick {
  readonly id: string;
  readonly endedAt: number;
}

/** Flows, schedules with retention, and jobs with sessions and streams. */
export class AttachedWork implements WorkPart {
  readonly #simulation: Simulation;
  readonly #open = new Set<string>();
  #ticks = 0;
  #hasSchedule = false;
  #isTriggered = false;
  #putAt = Infinity;
  /** The ends of the runs of the schedule, by the store's clock. */
  readonly #endedAt = new Map<string, number>();
  #selectEnded: Database.Statement<[], EndedTick> | undefined;

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
          const emitted = ctx.emit(chunk);
          // The attempt ends only after its last chunk is stored, although the handler does not await it.
          if (chunk === chunkCount - 1) emitted.catch(() => undefined);
          else await emitted;
          if (chunk < chunkCount - 1) await pass();
          ctx.throwIfCanceled();
        }
        return `c:${input}`;
      },
      { retry },
    );
    const tick = task('tick', async (ctx) => {
      claims.started(process, ctx.idempotencyKey, ctx.signal);
      this.#ticks += 1;
      await pass();
    });
    const policies = [{ names: 'tick', keepFor: keepMs }];
    const retention = { policies, interval: sweepMs };
    return { tasks: [chatty, tick], flows: [this.#diamond(pass, process)], retention };
  }

  #diamond(pass: () => Promise<void>, process?: SimProcess) {
    const started = (ctx: StartedContext): void => {
      if (process !== undefined)
        this.#simulation.claims.started(process, ctx.idempotencyKey, ctx.signal);
    };
    return flow('diamond')
      .input<number>()
      .step('top', async (ctx, { input }) => {
        started(ctx);
        await pass();
        return input + 1;
      })
      .step('left', { needs: ['top'], retry }, async (ctx, { top }) => {
        started(ctx);
        await pass();
        if (top === failingTop && ctx.attempt === 1) throw new Error('the first attempt fails');
        return top * 10;
      })
      .step('right', { needs: ['top'] }, (ctx, { top }) => {
        started(ctx);
        return `<${top}>`;
      })
      .step('bottom', { needs: ['left', 'right'] }, (ctx, { left, right }) => {
        started(ctx);
        return `${left} ${right}`;
      })
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
    const input = world.decisions.happens('flow fails', 0.5) ? failingTop - 1 : 4;
    this.#simulation.act(
      () => fleet.clients[0],
      delayMs,
      'run a flow',
      async (client) => {
        const run = await client.runFlow(diamond, input, { id: 'd0' });
        const output = await run.result();
        world.reached.add('program flow');
        if (output !== `${input + 1}0 <${input + 1}>`)
          world.violate(`the flow returned ${JSON.stringify(output)}`);
        this.#open.delete('flow');
      },
    );
  }

  #runSchedule(delayMs: number): void {
    const { fleet, world } = this.#simulation;
    this.#hasSchedule = true;
    this.#open.add('schedule');
    const overlap = overlaps[world.decisions.pick('overlap', overlaps.length)] ?? 'skip';
    this.#isTriggered = world.decisions.happens('trigger', 0.4);
    const pauseMs = world.decisions.happens('pause schedule', 0.3)
      ? Math.floor(world.decisions.draw('pause ms') * 500)
      : 0;
    this.#simulation.act(
      () => fleet.clients[1],
      delayMs,
      'put a schedule',
      async (client) => {
        await client.schedules.put('every', { every: '1s', task: 'tick', overlap });
        this.#putAt = Math.min(this.#putAt, world.now);
        world.reached.add(`program schedule ${overlap}`);
        if (this.#isTriggered) await client.schedules.trigger('every', { key: 'now' });
        if (pauseMs === 0) return;
        await client.schedules.pause('every');
        await new Promise<void>((resolve) => {
          world.add(world.store, 'pauses the schedule', resolve, pauseMs);
        });
        await client.schedules.resume('every');
      },
    );
  }

  #runJob(id: string, delayMs: number): void {
    const { world, fleet } = this.#simulation;
    this.#open.add(id);
    const closesEarly = world.decisions.happens('close job', 0.25);
    const drains = world.decisions.happens('drain session', 0.4);
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
            const isRight = last === '0,1,2' && (!this.#isCalm || chunks.length === chunkCount);
            if (!isRight) world.violate(`job ${id} streamed ${chunks.join()}`);
          }
          // The drain waits for the job that its caller has left.
          if (drains) await session.shutdown('graceful');
          world.reached.add(`program session ${drains ? 'drained' : 'closed'}`);
        } catch (error) {
          if (error instanceof ProviderError || !isPerdureError(error)) throw error;
          world.note(`job ${id} ended with ${error.code}`);
          if (this.#isCalm || !faultCodes.has(error.code)) {
            world.violate(`job ${id} ended with ${error.code}`);
          }
          world.reached.add(`job ${error.code}`);
        } finally {
          await session.close();
        }
        this.#open.delete(id);
      },
    );
  }

  /** No fault explains an error or a repeated attempt. */
  get #isCalm(): boolean {
    const { rates, burns } = this.#simulation.weather;
    return Object.keys(rates).length === 0 && !burns;
  }

  observe({ method, args, result }: ObservedCall): void {
    if (!this.#hasSchedule) return;
    if (method === 'deleteInstancesAtomic') this.#expectKept(args, result);
    for (const { id, endedAt } of this.#endedTicks()) this.#endedAt.set(id, endedAt);
  }

  /** No run of the schedule is deleted before its time. */
  #expectKept(args: readonly unknown[], result: unknown): void {
    const { world } = this.#simulation;
    const trees = args[0] as readonly { readonly instanceIds: readonly string[] }[];
    const results = result as readonly { readonly kind: string }[];
    for (const [index, { instanceIds }] of trees.entries()) {
      const endedAt = this.#endedAt.get(instanceIds.at(-1) ?? '');
      if (endedAt === undefined || results[index]?.kind !== 'deleted') continue;
      const ageMs = (world.storeNow?.() ?? 0) - endedAt;
      if (ageMs < keepMs - clockErrorMs)
        world.violate(`a run of the schedule was deleted ${ageMs} ms after its end`);
    }
  }

  /** All ended runs of the schedule are deleted in time. */
  #expectSwept(): void {
    const { world, weather } = this.#simulation;
    const isDelayed =
      delaysSweeps.some((fault) => weather.rates[fault] !== undefined) ||
      weather.stalls ||
      world.reached.has('fault block');
    if (isDelayed) return;
    const oldest = (world.storeNow?.() ?? 0) - keepMs - sweepMs - sweepSlackMs;
    world.reached.add('program retention');
    for (const { id, endedAt } of this.#endedTicks()) {
      if (endedAt < oldest)
        world.violate(`${id} is kept ${oldest - endedAt} ms after retention should delete it`);
    }
  }

  #endedTicks(): readonly { readonly id: string; readonly endedAt: number }[] {
    this.#selectEnded ??= this.#simulation.store.db.prepare<[], EndedTick>(
      `SELECT instance_id AS id, ended_at AS endedAt FROM instances
       WHERE instance_id LIKE 'every@%' AND ended_at IS NOT NULL`,
    );
    return this.#selectEnded.all();
  }

  heal(): void {
    const { world, fleet, weather } = this.#simulation;
    if (!this.#hasSchedule) return;
    const elapsedMs = world.now;
    this.#simulation.act(
      () => fleet.clients[1],
      1_500,
      'delete the schedule',
      async (client) => {
        const runs = this.#countTicks();
        const most = Math.floor((elapsedMs + 3_000) / 1_000) + 1 + (this.#isTriggered ? 1 : 0);
        if (runs > most)
          world.violate(`the schedule started ${runs} runs, at most ${most} are due`);
        // A worker that was killed may hold the first run until its lease ends.
        const slowMs = weather.rates.slow === undefined ? 0 : 2_000;
        // The simulation sends no hint that another process has put a schedule: only polling finds it.
        const recheckMs = weather.pollMs > 250 ? Infinity : 0;
        const lateAt = this.#putAt + 2_700 + weather.activityLeaseMs + slowMs + recheckMs;
        if (this.#ticks === 0 && world.now > lateAt) {
          world.violate('the schedule started no run');
        }
        this.#expectSwept();
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
