import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import type { OrchestrationContext } from '../../../src/orchestration/orchestration-context.ts';
import { isPerdureError, ProviderError } from '../../../src/model/failures/errors.ts';
import { isDeepStrictEqual } from 'node:util';
import type { Definitions } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import { burnCpu } from './handler-time.ts';
import type { WorkPart } from './workload.ts';

const kinds = [
  'call',
  'run',
  'run',
  'transaction',
  'sleep',
  'update',
  'awakeable',
  'state',
  'emit',
  'task',
  'all',
  'select',
  'detached',
  'child',
  'globals',
  'orphan',
  'again',
] as const;

/** One operation of a program. */
interface Operation {
  readonly do: (typeof kinds)[number];
  readonly label: string;
  /** The first attempt fails. */
  readonly fails: boolean;
  readonly child?: readonly Operation[];
}

interface Program {
  readonly operations: readonly Operation[];
  readonly output: readonly unknown[];
}

interface Run {
  readonly id: string;
  readonly program: Program;
  isStarted: boolean;
  mayStop: boolean;
  /** The chunks that a reader of its stream got, up to the end of the run. */
  chunks?: readonly unknown[];
  result?: { readonly output?: unknown; readonly code?: string };
}

const endless: Operation = { do: 'sleep', label: 'endless', fails: false };

const retry = { maxAttempts: 4, initialDelay: 20, jitter: 0.5 } as const;

/**
 * Orchestrations with steps, transactions, updates, awakeables, state, streams, tasks, children, detached starts and
 * continue-as-new. The output of each is known before it runs.
 */
export class FeatureWork implements WorkPart {
  readonly #simulation: Simulation;
  readonly #runs: Run[] = [];
  readonly #orchestration = new Map<SimProcess, Definitions>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  define(process: SimProcess): Definitions {
    const { claims } = this.#simulation;
    const work = activity('feature work', async (ctx, input: Operation) => {
      claims.started(process, ctx.idempotencyKey, ctx.signal);
      burnCpu(this.#simulation, process, [ctx.idempotencyKey]);
      await this.#pass(process, ctx.signal);
      ctx.throwIfCanceled();
      if (input.fails && ctx.attempt === 1) throw new Error('the first attempt fails');
      return `r:${input.label}`;
    });
    const answer = activity('answer', async (ctx, token: string) => {
      claims.started(process, ctx.idempotencyKey, ctx.signal);
      await ctx.client.resolveAwakeable(token, 'answered').catch((error: unknown) => {
        // A repeated attempt finds the answer of the first one.
        if (!isPerdureError(error)) throw error;
        if (error.code === 'PROVIDER') throw error;
      });
    });
    const features = orchestration('features', (ctx: OrchestrationContext, program: Program) =>
      this.#interpret(process, { ctx, program, work, answer }),
    );
    const definitions = { orchestrations: [features], activities: [work, answer] };
    this.#orchestration.set(process, definitions);
    return definitions;
  }

  begin(): void {
    const { world, fleet } = this.#simulation;
    const { decisions } = world;
    const draw = (): number => decisions.draw('feature');
    const count = 1 + Math.floor(draw() * 2);
    for (let index = 0; index < count; index++) {
      const id = `f${index}`;
      const operations = randomOperations(draw, id, 0);
      const delayMs = Math.floor(draw() * 200);
      const starter = draw();
      const times = Array.from({ length: 4 }, () => 20 + Math.floor(draw() ** 3 * 1_500));
      if (!decisions.happens(`start:${id}`, 1)) continue;
      const program = { operations, output: [] };
      const run: Run = { id, program, isStarted: false, mayStop: false };
      this.#runs.push(run);
      const member = () =>
        starter < 0.5
          ? fleet.workers[Math.floor(starter * 2 * fleet.workers.length)]
          : fleet.clients[0];
      this.#simulation.act(member, delayMs, `start ${id}`, async (client) => {
        await client.start('features', program, { id });
        run.isStarted = true;
      });
      this.#simulation.act(
        () => fleet.clients[1],
        delayMs + 20,
        `result of ${id}`,
        async (client) => {
          run.result = await this.#resultOf(client.handle(id).result());
        },
      );
      if (decisions.happens(`read stream:${id}`, 0.4)) {
        this.#simulation.act(
          () => fleet.clients[0],
          delayMs + 400,
          `stream of ${id}`,
          async (client) => {
            const chunks: unknown[] = [];
            for await (const entry of client.stream(id)) {
              if (entry.kind === 'chunk') chunks.push(entry.value);
            }
            run.chunks = chunks;
          },
        );
      }
      for (const [nth, operation] of (['update', 'cancel', 'pause', 'resume'] as const).entries()) {
        const probability = { update: 0.5, cancel: 0.15, pause: 0.15, resume: 0.2 }[operation];
        if (!decisions.happens(`${operation}:${id}`, probability)) continue;
        if (operation === 'cancel') run.mayStop = true;
        this.#simulation.act(
          () => fleet.clients[1],
          delayMs + (times[nth] ?? 0),
          `${operation} ${id}`,
          (client) => {
            if (operation === 'update') return client.update(id, 'go', 1, { key: `${id} ${nth}` });
            return client[operation](id);
          },
        );
      }
    }
  }

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
      this.#simulation.act(
        () => fleet.clients[0],
        10,
        `update ${id}`,
        (client) => client.update(id, 'go', 1),
      );
    }
    world.add(world.store, 'heal features', () => this.heal(), 500);
  }

  unfinished(): readonly string[] {
    return this.#runs.flatMap(({ id, result }) => (result === undefined ? [id] : []));
  }

  async check(): Promise<void> {
    const { world, store, claims } = this.#simulation;
    for (const { id, program, result, mayStop, chunks } of this.#runs) {
      const expected = outputOf(program.operations);
      if (result?.code === undefined) {
        if (!isDeepStrictEqual(result?.output, expected)) {
          world.violate(
            `${id} returned ${JSON.stringify(result?.output)}, not ${JSON.stringify(expected)}`,
          );
        }
        this.#expectWrites(program.operations);
        const emitted = chunksOf(program.operations);
        if (chunks !== undefined && !isDeepStrictEqual(chunks, emitted)) {
          world.violate(`${id} streamed ${JSON.stringify(chunks)}, not ${JSON.stringify(emitted)}`);
        }
      } else if (!mayStop && !claims.hasBlocked(id)) {
        world.violate(`${id} ended with ${result.code}`);
      }
    }
    const twice = store.db
      .prepare('SELECT key, count(*) AS count FROM app_writes GROUP BY key HAVING count(*) > 1')
      .all();
    if (twice.length > 0) world.violate(`transactions ran twice: ${JSON.stringify(twice)}`);
    await Promise.resolve();
  }

  /** Each transaction of a completed run has committed its write, together with its outcome. */
  #expectWrites(operations: readonly Operation[]): void {
    const { world, store } = this.#simulation;
    const select = store.db.prepare<[string], 1>('SELECT 1 FROM app_writes WHERE key = ?').pluck();
    for (const { do: kind, label, child } of operations) {
      if (kind === 'transaction' && select.get(label) === undefined)
        world.violate(`the transaction ${label} has an outcome, and wrote nothing`);
      if (child !== undefined) this.#expectWrites(child);
    }
  }

  async #resultOf(result: Promise<unknown>): Promise<{ output?: unknown; code?: string }> {
    try {
      return { output: await result };
    } catch (error) {
      if (!isPerdureError(error) || error.code === 'PROVIDER') throw error;
      if (error.code === 'INSTANCE_NOT_FOUND') throw unavailableYet(error);
      return { code: error.code };
    }
  }

  /** Takes some time of the process. */
  async #pass(process: SimProcess, signal: AbortSignal): Promise<void> {
    const { world, claims } = this.#simulation;
    const { decisions } = world;
    const ms = decisions.happens(`handler slow:${process.name}`, 0.15)
      ? 100 + Math.floor(decisions.draw('feature slow ms') * 500)
      : decisions.pick(`handler ms:${process.name}`, 10);
    claims.working.add(signal);
    await new Promise<void>((resolve) => {
      world.add(process, 'works', resolve, ms);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    claims.working.delete(signal);
  }

  async #interpret(
    process: SimProcess,
    {
      ctx,
      program,
      work,
      answer,
    }: {
      readonly ctx: OrchestrationContext;
      readonly program: Program;
      readonly work: ReturnType<typeof activity<Operation, string>>;
      readonly answer: ReturnType<typeof activity<string, void>>;
    },
  ): Promise<readonly unknown[]> {
    let updates = 0;
    let wake: (() => void) | undefined;
    ctx.onUpdate('go', {
      handle: () => {
        updates += 1;
        wake?.();
        return updates;
      },
    });
    const output = [...program.output];
    for (const [index, operation] of program.operations.entries()) {
      const { label, fails } = operation;
      this.#simulation.world.reached.add(`program ${operation.do}`);
      switch (operation.do) {
        case 'call':
          output.push(await ctx.call(work, operation, { retry }));
          break;
        case 'run':
          output.push(
            await ctx.run(
              'step',
              async (step) => {
                this.#simulation.claims.startedStep(process, step.idempotencyKey);
                burnCpu(this.#simulation, process, []);
                await this.#pass(process, step.signal);
                step.signal.throwIfAborted();
                if (fails && step.attempt === 1) throw new Error('the first attempt fails');
                return `s:${label}`;
              },
              { retry },
            ),
          );
          break;
        case 'transaction':
          output.push(
            await ctx.transaction('write', async (tx, step) => {
              this.#simulation.claims.startedStep(process, step.idempotencyKey, 'transaction');
              await tx.query('INSERT INTO app_writes (key, value) VALUES ($1, $2)', [label, 'x']);
              return `w:${label}`;
            }),
          );
          break;
        case 'sleep':
          await ctx.sleep(label === endless.label ? '1h' : fails ? 300 : 30);
          break;
        case 'update':
          // Waits for an update, but not forever.
          if (updates === 0) {
            await ctx.race([new Promise<void>((resolve) => (wake = resolve)), ctx.sleep(400)]);
          }
          break;
        case 'awakeable': {
          const { token, promise } = ctx.awakeable<string>();
          await ctx.call(answer, token, { retry });
          output.push(await promise);
          break;
        }
        case 'state':
          ctx.state.set('last', label);
          output.push(ctx.state.get('last'));
          break;
        case 'emit':
          ctx.emit(label);
          break;
        case 'task':
          output.push(await ctx.runTask('plain', { label, fails: fails ? 1 : 0 }));
          break;
        case 'all':
          output.push(
            await ctx.all([
              ctx.call(work, operation, { retry }),
              ctx.run('step', () => `s:${label}`),
              ctx.call(work, { ...operation, label: `${label}b` }, { retry }),
            ]),
          );
          break;
        case 'select': {
          const { key } = await ctx.select({
            work: ctx.call(work, operation, { retry }),
            other: ctx.call(work, { ...operation, label: `${label}b` }, { retry }),
          });
          output.push(key === 'work' || key === 'other');
          break;
        }
        case 'detached':
          await ctx.startDetached('features', { operations: [], output: [] }, { id: `${label}~d` });
          break;
        case 'child':
          output.push(
            await ctx.child(
              'features',
              { operations: operation.child, output: [] },
              { id: `${label}~c` },
            ),
          );
          break;
        case 'globals': {
          // The step runs once, so a replay compares its own values with those of the first run.
          const values = [Date.now(), new Date().getTime(), Math.random(), crypto.randomUUID()];
          output.push(isDeepStrictEqual(await ctx.run('globals', () => values), values));
          break;
        }
        case 'orphan':
          // The end of this execution cancels the child, which would outlast the simulation.
          ctx
            .child('features', { operations: [endless], output: [] }, { id: `${label}~o` })
            .catch(() => undefined);
          break;
        case 'again':
          await ctx.updatesSettled();
          return ctx.continueAsNew({ operations: program.operations.slice(index + 1), output });
      }
    }
    await ctx.updatesSettled();
    return output;
  }
}

function randomOperations(draw: () => number, path: string, depth: number): readonly Operation[] {
  const length = 1 + Math.floor(draw() * 4);
  return Array.from({ length }, (_, index) => {
    const kind = kinds[Math.floor(draw() * kinds.length)] ?? 'call';
    const label = `${path}.${index}`;
    const fails = draw() < 0.25;
    if (kind !== 'child') return { do: kind, label, fails };
    if (depth > 0) return { do: 'call', label, fails };
    return { do: kind, label, fails, child: randomOperations(draw, label, depth + 1) };
  });
}

/** The output that a program must have. */
function outputOf(operations: readonly Operation[]): readonly unknown[] {
  return operations.flatMap((operation): readonly unknown[] => {
    const { label } = operation;
    switch (operation.do) {
      case 'call':
        return [`r:${label}`];
      case 'run':
        return [`s:${label}`];
      case 'transaction':
        return [`w:${label}`];
      case 'awakeable':
        return ['answered'];
      case 'state':
        return [label];
      case 'task':
        return [`t:${label}`];
      case 'all':
        return [[`r:${label}`, `s:${label}`, `r:${label}b`]];
      case 'select':
      case 'globals':
        return [true];
      case 'child':
        return [outputOf(operation.child ?? [])];
      default:
        return [];
    }
  });
}

function chunksOf(operations: readonly Operation[]): readonly unknown[] {
  return operations.flatMap(({ do: kind, label }) => (kind === 'emit' ? [label] : []));
}

/** The instance is not created yet: the caller retries. */
function unavailableYet(cause: Error): ProviderError {
  return new ProviderError({ operation: 'result', message: 'not yet', retryable: true, cause });
}
