import { isPerdureError, ProviderError } from '../../../src/model/failures/errors.ts';
import { task } from '../../../src/tasks/task.ts';
import type { Definitions } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import type { WorkPart } from './workload.ts';

interface FragileInput {
  readonly label: string;
  /** Its condition is false. */
  readonly isSkipped: boolean;
}

interface Run {
  readonly id: string;
  readonly isSkipped: boolean;
  code?: string;
}

const maxAttempts = 2;
const retry = { maxAttempts, initialDelay: 30, jitter: 0 } as const;

/** Task runs that fail for good, with `onFail` handlers whose first attempt may fail, and runs that are skipped. */
export class FailureWork implements WorkPart {
  readonly #simulation: Simulation;
  readonly #runs: Run[] = [];
  /** The runs whose `onFail` handler has returned. */
  readonly #handled = new Set<string>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  define(process: SimProcess): Definitions {
    const { world, claims } = this.#simulation;
    const pass = (): Promise<void> =>
      new Promise((resolve) => {
        world.add(process, 'works', resolve, world.decisions.pick(`fragile:${process.name}`, 20));
      });
    const fragile = task(
      'fragile',
      async (ctx, input: FragileInput): Promise<void> => {
        claims.started(process, ctx.idempotencyKey, ctx.signal);
        await pass();
        ctx.throwIfCanceled();
        throw new Error(`attempt ${ctx.attempt} of ${input.label} fails`);
      },
      {
        retry,
        condition: (input) => !input.isSkipped,
        onFail: {
          retry,
          handler: async (ctx, failed) => {
            claims.started(process, ctx.idempotencyKey, ctx.signal);
            const { input, attempts, failure } = failed as {
              readonly input: FragileInput;
              readonly attempts: number;
              readonly failure: { readonly message: string };
            };
            const expected = `attempt ${maxAttempts} of ${input.label} fails`;
            if (attempts !== maxAttempts || failure.message !== expected)
              world.violate(
                `onFail of ${input.label} got ${attempts} attempts, ${failure.message}`,
              );
            await pass();
            ctx.throwIfCanceled();
            if (ctx.attempt === 1 && input.label.endsWith('0')) throw new Error('onFail fails');
            this.#handled.add(input.label);
          },
        },
      },
    );
    return { tasks: [fragile] };
  }

  begin(): void {
    const { world, fleet } = this.#simulation;
    const draw = (): number => world.decisions.draw('fragile');
    for (let index = 0; index < 4; index++) {
      const [delayMs, isSkipped] = [Math.floor(draw() * 900), draw() < 0.2];
      const id = `e${index}`;
      const waitMs = 100 * world.decisions.pick('fragile delay', 3);
      if (!world.decisions.happens(`start:${id}`, 0.9)) continue;
      const run: Run = { id, isSkipped };
      this.#runs.push(run);
      this.#simulation.act(
        () => fleet.clients[index % 2],
        delayMs,
        `start ${id}`,
        async (client) => {
          const options = waitMs === 0 ? { id } : { id, delay: waitMs };
          const handle = await client.runTask('fragile', { label: id, isSkipped }, options);
          world.reached.add(`program task ${isSkipped ? 'skipped' : 'fragile'}`);
          try {
            await handle.result();
            run.code = 'none';
          } catch (error) {
            if (!isPerdureError(error) || error instanceof ProviderError) throw error;
            run.code = error.code;
          }
        },
      );
    }
  }

  heal(): void {
    // All runs end by themselves.
  }

  unfinished(): readonly string[] {
    return this.#runs.flatMap(({ id, code }) => (code === undefined ? [id] : []));
  }

  async check(): Promise<void> {
    const { world, store } = this.#simulation;
    for (const { id, isSkipped, code } of this.#runs) {
      const expected = isSkipped ? 'TASK_SKIPPED' : 'INSTANCE_FAILED';
      if (code !== expected) world.violate(`${id} ended with ${code}, not ${expected}`);
      if (this.#handled.has(id) === isSkipped)
        world.violate(`onFail of ${id} ${isSkipped ? 'ran' : 'never ran'}`);
      const [record] = await store.provider.getInstances([id]);
      const { status, failure, task: run } = record ?? {};
      const isKept = isSkipped || failure?.includes(`attempt ${maxAttempts} of ${id}`) === true;
      if (!isKept || status !== (isSkipped ? 'skipped' : 'failed'))
        world.violate(`${id} is ${status} with ${failure}`);
      const failures = isSkipped ? 0 : maxAttempts;
      if (run?.failures !== failures)
        world.violate(`${id} has ${run?.failures} failures, not ${failures}`);
      const onFail = isSkipped ? null : 'completed';
      if (run?.onFail !== onFail) world.violate(`onFail of ${id} is ${run?.onFail}`);
    }
  }
}
