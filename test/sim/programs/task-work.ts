import { isPerdureError, ProviderError } from '../../../src/model/failures/errors.ts';
import type { WorkItem } from '../../../src/providers/contract/work-queue.ts';
import { task, type TaskDefinition } from '../../../src/tasks/task.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { Definitions } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import type { WorkPart } from './workload.ts';

interface TaskInput {
  readonly label: string;
  /** The number of attempts that fail. */
  readonly fails: number;
}

const names = ['plain', 'limited', 'limited', 'rated', 'batched', 'debounced', 'expiring'] as const;

interface TaskRun {
  readonly id: string;
  readonly name: (typeof names)[number];
  readonly key: string | undefined;
  readonly input: TaskInput;
  mayStop: boolean;
  result?: { readonly output?: unknown; readonly code?: string };
}

/** The limits of the task `limited`. */
const globalLimit = 2;
const keyLimit = 1;

/** Task runs: retries, `onFail`, limits and keys, rates, batches, debounces, expiry, dedupe keys and cancels. */
export class TaskWork implements WorkPart {
  readonly #simulation: Simulation;
  readonly #runs: TaskRun[] = [];
  readonly #canceled = new Set<string>();
  readonly #keys = new Map<string, string | undefined>();
  readonly #failed = new Set<string>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  define(process: SimProcess): Definitions {
    const { claims } = this.#simulation;
    const retry = { maxAttempts: 3, initialDelay: 30, jitter: 0.5 } as const;
    const handle: TaskDefinition<TaskInput, string>['handler'] = async (ctx, input) => {
      claims.started(process, ctx.idempotencyKey, ctx.signal);
      await this.#pass(process, ctx.signal);
      ctx.throwIfCanceled();
      if (ctx.attempt <= input.fails) throw new Error(`attempt ${ctx.attempt} fails`);
      return `t:${input.label}`;
    };
    const onFail = {
      retry,
      handler: (ctx: {
        readonly idempotencyKey: string;
        readonly runId: string;
        readonly signal: AbortSignal;
      }) => {
        claims.started(process, ctx.idempotencyKey, ctx.signal);
        this.#failed.add(ctx.runId);
      },
    };
    const batched = task<TaskInput, string>(
      'batched',
      async (ctx, runs) => {
        for (const run of runs) claims.started(process, run.idempotencyKey, run.signal);
        await this.#pass(process, ctx.signal);
        for (const run of runs) {
          if (run.attempt <= run.input.fails) run.fail(new Error('fails'));
          else run.complete(`t:${run.input.label}`);
        }
      },
      { batch: { max: 3, wait: 20 }, retry },
    );
    const limits = { concurrency: { global: globalLimit, perKey: keyLimit } };
    return {
      tasks: [
        task('plain', handle, { retry, onFail }),
        task('limited', handle, { retry, ...limits }),
        task('rated', handle, { retry, rate: { limit: 4, per: '1s', burst: 2, perKey: true } }),
        task('debounced', handle, { retry }),
        task('expiring', handle, { retry }),
        batched,
      ],
    };
  }

  begin(): void {
    const { world, fleet } = this.#simulation;
    const { decisions } = world;
    const draw = (): number => decisions.draw('task');
    const count = 2 + Math.floor(draw() * 6);
    const favorite = draw() < 0.5 ? names[Math.floor(draw() * names.length)] : undefined;
    for (let index = 0; index < count; index++) {
      const name = favorite ?? names[Math.floor(draw() * names.length)] ?? 'plain';
      const id = `t${index}`;
      const key = name === 'limited' || name === 'rated' ? `k${Math.floor(draw() * 2)}` : undefined;
      const fails = draw() < 0.25 ? 1 + Math.floor(draw() * 3) : 0;
      const delayMs = Math.floor(draw() * 600);
      const cancelMs = Math.floor(draw() * 800);
      if (!decisions.happens(`start:${id}`, 1)) continue;
      const run: TaskRun = { id, name, key, input: { label: id, fails }, mayStop: false };
      this.#runs.push(run);
      this.#keys.set(id, key);
      this.#simulation.act(
        () => fleet.clients[index % 2],
        delayMs,
        `start ${id}`,
        (client) => this.#start(client.runTask.bind(client), run),
      );
      if (decisions.happens(`cancel:${id}`, 0.15)) {
        run.mayStop = true;
        this.#simulation.act(
          () => fleet.clients[0],
          delayMs + cancelMs,
          `cancel ${id}`,
          (client) => client.cancel(id),
        );
      }
    }
  }

  async #start(
    runTask: (
      name: string,
      input: TaskInput,
      options: object,
    ) => Promise<{ readonly id: string; result(): Promise<unknown> }>,
    run: TaskRun,
  ): Promise<void> {
    const { id, name, key, input } = run;
    const options =
      name === 'debounced'
        ? { debounce: { key: 'd', wait: 100, maxWait: 400, requestKey: id } }
        : name === 'expiring'
          ? { id, expiresIn: 150 }
          : { id, ...(key !== undefined && { key }) };
    const handle = await runTask(name, input, options);
    try {
      run.result = { output: await handle.result() };
    } catch (error) {
      if (!isPerdureError(error) || error instanceof ProviderError) throw error;
      run.result = { code: error.code };
    }
  }

  observe({ method, result, args }: ObservedCall): void {
    if (method === 'requestCancel') {
      for (const { instanceId } of args[0] as readonly { instanceId: string }[]) {
        this.#canceled.add(instanceId);
      }
    }
    if (method !== 'fetchWorkItems') return;
    const items = result as readonly WorkItem[];
    if (!items.some(({ name }) => name === 'limited')) return;
    const { world, claims } = this.#simulation;
    const held = claims
      .heldInstances()
      .filter((id) => this.#runs.some((run) => run.id === id && run.name === 'limited'))
      .filter((id) => !this.#canceled.has(id));
    if (held.length > globalLimit) world.violate(`${held.length} runs of limited are claimed`);
    const perKey = new Map<string | undefined, number>();
    for (const id of held) {
      const key = this.#keys.get(id);
      perKey.set(key, (perKey.get(key) ?? 0) + 1);
    }
    for (const [key, count] of perKey) {
      if (count > keyLimit) world.violate(`${count} runs of limited with key ${key} are claimed`);
    }
  }

  heal(): void {
    // All runs end by themselves.
  }

  unfinished(): readonly string[] {
    return this.#runs.flatMap(({ id, result }) => (result === undefined ? [id] : []));
  }

  async check(): Promise<void> {
    const { world } = this.#simulation;
    for (const { id, name, input, result, mayStop } of this.#runs) {
      const { output, code } = result ?? {};
      const failsAll = input.fails >= 3;
      // Debounced requests share a run: the last input counts.
      const isRight =
        name === 'debounced'
          ? output !== undefined || code === 'TASK_FAILED' || code === 'INSTANCE_FAILED'
          : code === undefined
            ? output === `t:${input.label}` && !failsAll
            : failsAll || mayStop || name === 'expiring';
      if (!isRight)
        world.violate(`task ${name} ${id} ended with ${code ?? JSON.stringify(output)}`);
      const mustFail = name === 'plain' && failsAll && !mayStop && code !== undefined;
      if (mustFail && !this.#failed.has(id)) world.violate(`onFail of ${id} never ran`);
    }
    await Promise.resolve();
  }

  async #pass(process: SimProcess, signal: AbortSignal): Promise<void> {
    const { world, weather, claims } = this.#simulation;
    const { decisions } = world;
    if (weather.burns && decisions.happens(`burn:${process.name}`, 0.1)) {
      process.burn(Math.floor(decisions.draw('burn ms') * 200));
    }
    const ms = decisions.happens(`handler slow:${process.name}`, 0.2)
      ? 100 + Math.floor(decisions.draw('task slow ms') * 500)
      : decisions.pick(`handler ms:${process.name}`, 20);
    claims.working.add(signal);
    await new Promise<void>((resolve) => {
      world.add(process, 'works', resolve, ms);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    claims.working.delete(signal);
  }
}
