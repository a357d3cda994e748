import type { Client, Failure, HistoryEvent, PendingWork } from '../../index.ts';
import { activityNames, decisiveOutputs, hasItems, type RunInput } from '../definition/graph.ts';
import { decodeRunInput, type ReduceInput, type StepResult } from '../definition/run-format.ts';

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
  /** Its output was left out, because those of the steps before it are large. */
  readonly outputOmitted?: true;
  readonly failure?: Failure;
  readonly reason?: string;
}

/** What is kept of payloads: of steps that others depend on, and of a page of items that was asked for. */
export interface HistoryFocus {
  readonly step: string;
  readonly after: number;
  readonly limit: number;
  /** The page ends before the item, but never the first, whose payloads would take it over so many bytes. */
  readonly maxBytes: number;
}

const pageSize = 1_000;
// What a run shows of the outputs of its steps.
const maxShownBytes = 8 * 1024 * 1024;
const encoder = new TextEncoder();

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
  /** Those of them whose outputs are kept whatever their size. */
  #decisive: ReadonlySet<string> = new Set();
  readonly #alwaysKept = new Set<MutableCall>();
  #shownBytes = 0;
  #itemActivities: ReadonlySet<string> = new Set();
  #reduceActivities: ReadonlySet<string> = new Set();
  readonly #focus: HistoryFocus | undefined;
  /** The items of the focus that are kept, with the bytes of their payloads, in order. */
  readonly #focused: { readonly call: MutableCall; bytes: number }[] = [];
  #focusedBytes = 0;
  /** The place of the first item of the focus that did not fit. */
  #cutAt = Number.POSITIVE_INFINITY;
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

  /** The place of the first item of the focus that is not kept, because the page is full; infinite where all are. */
  get cutAt(): number {
    return this.#cutAt;
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
          const isKept = keeps && this.#keepsOutput(call, event.payload);
          const result = {
            ...readResult(event.payload, isKept),
            ...(keeps && !isKept && this.#focus === undefined && { outputOmitted: true as const }),
          };
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
    const decisive = decisiveOutputs(run.flow);
    const names = (nodes: typeof steps) =>
      nodes.map((node) => activityNames[node.kind](flow, node.name));
    this.#itemActivities = new Set(names(steps.filter(({ kind }) => hasItems(kind))));
    this.#reduceActivities = new Set(names(steps.filter(({ kind }) => kind === 'reduce')));
    const generators = steps.filter(({ kind }) => kind === 'generator');
    const generates = generators.map(({ name }) => activityNames.generate(flow, name));
    this.#decisive = new Set([
      ...names(steps.filter(({ name }) => decisive.has(name))),
      ...generates,
    ]);
    this.#kept = new Set([
      ...this.#decisive,
      ...names(steps.filter(({ kind }) => !hasItems(kind))),
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
      if (isFocused && this.#focusOn(call, payload)) {
        call.item = (JSON.parse(payload ?? '{}') as { item?: unknown }).item;
      }
    }
    if (this.#reduceActivities.has(name)) {
      const { items, offset } = JSON.parse(payload ?? '{}') as ReduceInput;
      call.folds = offset + items.length;
      // A batch begins with the output of the one before it, which nothing else needs.
      const before = calls.at(-1);
      if (before?.end !== undefined) before.end = withoutOutput(before.end);
    }
    calls.push(call);
    // A page of items needs nothing of other steps.
    const keeps = this.#focus === undefined ? this.#kept.has(name) : isFocused;
    this.#byOperation.set(operation, { call, keeps });
    if (this.#decisive.has(name)) this.#alwaysKept.add(call);
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

  /** Keeps the payload of an item of the focus, if the page has room for it. */
  #focusOn(call: MutableCall, payload: string | null): boolean {
    if ((call.index ?? 0) >= this.#cutAt) return false;
    this.#focused.push({ call, bytes: 0 });
    return this.#keepsItem(call, payload);
  }

  /** Whether an output is kept: of a page of items as far as they fit, of a run what decides, and the first 8 MiB. */
  #keepsOutput(call: MutableCall, payload: string | null): boolean {
    if (this.#focus !== undefined) return this.#keepsItem(call, payload);
    if (this.#alwaysKept.has(call)) return true;
    const bytes = encoder.encode(payload ?? '').byteLength;
    if (this.#shownBytes > 0 && this.#shownBytes + bytes > maxShownBytes) return false;
    this.#shownBytes += bytes;
    return true;
  }

  /** Whether a payload of a page of items is kept; it may end that page earlier than it was to end until now. */
  #keepsItem(call: MutableCall, payload: string | null): boolean {
    if (this.#focus === undefined) return true;
    const place = (call.index ?? 0) - this.#focus.after - 1;
    const entry = this.#focused[place];
    if (entry === undefined) return false;
    const bytes = encoder.encode(payload ?? '').byteLength;
    entry.bytes += bytes;
    this.#focusedBytes += bytes;
    while (this.#focusedBytes > (this.#focus?.maxBytes ?? 0) && this.#focused.length > 1) {
      this.#dropLast();
    }
    return this.#focused[place] === entry;
  }

  #dropLast(): void {
    const last = this.#focused.pop();
    if (last === undefined) return;
    this.#focusedBytes -= last.bytes;
    this.#cutAt = last.call.index ?? this.#cutAt;
    delete last.call.item;
    if (last.call.end !== undefined) last.call.end = withoutOutput(last.call.end);
  }

  #change(operation: number, change: (call: MutableCall, keeps: boolean) => void): void {
    const known = this.#byOperation.get(operation);
    if (known !== undefined) change(known.call, known.keeps);
  }
}

function withoutOutput(whole: RecordedEnd): RecordedEnd {
  const { output: _, ...end } = whole;
  return end;
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
