import { isTerminal } from '../../../src/model/status.ts';
import type { ActivityContext } from '../../../src/orchestration/activity-context.ts';
import { createDefinitions, type Script, type WorkInput } from '../../model/helpers/script.ts';
import { scriptPrefix } from '../checks/model-check.ts';
import type { Definitions, Member } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import { burnCpu } from './handler-time.ts';
import { notYet } from './not-yet.ts';
import { randomScript } from './scripts.ts';
import type { WorkPart } from './workload.ts';

const operations = [
  ['cancel', 0.3],
  ['cancel', 0.1],
  ['raise', 0.9],
  ['raise', 0.5],
  ['pause', 0.15],
  ['resume', 0.15],
  ['terminate', 0.08],
  ['delete', 0.1],
  ['restart', 0.1],
  ['retry', 0.15],
  ['prune', 0.1],
] as const;

/** Random orchestrations with the reference model: cancels, terminates, deletes, retries, pauses and prunes. */
export class ScriptWork implements WorkPart {
  readonly #simulation: Simulation;
  readonly #started = new Map<string, Script>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  define(process: SimProcess): Definitions {
    return createDefinitions((ctx, input) => this.#handle(process, ctx, input));
  }

  begin(): void {
    const { decisions } = this.#simulation.world;
    const draw = (): number => decisions.draw('script');
    const count = 1 + Math.floor(draw() * 3);
    const retriesEnded = decisions.draw('work retries of ended instances') < 0.15;
    for (let index = 0; index < count; index++) {
      const id = `${scriptPrefix}${index}`;
      const script = randomScript(draw);
      if (!decisions.happens(`start:${id}`, 1)) continue;
      this.#started.set(id, script);
      const startMs = Math.floor(draw() * 200);
      this.#start(id, startMs);
      for (const [operation, probability] of operations) {
        // Most instances end within 200 ms: most operations come early.
        const delayMs = startMs + Math.floor(draw() ** 3 * 2_000);
        if (decisions.happens(`${operation}:${id}`, probability))
          this.#operate(id, operation, delayMs);
      }
      if (retriesEnded && decisions.happens(`retry ended:${id}`, 0.9))
        this.#retryEnded(id, startMs);
    }
  }

  /** Retries an instance as soon as it has ended without a result. Most other retries come too early or too late. */
  #retryEnded(id: string, delayMs: number): void {
    const { world, fleet, model } = this.#simulation;
    const from = world.decisions.pick('retry ended', 2) === 0 ? 'start' : 'failure';
    this.#simulation.act(
      () => fleet.clients[1],
      delayMs,
      `retry ${id} at its end`,
      async (client) => {
        const status = model.model.instances.get(id)?.status;
        if (status === 'completed' || world.isHealing) return;
        if (status === undefined || !isTerminal(status))
          throw notYet('retry', `${id} has not ended`);
        world.reached.add('operation retry of an ended instance');
        await client.retry(id, { from });
      },
    );
  }

  #start(id: string, delayMs: number, operation = 'start'): void {
    const { world, fleet } = this.#simulation;
    const chooser = world.decisions.draw('starter');
    const starter = (): Member | undefined =>
      chooser < 0.5
        ? fleet.workers[Math.floor(chooser * 2 * fleet.workers.length)]
        : fleet.clients[0];
    this.#simulation.act(starter, delayMs, `start ${id}`, async (client) => {
      await client.start('scripted', this.#reach(id), { id });
      if (operation !== 'start') world.reached.add(`operation ${operation}`);
    });
  }

  /** Returns the script of an instance that starts. */
  #reach(id: string): Script | undefined {
    const script = this.#started.get(id);
    for (const step of script?.steps ?? []) {
      this.#simulation.world.reached.add(`program script ${step.do}`);
    }
    return script;
  }

  #operate(id: string, operation: (typeof operations)[number][0], delayMs: number): void {
    const { world, fleet } = this.#simulation;
    const client = fleet.clients[world.decisions.draw('operator') < 0.5 ? 0 : 1];
    const isFirst = world.decisions.draw('operation') < 0.5;
    if (operation === 'restart') return this.#start(id, delayMs, operation);
    this.#simulation.act(
      () => client,
      delayMs,
      `${operation} ${id}`,
      async (one): Promise<unknown> => {
        world.reached.add(`operation ${operation}`);
        switch (operation) {
          case 'cancel': {
            const reason = isFirst ? 'a' : 'b';
            const cleanupTimeout = isFirst ? 5_000 : 100;
            return one.cancel(id, { reason, actor: `by ${reason}`, cleanupTimeout });
          }
          case 'raise':
            return one.raiseEvent(id, 'go');
          case 'pause':
            return one.pause(id, { reason: 'later' });
          case 'resume':
            return one.resume(id);
          case 'terminate':
            return one.terminate(id, { reason: 'enough', tree: isFirst });
          case 'delete':
            return one.deleteInstance(id, { force: isFirst });
          case 'retry':
            return one.retry(id, { from: isFirst ? 'failure' : 'start', actor: 'ann' });
          case 'prune':
            return one.pruneExecutions(id, { keepLast: 1 });
        }
      },
    );
  }

  heal(): void {
    const { world, fleet, model } = this.#simulation;
    for (const { id, status, paused } of model.model.instances.values()) {
      if (isTerminal(status)) continue;
      const client = (): Member | undefined => fleet.clients[0];
      if (paused) this.#simulation.act(client, 0, `resume ${id}`, (one) => one.resume(id));
      this.#simulation.act(client, 0, `raise ${id}`, (one) => one.raiseEvent(id, 'go'));
    }
    world.add(world.store, 'heal scripts', () => this.heal(), 300);
  }

  unfinished(): readonly string[] {
    const { instances } = this.#simulation.model.model;
    return [...instances.values()].flatMap(({ id, status, items }) =>
      isTerminal(status) && items.size === 0 ? [] : [id],
    );
  }

  /** Works for a time, may use the CPU, and fails sometimes. Ignores its signal if it is deaf. */
  async #handle(process: SimProcess, ctx: ActivityContext, input: WorkInput): Promise<string> {
    const { world, claims } = this.#simulation;
    claims.started(process, ctx.idempotencyKey, ctx.signal);
    if (input.label === 'clean-up') world.reached.add('program shield');
    const { decisions } = world;
    const where = `${ctx.instanceId} ${input.label}`;
    const ms = decisions.happens(`handler slow:${where}`, 0.25)
      ? 100 + Math.floor(decisions.draw('handler slow ms') * 600)
      : decisions.pick(`handler ms:${where}`, 20);
    burnCpu(this.#simulation, process, [ctx.idempotencyKey]);
    if (input.wait && decisions.happens(`pass:${where}`, 0.4)) await ctx.pointOfNoReturn();
    claims.working.add(ctx.signal);
    await new Promise<void>((resolve) => {
      world.add(process, `works on ${ctx.instanceId} ${input.label}`, resolve, ms);
      if (!input.deaf) ctx.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    claims.working.delete(ctx.signal);
    if (!input.deaf) ctx.throwIfCanceled();
    if (!world.isHealing && decisions.happens(`handler fails:${where}`, 0.12))
      throw new Error('fails');
    return input.label;
  }
}
