import type { Client, Failure, HistoryEvent, PendingWork } from '../index.ts';
import { activityNames, hasItems, wholeOutputs, type RunInput } from './graph.ts';
import { decodeRunInput } from './run-input.ts';
import type { ReduceInput, StepResult } from './step-result.ts';

/** One call of an activity, as the history tells it. */
export interface RecordedCall {
  readonly operation: number;
  readonly queuedAt: number;
  /** The place of the item that it was for. */
  readonly index?: number;
  readonly item?: unknown;
  /** How many items of a reduce are folded once it has completed. */
  readonly folds?: number;
  readonly end?: RecordedEnd;
  /** Somebody gave it up, and why. */
  readonly withdrawn?: { readonly at: number; readonly reason: string };
  readonly running?: PendingWork;
}

/** How a call ended. */
interface RecordedEnd {
  readonly kind: 'completed' | 'failed' | 'canceled';
  readonly at: number;
  readonly ran: { readonly worker?: string; readonly startedAt?: number };
  readonly attempts?: number;
  readonly output?: unknown;
  readonly failure?: Failure;
  readonly reason?: string;
}

/** What is kept of payloads: of steps that others look at, and of a page of items that somebody asked for. */
export interface HistoryFocus {
  readonly step: string;
  readonly after: number;
  readonly limit: number;
}

const pageSize = 1_000;

type MutableCall = { -readonly [Key in keyof RecordedCall]: RecordedCall[Key] };

/** The calls of a run by activity, read page by page; outputs of items are only kept where they are needed. */
export class FlowHistory {
  readonly #byOperation = new Map<
    number,
    { readonly call: MutableCall; readonly keeps: boolean }
  >();
  readonly #byActivity = new Map<string, MutableCall[]>();
  /** Activities whose outputs are kept. */
  #kept: ReadonlySet<string> = new Set();
  #itemActivities: ReadonlySet<string> = new Set();
  #reduceActivities: ReadonlySet<string> = new Set();
  readonly #focus: HistoryFocus | undefined;
  #run: RunInput | undefined;

  constructor(focus?: HistoryFocus) {
    this.#focus = focus;
  }

  /** Reads the current execution of a run from its beginning. */
  static async read(client: Client, id: string, focus?: HistoryFocus): Promise<FlowHistory> {
    const history = new FlowHistory(focus);
    let after: number | undefined = 0;
    while (after !== undefined) {
      const page: Awaited<ReturnType<Client['history']>> = await client.history(id, {
        after,
        limit: pageSize,
      });
      for (const { event } of page.items) history.#add(id, event);
      after = page.nextAfter;
    }
    for (const item of await client.running(id)) {
      const known = history.#byOperation.get(item.operation);
      if (known !== undefined && item.state === 'running') known.call.running = item;
    }
    return history;
  }

  /** What the run was started with; `undefined` while nobody has begun it. */
  get run(): RunInput | undefined {
    return this.#run;
  }

  calls(activity: string): readonly RecordedCall[] {
    return this.#byActivity.get(activity) ?? [];
  }

  #add(id: string, event: HistoryEvent): void {
    switch (event.kind) {
      case 'executionStarted':
        this.#begin(decodeRunInput(id, event.payload));
        return;
      case 'activityScheduled':
        this.#schedule(event);
        return;
      case 'operationWithdrawn':
        this.#change(event.target, (call) => {
          call.withdrawn = { at: event.at, reason: event.reason };
        });
        return;
      case 'activityCompleted':
        this.#change(event.operation, (call, keeps) => {
          const result = readResult(event.payload, keeps);
          call.end = { kind: 'completed', at: event.at, ran: ranBy(event), ...result };
        });
        return;
      case 'activityFailed':
        this.#change(event.operation, (call) => {
          const { failure, at } = event;
          const attempts = failure.attempts ?? 1;
          call.end = { kind: 'failed', at, ran: ranBy(event), failure, attempts };
        });
        return;
      case 'activityCanceled':
        this.#change(event.operation, (call) => {
          const { at, reason } = event;
          call.end = { kind: 'canceled', at, ran: ranBy(event), reason };
        });
        return;
      default:
    }
  }

  #begin(run: RunInput): void {
    this.#run = run;
    const { name: flow, steps } = run.flow;
    const whole = wholeOutputs(run.flow);
    const names = (nodes: typeof steps) =>
      nodes.map((node) => activityNames[node.kind](flow, node.name));
    this.#itemActivities = new Set(names(steps.filter(({ kind }) => hasItems(kind))));
    this.#reduceActivities = new Set(names(steps.filter(({ kind }) => kind === 'reduce')));
    const generators = steps.filter(({ kind }) => kind === 'generator');
    this.#kept = new Set([
      ...names(steps.filter(({ kind, name }) => !hasItems(kind) || whole.has(name))),
      ...generators.map(({ name }) => activityNames.generate(flow, name)),
    ]);
  }

  #schedule(event: Extract<HistoryEvent, { kind: 'activityScheduled' }>): void {
    const { operation, name, at, payload } = event;
    const call: MutableCall = { operation, queuedAt: at };
    const calls = this.#byActivity.get(name) ?? [];
    this.#byActivity.set(name, calls);
    const isFocused = this.#isFocused(name, calls.length);
    if (this.#itemActivities.has(name)) {
      // Items are called in order, so the place needs no look into the payload.
      call.index = calls.length;
      if (isFocused) call.item = (JSON.parse(payload ?? '{}') as { item?: unknown }).item;
    }
    if (this.#reduceActivities.has(name)) {
      const { items, offset } = JSON.parse(payload ?? '{}') as ReduceInput;
      call.folds = offset + items.length;
    }
    calls.push(call);
    this.#byOperation.set(operation, { call, keeps: isFocused || this.#kept.has(name) });
  }

  #isFocused(activity: string, index: number): boolean {
    const focus = this.#focus;
    const flow = this.#run?.flow;
    if (focus === undefined || flow === undefined) return false;
    const node = flow.steps.find(({ name }) => name === focus.step);
    if (node === undefined || activityNames[node.kind](flow.name, node.name) !== activity)
      return false;
    return index > focus.after && index <= focus.after + focus.limit;
  }

  #change(operation: number, change: (call: MutableCall, keeps: boolean) => void): void {
    const known = this.#byOperation.get(operation);
    if (known !== undefined) change(known.call, known.keeps);
  }
}

function ranBy({
  worker,
  startedAt,
}: {
  readonly worker?: string;
  readonly startedAt?: number;
}): RecordedEnd['ran'] {
  return {
    ...(worker !== undefined && { worker }),
    ...(startedAt !== undefined && { startedAt }),
  };
}

function readResult(
  payload: string | null,
  keeps: boolean,
): { attempts?: number; output?: unknown } {
  // Most results are of a first attempt and need not be kept: their text is enough to tell.
  if (!keeps && !payload?.includes('"attempt"')) return { attempts: 1 };
  const result = JSON.parse(payload ?? '{}') as StepResult;
  const attempts = 'attempt' in result ? (result.attempt ?? 1) : 1;
  return keeps ? { attempts, output: result.output } : { attempts };
}
