import { orders, steps, type Step } from './order.ts';

/** The state of a step, as its worker last reported it. */
export type StepState = 'waiting' | 'running' | 'interrupted' | 'done';

/** The state of every step of every order. */
export class Progress {
  readonly #states = new Map<string, StepState>();
  readonly #keptOver = new Set<string>();

  state(order: string, step: Step): StepState {
    return this.#states.get(`${order} ${step}`) ?? 'waiting';
  }

  /** Whether the step was done by a process that has died. */
  isKept(order: string, step: Step): boolean {
    return this.#keptOver.has(`${order} ${step}`);
  }

  set(order: string, step: Step, state: StepState): void {
    this.#states.set(`${order} ${step}`, state);
  }

  /** Records the death of the process: running steps are interrupted, done steps are kept. */
  crash(): void {
    for (const [key, state] of this.#states) {
      if (state === 'running') this.#states.set(key, 'interrupted');
      if (state === 'done') this.#keptOver.add(key);
    }
  }

  /** The steps in the given state, grouped by order. */
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
