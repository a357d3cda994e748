import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import type { StartWorkerOptions } from '../../../src/perdure.ts';
import { task } from '../../../src/tasks/task.ts';
import { aborted, makeGate, type Gate } from '../../tasks/gate.ts';
import type { Mode } from './job-scenario.ts';

interface Work {
  readonly run: string;
  readonly mode: Mode;
}

interface HandlerContext {
  readonly signal: AbortSignal;
  pointOfNoReturn(): Promise<unknown>;
  emit(value: unknown): Promise<unknown>;
}

/** Defines the handlers of all scenarios, counts the running ones and releases them. */
export class ControlledHandlers {
  readonly definitions: StartWorkerOptions;
  readonly #gates = new Map<string, Gate>();
  readonly #running = new Map<string, number>();

  constructor() {
    const inner = activity('inner', (ctx, work: Work) => this.#run(ctx, work));
    const outer = orchestration('outer', (ctx, work: Work) =>
      ctx.call(inner, work, { cancellation: 'wait' }),
    );
    const plain = task('plain', (ctx, work: Work) => this.#run(ctx, work));
    this.definitions = { activities: [inner], orchestrations: [outer], tasks: [plain] };
  }

  release(run: string): void {
    this.#gate(run).open();
  }

  /** Runs whose handlers have not returned. */
  get running(): readonly string[] {
    return [...this.#running].filter(([, count]) => count > 0).map(([run]) => run);
  }

  reset(): void {
    this.#gates.clear();
    this.#running.clear();
  }

  async #run(ctx: HandlerContext, { run, mode }: Work): Promise<string> {
    this.#count(run, 1);
    try {
      await this.#behave(ctx, run, mode);
      return run;
    } finally {
      this.#count(run, -1);
    }
  }

  async #behave(ctx: HandlerContext, run: string, mode: Mode): Promise<void> {
    const { opened } = this.#gate(run);
    switch (mode) {
      case 'quick':
        return;
      case 'failing':
        throw new Error(`${run} fails`);
      case 'stubborn':
        return opened;
      case 'commit':
        await ctx.pointOfNoReturn();
        return opened;
      case 'chatty':
        for (let n = 0; n < 5; n++) await ctx.emit(n);
        return Promise.race([opened, aborted(ctx.signal)]);
      case 'gated':
        return Promise.race([opened, aborted(ctx.signal)]);
    }
  }

  #count(run: string, change: number): void {
    this.#running.set(run, (this.#running.get(run) ?? 0) + change);
  }

  #gate(run: string): Gate {
    const gate = this.#gates.get(run) ?? makeGate();
    this.#gates.set(run, gate);
    return gate;
  }
}
