import type { ActivityContext } from '../../../src/orchestration/activity-context.ts';
import type { WorkInput } from './script.ts';
import type { SimulatedProcess } from './simulated-process.ts';

export type HandlerCommand = 'complete' | 'fail' | 'pass' | 'heed';

/** A handler that waits for a command. */
interface RunningHandler {
  readonly key: string;
  readonly input: WorkInput;
  readonly ctx: ActivityContext;
  readonly process: SimulatedProcess;
  readonly tell: (word: HandlerCommand) => void;
}

/** The running handlers of all processes. Each one only follows commands. */
export class Handlers {
  running: RunningHandler[] = [];
  /** Counts starts and ends: while it changes, the processes are not idle. */
  moves = 0;
  /** From now on handlers end without a command: as canceled after an abort, otherwise with a result. */
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
      const word = await this.#nextCommand(ctx, { key, input, ctx, process });
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

  tell(index: number, word: HandlerCommand): string | undefined {
    const handler = this.running[index % Math.max(this.running.length, 1)];
    handler?.tell(word);
    return handler?.key;
  }

  /** Handlers of deleted instances whose signal was not aborted. */
  notAborted(isThere: (instanceId: string, incarnation: string) => boolean): readonly string[] {
    return this.running.flatMap(({ key, ctx }) => {
      const incarnation = ctx.idempotencyKey.slice(ctx.instanceId.length + 1).split('/')[0] ?? '';
      return ctx.isCanceled || isThere(ctx.instanceId, incarnation) ? [] : [key];
    });
  }

  /** Ends every handler, except aborted ones that ignore their signal. */
  heal(): void {
    this.isHealing = true;
    for (const { ctx, tell } of this.running) tell(ctx.isCanceled ? 'heed' : 'complete');
  }

  /** Removes the handlers of a crashed process. */
  forget(process: SimulatedProcess): void {
    this.running = this.running.filter((handler) => handler.process !== process);
  }

  #nextCommand(
    ctx: ActivityContext,
    running: Omit<RunningHandler, 'tell'>,
  ): Promise<HandlerCommand> {
    return new Promise((resolve) => {
      const { deaf } = running.input;
      const handler: RunningHandler = {
        ...running,
        tell: (word) => {
          // A handler that ignores its signal never ends after an abort, not even while healing.
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
