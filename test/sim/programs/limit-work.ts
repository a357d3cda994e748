import { isPerdureError, ProviderError } from '../../../src/model/failures/errors.ts';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import type { OrchestrationContext } from '../../../src/orchestration/orchestration-context.ts';
import { task } from '../../../src/tasks/task.ts';
import { LimitCheck } from '../checks/limit-check.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { Definitions } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import { burnCpu } from './handler-time.ts';
import type { WorkPart } from './workload.ts';

interface GatedInput {
  readonly label: string;
  readonly key: string;
  readonly sleepMs: number;
  readonly isAgain: boolean;
}

interface Run {
  readonly id: string;
  readonly expected: string;
  mayStop: boolean;
  result?: { readonly output?: unknown; readonly code?: string };
}

const retry = { maxAttempts: 3, initialDelay: 20, jitter: 0.5 } as const;

/** The limits that the code declares. Each is smaller than the work that waits for it. */
const declared = {
  gated: { global: 2, perKey: 1 },
  guarded: { global: 2, perKey: 1 },
  narrow: { global: 1 },
} as const;

/** What an operator changes: the kind and name of each definition. */
const targets = [
  { kind: 'orchestration', name: 'gated' },
  { kind: 'activity', name: 'guarded' },
  { kind: 'task', name: 'narrow' },
] as const;

/** An orchestration, an activity and a task with limits, and an operator who changes them. */
export class LimitWork implements WorkPart {
  readonly #simulation: Simulation;
  readonly #runs: Run[] = [];
  readonly #check: LimitCheck;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    const { world, claims, store } = simulation;
    this.#check = new LimitCheck({ world, claims, db: store.db, declared });
  }

  define(process: SimProcess): Definitions {
    const { claims } = this.#simulation;
    const guarded = activity(
      'guarded',
      async (ctx, label: string) => {
        claims.started(process, ctx.idempotencyKey, ctx.signal);
        burnCpu(this.#simulation, process, [ctx.idempotencyKey]);
        await this.#pass(process, ctx.signal);
        ctx.throwIfCanceled();
        return `g:${label}`;
      },
      { concurrency: declared.guarded },
    );
    const gated = orchestration(
      'gated',
      async (ctx: OrchestrationContext, input: GatedInput): Promise<string> => {
        const { label, key } = input;
        const outputs = await ctx.all([
          ctx.call(guarded, `${label}a`, { retry, key }),
          ctx.call(guarded, `${label}b`, { retry, key: 'other' }),
        ]);
        await ctx.sleep(input.sleepMs);
        if (input.isAgain) return ctx.continueAsNew({ ...input, isAgain: false });
        return outputs.join();
      },
      { concurrency: declared.gated },
    );
    const narrow = task(
      'narrow',
      async (ctx, label: string) => {
        claims.started(process, ctx.idempotencyKey, ctx.signal);
        burnCpu(this.#simulation, process, [ctx.idempotencyKey]);
        await this.#pass(process, ctx.signal);
        ctx.throwIfCanceled();
        return `n:${label}`;
      },
      { retry, concurrency: declared.narrow },
    );
    return { orchestrations: [gated], activities: [guarded], tasks: [narrow] };
  }

  begin(): void {
    const { world, fleet } = this.#simulation;
    const { decisions } = world;
    const draw = (): number => decisions.draw('limit work');
    const count = 3 + Math.floor(draw() * 3);
    for (let index = 0; index < count; index++) {
      const delayMs = Math.floor(draw() * 200);
      const key = `g${Math.floor(draw() * 3)}`;
      const input = { key, sleepMs: Math.floor(draw() * 60), isAgain: draw() < 0.2 };
      const stopMs = Math.floor(draw() ** 2 * 900);
      const isTask = draw() < 0.35;
      const id = `${isTask ? 'n' : 'g'}${index}`;
      if (!decisions.happens(`start:${id}`, 1)) continue;
      const expected = isTask ? `n:${id}` : `g:${id}a,g:${id}b`;
      const run: Run = { id, expected, mayStop: false };
      this.#runs.push(run);
      this.#check.keys.set(id, isTask ? undefined : key);
      this.#simulation.act(
        () => fleet.clients[index % 2],
        delayMs,
        `start ${id}`,
        async (client) => {
          const handle = isTask
            ? await client.runTask('narrow', id, { id })
            : await client.start('gated', { ...input, label: id }, { id, key });
          world.reached.add(`program limited ${isTask ? 'task' : 'orchestration'}`);
          run.result = await outcomeOf(handle.result());
        },
      );
      for (const operation of ['cancel', 'terminate', 'pause'] as const) {
        if (!decisions.happens(`${operation}:${id}`, 0.1)) continue;
        if (operation !== 'pause') run.mayStop = true;
        this.#simulation.act(
          () => fleet.clients[0],
          delayMs + stopMs,
          `${operation} ${id}`,
          (client) => client[operation](id),
        );
      }
    }
    for (const target of targets) {
      const [delayMs, changedMs, figure] = [draw() * 500, draw() * 700, 1 + Math.floor(draw() * 3)];
      if (decisions.happens(`change limits:${target.name}`, 0.3))
        this.#changeLimits(target, figure, Math.floor(delayMs), Math.floor(changedMs));
    }
  }

  /** Changes the global limit of a definition for some time. A killed client repeats both calls. */
  #changeLimits(
    target: (typeof targets)[number],
    global: number,
    delayMs: number,
    changedMs: number,
  ): void {
    const { world, fleet } = this.#simulation;
    this.#simulation.act(
      () => fleet.clients[1],
      delayMs,
      `set the limit of ${target.name} to ${global}`,
      async (client) => {
        await client.limits.set(target, { concurrency: { global } });
        world.reached.add('operation set limits');
        await new Promise<void>((resolve) => {
          world.add(world.store, `keeps the limit of ${target.name}`, resolve, changedMs);
        });
        await client.limits.reset(target);
      },
    );
  }

  observe(call: ObservedCall): void {
    this.#check.observe(call);
  }

  /** Resumes paused instances, also those whose pause commits late. */
  heal(): void {
    const { world, fleet } = this.#simulation;
    for (const { id, result } of this.#runs) {
      if (result !== undefined) continue;
      this.#simulation.act(
        () => fleet.clients[0],
        0,
        `resume ${id}`,
        (client) => client.resume(id),
      );
    }
    if (this.unfinished().length > 0) world.add(world.store, 'heal limits', () => this.heal(), 900);
  }

  unfinished(): readonly string[] {
    return this.#runs.flatMap(({ id, result }) => (result === undefined ? [id] : []));
  }

  async check(): Promise<void> {
    const { world, claims } = this.#simulation;
    for (const { id, expected, result, mayStop } of this.#runs) {
      const { output, code } = result ?? {};
      const isRight = code === undefined ? output === expected : mayStop || claims.hasBlocked(id);
      if (!isRight) world.violate(`${id} ended with ${code ?? JSON.stringify(output)}`);
    }
    await Promise.resolve();
  }

  async #pass(process: SimProcess, signal: AbortSignal): Promise<void> {
    const { world, claims } = this.#simulation;
    const { decisions } = world;
    const ms = decisions.happens(`limited slow:${process.name}`, 0.15)
      ? 100 + Math.floor(decisions.draw('limited slow ms') * 300)
      : 1 + decisions.pick(`handler ms:${process.name}`, 30);
    claims.working.add(signal);
    await new Promise<void>((resolve) => {
      world.add(process, 'works', resolve, ms);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    claims.working.delete(signal);
  }
}

async function outcomeOf(result: Promise<unknown>): Promise<{ output?: unknown; code?: string }> {
  try {
    return { output: await result };
  } catch (error) {
    if (!isPerdureError(error) || error instanceof ProviderError) throw error;
    return { code: error.code };
  }
}
