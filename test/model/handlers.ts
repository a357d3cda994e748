import type { ActivityContext } from '../../src/orchestration/activity-context.ts';
import type { WorkInput } from './script.ts';
import type { SimulatedProcess } from './simulated-process.ts';

export type Word = 'complete' | 'fail' | 'pass' | 'heed';

/** A handler that waits to be told what to do. */
interface RunningHandler {
  readonly key: string;
  readonly input: WorkInput;
  readonly ctx: ActivityContext;
  readonly process: SimulatedProcess;
  readonly tell: (word: Word) => void;
}

/** The handlers that run, in all processes: each does what it is told, and nothing else. */
export class Handlers {
  running: RunningHandler[] = [];
  /** Counts starts and ends: while it moves, the processes are not at rest. */
  moves = 0;
  /** From now on they finish by themselves: as they should when told to stop, or with a result. */
  isHealing = false;
  readonly #onStart: (handler: Pick<RunningHandler, 'key' | 'ctx' | 'process'>) => void;

  constructor(onStart: (handler: Pick<RunningHandler, 'key' | 'ctx' | 'process'>) => void) {
    this.#onStart = onStart;
  }

  async handle(ctx: ActivityContext, input: WorkInput, process: SimulatedProcess): Promise<string> {
    const key = ctx.idempotencyKey.replace(/\/[^/]*\/(?=[\d.]+$)/, '/');
    this.#onStart({ key, ctx, process });
    this.moves += 1;
    for (;;) {
      const word = await this.#hear(ctx, { key, input, ctx, process });
      this.moves += 1;
      switch (word) {
        case 'complete':
          return input.label;
        case 'fail':
          throw new Error('told to fail');
        case 'pass':
          if (input.wait) await ctx.pointOfNoReturn();
          break;
        case 'heed':
          ctx.throwIfCanceled();
      }
    }
  }

  tell(index: number, word: Word): string | undefined {
    const handler = this.running[index % Math.max(this.running.length, 1)];
    handler?.tell(word);
    return handler?.key;
  }

  /** Those that go on for one that is gone as if nothing had happened. */
  untold(isThere: (instanceId: string, incarnation: string) => boolean): readonly string[] {
    return this.running.flatMap(({ key, ctx }) => {
      const incarnation = ctx.idempotencyKey.slice(ctx.instanceId.length + 1).split('/')[0] ?? '';
      return ctx.isCanceled || isThere(ctx.instanceId, incarnation) ? [] : [key];
    });
  }

  /** Lets every handler end; one that is deaf and was told to stop never does. */
  heal(): void {
    this.isHealing = true;
    for (const { ctx, tell } of this.running) tell(ctx.isCanceled ? 'heed' : 'complete');
  }

  /** The handlers of a process that is gone. */
  forget(process: SimulatedProcess): void {
    this.running = this.running.filter((handler) => handler.process !== process);
  }

  #hear(ctx: ActivityContext, running: Omit<RunningHandler, 'tell'>): Promise<Word> {
    return new Promise((resolve) => {
      const { deaf } = running.input;
      const handler: RunningHandler = {
        ...running,
        tell: (word) => {
          // A deaf handler does not hear of its signal; in the end nobody makes it.
          if (this.isHealing && deaf && word === 'heed') return;
          this.running = this.running.filter((other) => other !== handler);
          resolve(word);
        },
      };
      this.running.push(handler);
      if (this.isHealing) return handler.tell(ctx.isCanceled ? 'heed' : 'complete');
      if (deaf) return;
      const heed = (): void => handler.tell('heed');
      if (ctx.signal.aborted) heed();
      else ctx.signal.addEventListener('abort', heed, { once: true });
    });
  }
}
