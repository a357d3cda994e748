import { reduceBatchSize, nameOf, optionalOf, type FlowSpec, type StepSpec } from './flow-spec.ts';

type Status = 'pending' | 'queued' | 'running' | 'completed' | 'failed' | 'skipped' | 'canceled';

/** An external action on a run. */
export type Action =
  | { readonly kind: 'succeed' | 'fail' | 'early'; readonly step: number; readonly item?: number }
  | { readonly kind: 'signal'; readonly step: number }
  | { readonly kind: 'cancel' };

interface ModelItem {
  status: Status;
  attempt: number;
}

interface ModelStep {
  readonly spec: StepSpec;
  status: Status;
  attempt: number;
  hasSignal: boolean;
  hasBegun: boolean;
  readonly items: ModelItem[];
}

/** The expected observable state of a run. */
export interface Predicted {
  readonly status: 'running' | 'completed' | 'failed' | 'canceled';
  readonly steps: readonly {
    readonly status: Status;
    readonly items?: Readonly<Record<string, number>>;
  }[];
  readonly onFail: boolean;
}

/** Reference implementation of flows: a table of states and one loop. It shares no code with the engine. */
export class ReferenceFlow {
  readonly #spec: FlowSpec;
  readonly #steps: readonly ModelStep[];
  #status: Predicted['status'] = 'running';

  constructor(spec: FlowSpec) {
    this.#spec = spec;
    this.#steps = spec.steps.map((step) => ({
      spec: step,
      status: 'pending',
      attempt: 1,
      hasSignal: !step.hasSignal,
      hasBegun: false,
      items:
        step.kind === 'map' || step.kind === 'generator'
          ? Array.from({ length: step.items }, () => ({ status: 'pending', attempt: 1 }))
          : [],
    }));
    this.#advance();
  }

  get isOver(): boolean {
    return this.#status !== 'running';
  }

  /** The actions that are possible now. */
  actions(): readonly Action[] {
    if (this.isOver) return [];
    return [
      ...this.#steps.flatMap(({ spec, status, items, hasSignal }, step): Action[] => [
        ...(hasSignal ? [] : [{ kind: 'signal', step } as const]),
        ...(spec.kind === 'step' && status === 'running'
          ? [
              { kind: 'succeed', step } as const,
              { kind: 'fail', step } as const,
              { kind: 'early', step } as const,
            ]
          : []),
        ...items.flatMap((item, index): Action[] =>
          item.status === 'running'
            ? [
                { kind: 'succeed', step, item: index },
                { kind: 'fail', step, item: index },
              ]
            : [],
        ),
      ]),
      { kind: 'cancel' },
    ];
  }

  /** The running attempt of a step or item. */
  attemptOf({ step, item }: { readonly step: number; readonly item?: number }): number {
    const found = this.#step(step);
    return item === undefined ? found.attempt : (found.items[item]?.attempt ?? 1);
  }

  apply(action: Action): void {
    switch (action.kind) {
      case 'cancel':
        this.#stop('canceled');
        return;
      case 'signal':
        this.#step(action.step).hasSignal = true;
        break;
      case 'early':
        this.#step(action.step).status = 'completed';
        this.#stop('completed');
        return;
      case 'succeed':
        this.#target(action).status = 'completed';
        break;
      case 'fail':
        if (!this.#fail(action)) return;
    }
    this.#advance();
  }

  predict(): Predicted {
    return {
      status: this.#status,
      steps: this.#steps.map((step) => ({
        // A reduce is shown as pending until its first batch is queued.
        status: step.spec.kind === 'reduce' && step.status === 'running' ? 'pending' : step.status,
        ...(isStream(step) && step.hasBegun && { items: count(step.items) }),
      })),
      onFail: this.#status === 'failed' && this.#spec.hasOnFail,
    };
  }

  /** Returns whether the run continues. */
  #fail(action: { readonly step: number; readonly item?: number }): boolean {
    const target = this.#target(action);
    const step = this.#step(action.step);
    target.attempt += 1;
    if (target.attempt <= step.spec.maxAttempts) return true;
    target.status = 'failed';
    step.status = 'failed';
    this.#stop('failed');
    return false;
  }

  #stop(status: 'completed' | 'failed' | 'canceled'): void {
    this.#status = status;
    const isOpen = (each: Status): boolean =>
      each === 'pending' || each === 'queued' || each === 'running';
    for (const step of this.#steps) {
      if (isOpen(step.status)) step.status = 'canceled';
      for (const item of step.items) if (isOpen(item.status)) item.status = 'canceled';
    }
  }

  /** Starts every ready step until nothing changes. */
  #advance(): void {
    let before: string;
    do {
      before = JSON.stringify(this.#steps);
      for (const step of this.#steps) this.#move(step);
    } while (JSON.stringify(this.#steps) !== before);
    if (this.#steps.every(({ status }) => status === 'completed' || status === 'skipped')) {
      this.#status = this.#hasOutput() ? 'completed' : 'failed';
    }
  }

  #move(step: ModelStep): void {
    if (step.status === 'pending') {
      if (!this.#isReady(step)) return;
      if (!this.#holds(step.spec)) step.status = 'skipped';
      else if (step.hasSignal) {
        step.status = 'running';
        step.hasBegun = true;
      }
    }
    if (step.status !== 'running' && step.status !== 'queued') return;
    if (step.spec.kind === 'reduce') this.#fold(step);
    else if (isStream(step)) moveItems(step);
  }
  /** A reduce completes with its source and is queued after its first full batch. */
  #fold(step: ModelStep): void {
    const source = step.spec.source === undefined ? undefined : this.#step(step.spec.source);
    if (source === undefined || source.status === 'completed') {
      step.status = 'completed';
      return;
    }
    const gap = source.items.findIndex(({ status }) => status !== 'completed');
    // Below one batch the history contains nothing of this step, so it is not observable yet.
    step.status = gap >= reduceBatchSize ? 'queued' : 'running';
  }

  #isReady({ spec }: ModelStep): boolean {
    const names = Object.keys(spec.dependencies).map(Number);
    const source = spec.source === undefined ? undefined : this.#step(spec.source);
    const waited = names.map((index) => this.#step(index));
    if (source !== undefined && !isStream(source)) waited.push(source);
    return waited.every(({ status }) => status === 'completed' || status === 'skipped');
  }

  #holds(spec: StepSpec): boolean {
    if (spec.condition === undefined) return true;
    if (spec.condition.kind === 'flag') return spec.condition.holds;
    const [first] = optionalOf(spec, this.#spec.steps);
    return first !== undefined && this.#step(first).status === 'completed';
  }

  #hasOutput(): boolean {
    const used = new Set(
      this.#spec.steps.flatMap(({ dependencies, source }) => [
        ...Object.keys(dependencies).map(Number),
        ...(source === undefined ? [] : [source]),
      ]),
    );
    return this.#steps.some(({ status }, index) => !used.has(index) && status === 'completed');
  }

  #target({ step, item }: { readonly step: number; readonly item?: number }): ModelItem {
    const found = this.#step(step);
    const target = item === undefined ? found : found.items[item];
    if (target === undefined) throw new Error(`There is no item ${item} in ${nameOf(step)}.`);
    return target;
  }

  #step(index: number): ModelStep {
    const step = this.#steps[index];
    if (step === undefined) throw new Error(`There is no step ${index}.`);
    return step;
  }
}

function isStream({ spec }: ModelStep): boolean {
  return spec.kind === 'map' || spec.kind === 'generator';
}

function moveItems(step: ModelStep): void {
  const { spec, items } = step;
  let inFlight = items.filter(({ status }) => status === 'running').length;
  for (const item of items) {
    if (item.status !== 'pending' || inFlight >= spec.concurrency) continue;
    item.status = 'running';
    inFlight += 1;
  }
  if (items.every(({ status }) => status === 'completed')) step.status = 'completed';
}

function count(items: readonly ModelItem[]): Readonly<Record<string, number>> {
  const counts = { pending: 0, queued: 0, running: 0, completed: 0, failed: 0, canceled: 0 };
  for (const { status } of items) if (status !== 'skipped') counts[status] += 1;
  return counts;
}
