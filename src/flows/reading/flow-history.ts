import type { Client, Failure, HistoryEvent, PendingWork } from '../../index.ts';
import { activityNames, decisiveOutputs, hasItems, type RunInput } from '../definition/graph.ts';
import { decodeRunInput, type ReduceInput, type StepResult } from '../definition/run-format.ts';

/** One activity call of a run, read from its history. */
export interface RecordedCall {
  readonly operation: number;
  readonly queuedAt: number;
  /** The index of its item, for a map or generator. */
  readonly index?: number;
  readonly item?: unknown;
  /** The number of items that a reduce has folded once this call completes. */
  readonly folds?: number;
  readonly end?: RecordedEnd;
  /** Set if the run canceled the call. */
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
  /** Set if the output is omitted, because earlier outputs reached the limit. */
  readonly outputOmitted?: true;
  readonly failure?: Failure;
  readonly reason?: string;
}

/** A page of items whose payloads are kept. */
export interface HistoryFocus {
  readonly step: string;
  readonly after: number;
  readonly limit: number;
  /** The page ends before the item that would exceed this size, but has at least one item. */
  readonly maxBytes: number;
}

const pageSize = 1_000;
// Limit of the step outputs that a run returns.
const maxOutputBytes = 8 * 1024 * 1024;
const encoder = new TextEncoder();

type MutableCall = { -readonly [Key in keyof RecordedCall]: RecordedCall[Key] };

/** The activity calls of a run. Reads the history in pages, and keeps the outputs of items only where needed. */
export class FlowHistory {
  readonly #byOperation = new Map<
    number,
    { readonly call: MutableCall; readonly keeps: boolean }
  >();
  readonly #byActivity = new Map<string, MutableCall[]>();
  /** Activities whose outputs are kept, up to `maxOutputBytes`. */
  #kept: ReadonlySet<string> = new Set();
  /** Activities whose outputs are kept regardless of their size. */
  #decisive: ReadonlySet<string> = new Set();
  readonly #alwaysKept = new Set<MutableCall>();
  #outputBytes = 0;
  #itemActivities: ReadonlySet<string> = new Set();
  #reduceActivities: ReadonlySet<string> = new Set();
  readonly #focus: HistoryFocus | undefined;
  /** The kept items of the focus in order, with the size of their payloads. */
  readonly #focused: { readonly call: MutableCall; bytes: number }[] = [];
  #focusedBytes = 0;
  /** The index of the first item that did not fit into the page. */
  #cutAt = Number.POSITIVE_INFINITY;
  #run: RunInput | undefined;

  constructor(focus?: HistoryFocus) {
    this.#focus = focus;
  }

  /** Reads the history of the run's current execution, and its running calls. */
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
    await history.#addRunning(client, id);
    return history;
  }

  /** Like `read`, with the payloads that decide states only: not those of items. */
  static async readStates(client: Client, id: string): Promise<FlowHistory> {
    const history = new FlowHistory();
    const readWhole = async (after: number): Promise<HistoryEvent | undefined> =>
      (await client.history(id, { after, limit: 1 })).items[0]?.event;
    const first = await readWhole(0);
    if (first !== undefined) history.#add(id, first);
    // A condition or a map may read the outputs of items. Without items, nearly every payload decides a state.
    if (history.#decidesByItems || history.#itemActivities.size === 0) {
      return FlowHistory.read(client, id);
    }
    let after: number | undefined = first === undefined ? undefined : 1;
    while (after !== undefined) {
      const options = { after, limit: pageSize, payloads: 'none' } as const;
      const page: Awaited<ReturnType<Client['history']>> = await client.history(id, options);
      for (const { id: eventId, event } of page.items) {
        const whole = history.#needsPayload(event) ? await readWhole(eventId - 1) : event;
        history.#add(id, whole ?? event);
      }
      after = page.nextAfter;
    }
    await history.#addRunning(client, id);
    return history;
  }

  async #addRunning(client: Client, id: string): Promise<void> {
    for (const item of await client.running(id)) {
      const known = this.#byOperation.get(item.operation);
      if (known !== undefined && item.state === 'running') known.call.running = item;
    }
  }

  get #decidesByItems(): boolean {
    return [...this.#itemActivities].some((name) => this.#decisive.has(name));
  }

  /** Whether a state depends on the payload of an event: a batch of a reduce, or the result of a single step. */
  #needsPayload(event: HistoryEvent): boolean {
    if (event.kind === 'activityScheduled') return this.#reduceActivities.has(event.name);
    return (
      event.kind === 'activityCompleted' && this.#byOperation.get(event.operation)?.keeps === true
    );
  }

  /** The input of the run; `undefined` while no worker has started it. */
  get run(): RunInput | undefined {
    return this.#run;
  }

  /** The index of the first item that did not fit into the page; `Infinity` if all did. */
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
      // Items are called in index order, so the payload need not be parsed for it.
      call.index = calls.length;
      if (isFocused && this.#focusOn(call, payload)) {
        call.item = (JSON.parse(payload ?? '{}') as { item?: unknown }).item;
      }
    }
    if (this.#reduceActivities.has(name)) {
      const { items, offset } = JSON.parse(payload ?? '{}') as ReduceInput;
      call.folds = offset + items.length;
      // The output of the previous batch is only the input of this one.
      const before = calls.at(-1);
      if (before?.end !== undefined) before.end = withoutOutput(before.end);
    }
    calls.push(call);
    // A page of items needs no outputs of other steps.
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

  /** Adds an item to the page. Returns whether its payload fits. */
  #focusOn(call: MutableCall, payload: string | null): boolean {
    if ((call.index ?? 0) >= this.#cutAt) return false;
    this.#focused.push({ call, bytes: 0 });
    return this.#keepsItem(call, payload);
  }

  /** Whether to keep an output: decisive ones, the first 8 MiB of a run, or those that fit into the page. */
  #keepsOutput(call: MutableCall, payload: string | null): boolean {
    if (this.#focus !== undefined) return this.#keepsItem(call, payload);
    if (this.#alwaysKept.has(call)) return true;
    const bytes = encoder.encode(payload ?? '').byteLength;
    if (this.#outputBytes > 0 && this.#outputBytes + bytes > maxOutputBytes) return false;
    this.#outputBytes += bytes;
    return true;
  }

  /** Whether an item's payload fits into the page. Drops later items from the page if it does not. */
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
  // Fast path: most results are of a first attempt and not kept, so they need no parsing.
  if (!keeps && !payload?.includes('"attempt"')) return { attempts: 1 };
  const result = JSON.parse(payload ?? '{}') as StepResult;
  const attempts = 'attempt' in result ? (result.attempt ?? 1) : 1;
  return keeps ? { attempts, output: result.output } : { attempts };
}
