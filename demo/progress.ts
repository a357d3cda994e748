import { orders, steps, type Step } from './order.ts';

/** How far a step is, as far as anybody outside can tell. */
export type StepState = 'waiting' | 'running' | 'cut off' | 'done';

/** What has happened to the orders so far. */
export class Progress {
  readonly #states = new Map<string, StepState>();
  readonly #keptOver = new Set<string>();

  state(order: string, step: Step): StepState {
    return this.#states.get(`${order} ${step}`) ?? 'waiting';
  }

  /** Whether the step was done by a process that is gone. */
  isKept(order: string, step: Step): boolean {
    return this.#keptOver.has(`${order} ${step}`);
  }

  set(order: string, step: Step, state: StepState): void {
    this.#states.set(`${order} ${step}`, state);
  }

  /** The process is gone: what ran is cut off, what was done is kept. */
  crash(): void {
    for (const [key, state] of this.#states) {
      if (state === 'running') this.#states.set(key, 'cut off');
      if (state === 'done') this.#keptOver.add(key);
    }
  }

  /** The steps that are in a state, order by order. */
  inState(state: StepState): readonly { readonly order: string; readonly step: Step }[] {
    return orders.flatMap(({ id }) =>
      steps.filter((step) => this.state(id, step) === state).map((step) => ({ order: id, step })),
    );
  }

  count(state: StepState): number {
    return this.inState(state).length;
  }

  get total(): number {
    return orders.length * steps.length;
  }
}
