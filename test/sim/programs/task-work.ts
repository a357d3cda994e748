import { isPerdureError, ProviderError } from '../../../src/model/failures/errors.ts';
import type { WorkItem } from '../../../src/providers/contract/work-queue.ts';
import { task, type TaskDefinition } from '../../../src/tasks/task.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { Definitions } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import { burnCpu } from './handler-time.ts';
import type { WorkPart } from './workload.ts';

interface TaskInput {
  readonly label: string;
  /** The number of attempts that fail. */
  readonly fails: number;
  /** The first failure is final. */
  readonly isFinal?: boolean;
}

const names = [
  'plain',
  'limited',
  'limited',
  'rated',
  'batched',
  'debounced',
  'deduped',
  'expiring',
] as const;

/** Several calls may return the same run. */
const shared: ReadonlySet<string> = new Set(['debounced', 'deduped']);

interface PausedDefinition {
  readonly name: string;
  readonly kind: (typeof pausable)[number][1];
}

interface TaskRun {
  readonly id: string;
  readonly name: (typeof names)[number];
  readonly key: string | undefined;
  readonly input: TaskInput;
  mayStop: boolean;
  /** The run that its start returned. */
  runId?: string;
  result?: { readonly output?: unknown; readonly code?: string };
}

const pausable = [
  ['limited', 'task'],
  ['plain', 'task'],
  ['feature work', 'activity'],
  ['features', 'orchestration'],
] as const;

/** The limits of the task `limited`. */
const globalLimit = 2;
const keyLimit = 1;
/** More keys than places, so that both limits bind. */
const limitedKeys = 4;

/** The rate of the task `rated`, per key: a token every 250 ms. */
const rate = { limit: 4, per: '1s', burst: 2, perKey: true } as const;
const tokenMs = 250;

/** Task runs: retries, `onFail`, limits and keys, rates, batches, debounces, expiry, dedupe keys and cancels. */
export class TaskWork implements WorkPart {
  readonly #simulation: Simulation;
  readonly #runs: TaskRun[] = [];
  readonly #canceled = new Set<string>();
  readonly #keys = new Map<string, string | undefined>();
  readonly #failed = new Set<string>();
  readonly #deduped = new Set<string>();
  /** The times of the claims of rated runs, by key. */
  readonly #ratedClaims = new Map<string, readonly number[]>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  define(process: SimProcess): Definitions {
    const { claims } = this.#simulation;
    const retry = { maxAttempts: 3, initialDelay: 30, jitter: 0.5 } as const;
    const handle: TaskDefinition<TaskInput, string>['handler'] = async (ctx, input) => {
      claims.started(process, ctx.idempotencyKey, ctx.signal);
      burnCpu(this.#simulation, process, [ctx.idempotencyKey]);
      await this.#pass(process, ctx.signal);
      ctx.throwIfCanceled();
      const nonRetryable = input.isFinal === true;
      if (ctx.attempt <= input.fails)
        throw Object.assign(new Error(`attempt ${ctx.attempt} fails`), { nonRetryable });
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
        const keys = runs.map(({ idempotencyKey }) => idempotencyKey);
        burnCpu(this.#simulation, process, keys);
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
        task('rated', handle, { retry, rate }),
        task('debounced', handle, { retry }),
        task('deduped', handle, { retry }),
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
    for (const [name, kind] of pausable) {
      const [delayMs, pauseMs] = [draw() * 1_000, draw() * 600];
      if (decisions.happens(`pause:${name}`, 0.08)) {
        this.#pauseDefinition({ name, kind }, Math.floor(delayMs), Math.floor(pauseMs));
      }
    }
    for (let index = 0; index < count; index++) {
      const name = favorite ?? names[Math.floor(draw() * names.length)] ?? 'plain';
      const id = `t${index}`;
      const keys = { limited: limitedKeys, rated: 2 }[name as string];
      const key = keys === undefined ? undefined : `k${Math.floor(draw() * keys)}`;
      // A run of the task with `onFail` that fails at all, fails for good.
      const failing = name === 'plain' ? 3 : 1 + Math.floor(draw() * 3);
      const fails = draw() < (name === 'plain' ? 0.4 : 0.25) ? failing : 0;
      const delayMs = Math.floor(draw() * 600);
      const cancelMs = Math.floor(draw() ** 3 * 800);
      if (!decisions.happens(`start:${id}`, 1)) continue;
      const isFinal = name === 'plain' && index % 2 === 0;
      const input = { label: id, fails, isFinal };
      const run: TaskRun = { id, name, key, input, mayStop: false };
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

  /** Pauses a definition for some time. A killed client repeats both calls, so it is always resumed. */
  #pauseDefinition(target: PausedDefinition, delayMs: number, pauseMs: number): void {
    const { world, fleet } = this.#simulation;
    this.#simulation.act(
      () => fleet.clients[1],
      delayMs,
      `pause ${target.name}`,
      async (client) => {
        await client.pause(target);
        await new Promise<void>((resolve) => {
          world.add(world.store, `pauses ${target.name}`, resolve, pauseMs);
        });
        await client.resume(target);
      },
    );
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
        : name === 'deduped'
          ? { dedupeKey: 'one' }
          : name === 'expiring'
            ? { id, expiresIn: 150 }
            : { id, ...(key !== undefined && { key }) };
    const handle = await runTask(name, input, options);
    run.runId = handle.id;
    this.#simulation.world.reached.add(`program task ${name}`);
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
    const { world, claims } = this.#simulation;
    if (items.some(({ name }) => name === 'deduped')) {
      for (const { instanceId, name } of items)
        if (name === 'deduped') this.#deduped.add(instanceId);
      const active = claims.heldInstances().filter((id) => this.#deduped.has(id));
      if (active.length > 1) world.violate(`${active.join(' and ')} have the same dedupe key`);
    }
    for (const item of items) if (item.name === 'rated') this.#expectRate(item);
    if (!items.some(({ name }) => name === 'limited')) return;
    const held = claims
      .heldInstances()
      .filter((id) => this.#runs.some((run) => run.id === id && run.name === 'limited'))
      .filter((id) => !this.#canceled.has(id));
    if (held.length === globalLimit) world.reached.add('limit limited global');
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

  /** In any period, a key gets one token, its burst, and one per `tokenMs`. A claim that ends a canceled run takes none. */
  #expectRate({ instanceId, nowMs, cancel }: WorkItem): void {
    const { world, weather } = this.#simulation;
    const key = this.#keys.get(instanceId);
    // A step back of the store's clock shortens the periods that are measured.
    if (cancel !== null || key === undefined || weather.rates.storeStep !== undefined) return;
    const claims = [...(this.#ratedClaims.get(key) ?? []), nowMs];
    this.#ratedClaims.set(key, claims);
    for (const [index, from] of claims.entries()) {
      const most = rate.burst + 1 + Math.floor((nowMs - from) / tokenMs);
      if (claims.length - index <= most) continue;
      return world.violate(`${claims.length - index} runs of rated with key ${key} are claimed`);
    }
  }

  heal(): void {
    // All runs end by themselves.
  }

  unfinished(): readonly string[] {
    return this.#runs.flatMap(({ id, result }) => (result === undefined ? [id] : []));
  }

  async check(): Promise<void> {
    const { world, claims } = this.#simulation;
    for (const { id, runId = id, name, input, result, mayStop } of this.#runs) {
      const { output, code } = result ?? {};
      const failsAll = input.fails >= 3;
      const siblings = this.#runs.filter((one) => one.name === name);
      const isRight = shared.has(name)
        ? code === undefined
          ? siblings.some((one) => output === `t:${one.input.label}`)
          : siblings.some((one) => one.input.fails >= 3) || claims.hasBlocked(`${runId}/`)
        : code === undefined
          ? output === `t:${input.label}` && !failsAll
          : failsAll || mayStop || name === 'expiring' || claims.hasBlocked(`${id}/`);
      if (!isRight)
        world.violate(`task ${name} ${id} ended with ${code ?? JSON.stringify(output)}`);
      const mustFail = name === 'plain' && failsAll && !mayStop && code !== undefined;
      if (mustFail && !this.#failed.has(id)) world.violate(`onFail of ${id} never ran`);
    }
    await Promise.resolve();
  }

  async #pass(process: SimProcess, signal: AbortSignal): Promise<void> {
    const { world, claims } = this.#simulation;
    const { decisions } = world;
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
