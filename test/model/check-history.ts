import { decodeEvent, isIncoming, type HistoryEvent } from '../../src/model/event.ts';
import { decodePayload } from '../../src/model/values/payload.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { Delivered, ModelInstance } from './reference-model.ts';
import { ScriptRun } from './script-run.ts';
import type { Script } from './script.ts';

const terminalKinds: ReadonlySet<string> = new Set([
  'executionCompleted',
  'executionFailed',
  'executionCanceled',
  'executionTerminated',
  'executionContinuedAsNew',
]);

const deliveredKinds: Readonly<Record<string, Delivered['kind']>> = {
  activityCompleted: 'completed',
  activityFailed: 'failed',
  eventReceived: 'event',
  childCompleted: 'childEnded',
  childFailed: 'childEnded',
  childCanceled: 'childCanceled',
  cancelRequested: 'cancel',
};

/** Answers of work that ran to its end. */
const finished: ReadonlySet<string> = new Set<Delivered['kind']>([
  'completed',
  'failed',
  'childEnded',
]);

/** What may lead to withdrawals at once: a request to stop, and the deadline of a scope. */
const withdraws: ReadonlySet<string> = new Set(['cancelRequested', 'timerFired']);

/** Answers and withdrawals: what a request to stop leads to before any code runs. */
function isSettling({ kind }: HistoryEvent): boolean {
  return kind === 'operationWithdrawn' || kind in deliveredKinds || kind === 'timerFired';
}

/** Whether a message still means something to the code as it stands. */
function matters(run: ScriptRun, { kind, operation, execution }: Delivered): boolean {
  if (operation === null) return true;
  return kind !== 'canceled' && execution === run.executionId && run.isPending(operation);
}

/** Says what is wrong with the history of an instance that is over. */
export class HistoryCheck {
  readonly #store: Provider;
  readonly #instance: ModelInstance;
  readonly #violations: string[] = [];
  /** What was delivered and is not yet found in history. */
  readonly #delivered: (Delivered | undefined)[];

  constructor(store: Provider, instance: ModelInstance) {
    this.#store = store;
    this.#instance = instance;
    this.#delivered = [...instance.delivered];
  }

  async run(): Promise<readonly string[]> {
    const { id: instanceId, execution, prunedUpTo, turns } = this.#instance;
    const executions = await this.#store.listExecutions({ instanceId, after: 0, limit: 1_000 });
    const { length } = executions;
    this.#expect(length === execution - prunedUpTo, `has ${length} executions`);
    // What the pruned ones have seen is in no history any more.
    for (const turn of turns) {
      if (turn.execution <= prunedUpTo) this.#delivered.fill(undefined, 0, turn.seen);
    }
    let run: ScriptRun | undefined;
    for (const { executionId, historyLength, status } of executions) {
      const params = { instanceId, executionId, after: 0, limit: 1_000 };
      const events = (await this.#store.readInstanceHistory(params)).map(decodeEvent);
      this.#expect(events.length === historyLength, 'has a gap in its history');
      run = this.#check(executionId, events, run);
      const last = executionId === execution;
      const expected = last ? this.#instance.status : 'continuedAsNew';
      this.#expect(status === expected, `execution ${executionId} is ${status}, not ${expected}`);
    }
    return this.#violations;
  }

  #check(
    executionId: number,
    events: readonly HistoryEvent[],
    before: ScriptRun | undefined,
  ): ScriptRun | undefined {
    const ends = events.filter(({ kind }) => terminalKinds.has(kind));
    const last = events.at(-1);
    this.#expect(ends.length === 1 && ends[0] === last, `has ${ends.length} terminal events`);
    if (events.some(({ at }, index) => at < (events[index - 1]?.at ?? 0))) {
      this.#expect(false, 'goes back in time');
    }
    const [started] = events;
    if (started?.kind !== 'executionStarted') {
      const neverRan = events.length === 1 && this.#instance.status !== 'completed';
      this.#expect(neverRan, 'does not begin with its start');
      return undefined;
    }
    const script = before?.rest ?? (decodePayload(started.payload) as Script);
    const carried = started.carried?.length ?? 0;
    const run = new ScriptRun(executionId, script, carried);
    const isCutOff = before === undefined && executionId > 1;
    if (!isCutOff) this.#findCarried(carried - (before?.buffered ?? 0));
    this.#expect(started.cancel !== undefined || before?.canceled !== true, 'forgot its cancel');
    if (started.cancel !== undefined) {
      // A request that came while the execution before waited for its end is in that history, too.
      if (isCutOff) this.#forgetCancel();
      else if (before?.canceled !== true) {
        this.#find(run, { kind: 'cancel', operation: null, seen: Infinity, inPlace: true });
      }
      run.cancel();
    }
    run.start();
    this.#applyTurns(run, executionId, events);
    if (last !== undefined) this.#checkEnd(run, last);
    return run;
  }

  #applyTurns(run: ScriptRun, executionId: number, events: readonly HistoryEvent[]): void {
    const turns = this.#instance.turns.filter(({ execution }) => execution === executionId);
    let index = 0;
    for (const turn of turns) {
      const ofTurn = events.slice(index, index + turn.events);
      index += turn.events;
      let inPlace = false;
      for (const event of ofTurn) {
        if (event.kind === 'executionStarted' || terminalKinds.has(event.kind)) continue;
        this.#apply(run, event, { seen: turn.seen, inPlace });
        inPlace = withdraws.has(event.kind) || (inPlace && isSettling(event));
      }
      if (index < events.length || !terminalKinds.has(ofTurn.at(-1)?.kind ?? '')) {
        this.#expectNothingLost(run, turn.seen);
      }
    }
  }

  #apply(
    run: ScriptRun,
    event: HistoryEvent,
    turn: { readonly seen: number; readonly inPlace: boolean },
  ): void {
    const kind = isIncoming(event) ? deliveredKinds[event.kind] : undefined;
    const operation = 'operation' in event ? event.operation : null;
    if (kind !== undefined) {
      // What is no longer wanted, and answered in the same turn, has its answer recorded where it was given up.
      const inPlace = turn.inPlace || (operation !== null && !run.isPending(operation));
      this.#find(run, { kind, operation, ...turn, inPlace: inPlace || run.isOver });
    }
    if (event.kind === 'activityCompleted' || event.kind === 'activityFailed') {
      const isHeard = !run.isToldByRequest(event.operation);
      this.#expect(isHeard, `heard ${event.operation}, though the request had told its handler`);
    }
    if (event.kind === 'operationWithdrawn' && !run.isToldByRequest(event.target)) {
      this.#expectUnanswered(run, event.target, turn.seen);
    }
    const wrong = run.apply(event);
    if (wrong !== undefined) this.#expect(false, wrong);
  }

  /** What is in history was delivered, in this order. */
  #find(
    run: ScriptRun,
    wanted: Pick<Delivered, 'kind' | 'operation'> & {
      readonly seen: number;
      readonly inPlace: boolean;
    },
  ): void {
    const { kind, operation, seen, inPlace } = wanted;
    const what = operation === null ? kind : `${kind} of ${operation}`;
    const index = this.#delivered.findIndex(
      (one) =>
        one?.kind === kind &&
        one.operation === operation &&
        (one.execution ?? run.executionId) === run.executionId,
    );
    if (index < 0 || index >= seen) {
      return this.#expect(false, `has ${what}, which no commit had brought`);
    }
    const overtaken = this.#delivered
      .slice(0, index)
      .find((one) => one !== undefined && matters(run, one));
    this.#delivered[index] = undefined;
    if (overtaken !== undefined && !inPlace) {
      this.#expect(false, `has ${what} ahead of ${JSON.stringify(overtaken)}`);
    }
  }

  /** What ran to its end is not withdrawn in the turn that has its answer. */
  #expectUnanswered(run: ScriptRun, operation: number, seen: number): void {
    const isAnswered = this.#delivered
      .slice(0, seen)
      .some(
        (one) =>
          one?.operation === operation &&
          one.execution === run.executionId &&
          finished.has(one.kind),
      );
    this.#expect(!isAnswered, `withdrew ${operation}, though its answer was there`);
  }

  /** What a turn has seen is in history, unless it no longer mattered. */
  #expectNothingLost(run: ScriptRun, seen: number): void {
    for (const one of this.#delivered.slice(0, seen)) {
      if (one !== undefined && matters(run, one))
        this.#expect(false, `lost ${JSON.stringify(one)}`);
    }
  }

  /** Events that came with the turn that continued as new are only seen in what it carried over. */
  #findCarried(count: number): void {
    this.#expect(count >= 0, 'lost an event when it continued as new');
    for (let found = 0; found < count; found++) {
      const index = this.#delivered.findIndex((one) => one?.kind === 'event');
      this.#expect(index >= 0, 'carried an event over that nobody raised');
      this.#delivered[index] = undefined;
    }
  }

  /** Whether the pruned execution had seen the request, nobody knows any more. */
  #forgetCancel(): void {
    const index = this.#delivered.findIndex((one) => one?.kind === 'cancel');
    if (index >= 0) this.#delivered[index] = undefined;
  }

  #checkEnd(run: ScriptRun, event: HistoryEvent): void {
    const { cancel, terminated } = this.#instance;
    if (event.kind === 'executionTerminated') {
      return this.#expect(event.reason === terminated, 'was terminated by nobody');
    }
    if (event.kind === 'executionContinuedAsNew') {
      return this.#expect(run.isContinuing, 'continued as new, though its code did not');
    }
    if (event.kind === 'executionCanceled') {
      this.#expect(event.reason === cancel?.reason, `was canceled because of ${event.reason}`);
      if (event.cleanupSkipped === true) {
        return this.#expect((cancel?.cleanUpBy ?? Infinity) <= event.at, 'was cut off early');
      }
    }
    const expected = `execution${run.end?.status ?? 'StillRuns'}`.toLowerCase();
    // Its code went on to the next execution, and was asked to stop before it got there: both ends are right.
    if (run.isContinuing && run.canceled) return;
    this.#expect(
      event.kind.toLowerCase() === expected,
      `ended with ${event.kind}, not ${expected}`,
    );
    if (event.kind !== 'executionCompleted') return;
    const output = decodePayload(event.payload);
    this.#expect(output === run.end?.output, `returned ${String(output)}`);
  }

  #expect(holds: boolean, what: string): void {
    if (!holds) this.#violations.push(`${this.#instance.id} ${what}`);
  }
}
