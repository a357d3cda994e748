import { decodeEvent, isIncoming, type HistoryEvent } from '../../../src/model/event.ts';
import { decodePayload } from '../../../src/model/values/payload.ts';
import type { ExecutionRecord } from '../../../src/providers/contract/instances.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { Delivered, Life, ModelInstance } from './reference-model.ts';
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

/** Outcomes of work that ran to its end. */
const finished: ReadonlySet<string> = new Set<Delivered['kind']>([
  'completed',
  'failed',
  'childEnded',
]);

/** Events that may be followed by withdrawals: a cancel, and the deadline of a scope. */
const withdraws: ReadonlySet<string> = new Set(['cancelRequested', 'timerFired']);

/** Outcomes and withdrawals: the events that follow a cancel before any code runs. */
function isSettling({ kind }: HistoryEvent): boolean {
  return kind === 'operationWithdrawn' || kind in deliveredKinds || kind === 'timerFired';
}

/** Whether a message can still change the state of the code. */
function matters(run: ScriptRun, { kind, operation, execution }: Delivered): boolean {
  if (operation === null) return true;
  return kind !== 'canceled' && execution === run.executionId && run.isPending(operation);
}

/** Checks the history of a finished instance. */
export class HistoryCheck {
  readonly #store: Provider;
  readonly #instance: ModelInstance;
  readonly #violations: string[] = [];
  /** Delivered messages that were not found in the history yet. */
  #delivered: (Delivered | undefined)[] = [];
  #life: Life;

  constructor(store: Provider, instance: ModelInstance) {
    this.#store = store;
    this.#instance = instance;
    this.#life = instance;
  }

  async run(): Promise<readonly string[]> {
    const { id: instanceId, execution, prunedUpTo, turns } = this.#instance;
    const executions = await this.#store.listExecutions({ instanceId, after: 0, limit: 1_000 });
    const { length } = executions;
    this.#expect(length === execution - prunedUpTo, `has ${length} executions`);
    const lives = [...this.#instance.past, this.#instance];
    for (const [index, life] of lives.entries()) {
      this.#life = life;
      this.#delivered = [...life.delivered];
      const last = (lives[index + 1]?.from ?? execution + 1) - 1;
      // The messages of pruned executions are in no history.
      for (const turn of turns) {
        if (turn.execution < life.from || turn.execution > last) continue;
        if (turn.execution <= prunedUpTo) this.#delivered.fill(undefined, 0, turn.seen);
      }
      await this.#checkLife(
        executions.filter(({ executionId: id }) => id >= life.from && id <= last),
        last,
      );
    }
    return this.#violations;
  }

  async #checkLife(executions: readonly ExecutionRecord[], last: number): Promise<void> {
    const { id: instanceId } = this.#instance;
    let run: ScriptRun | undefined;
    for (const { executionId, historyLength, status } of executions) {
      const params = { instanceId, executionId, after: 0, limit: 1_000 };
      const events = (await this.#store.readInstanceHistory(params)).map(decodeEvent);
      this.#expect(events.length === historyLength, 'has a gap in its history');
      run = this.#check(executionId, events, run);
      const expected = executionId === last ? this.#life.status : 'continuedAsNew';
      this.#expect(status === expected, `execution ${executionId} is ${status}, not ${expected}`);
    }
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
      const neverRan = events.length === 1 && this.#life.status !== 'completed';
      this.#expect(neverRan, 'does not begin with its start');
      return undefined;
    }
    const script = before?.rest ?? (decodePayload(started.payload) as Script);
    const carried = started.carried?.length ?? 0;
    const run = new ScriptRun(executionId, script, carried);
    const isCutOff = before === undefined && executionId > 1;
    if (!isCutOff) this.#findCarried(carried - (before?.buffered ?? 0));
    this.#expect(started.cancel !== undefined || before?.canceled !== true, 'lost its cancel');
    if (started.cancel !== undefined) {
      // A cancel that arrived while the previous execution waited for its end is also in that history.
      if (isCutOff) this.#forgetCancel();
      else if (before?.canceled !== true) {
        this.#find(run, { kind: 'cancel', operation: null, seen: Infinity, inPlace: true });
      }
      run.cancel();
    }
    run.start();
    const kept = executionId === this.#life.from ? this.#life.kept : 0;
    for (const event of events.slice(1, kept)) this.#applyKept(run, event);
    this.#applyTurns(run, executionId, events, kept);
    if (last !== undefined) this.#checkEnd(run, last);
    return run;
  }

  /** Events that a retry copied were checked in the execution that recorded them. */
  #applyKept(run: ScriptRun, event: HistoryEvent): void {
    const wrong = run.apply(event);
    if (wrong !== undefined) this.#expect(false, `kept an event, but ${wrong}`);
  }

  #applyTurns(
    run: ScriptRun,
    executionId: number,
    events: readonly HistoryEvent[],
    kept: number,
  ): void {
    const turns = this.#instance.turns.filter(({ execution }) => execution === executionId);
    let index = kept;
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
      // The outcome of an operation that was given up in the same turn is recorded at that place.
      const inPlace = turn.inPlace || (operation !== null && !run.isPending(operation));
      this.#find(run, { kind, operation, ...turn, inPlace: inPlace || run.isOver });
    }
    if (event.kind === 'activityCompleted' || event.kind === 'activityFailed') {
      const isValid = !run.isAbortedByCancel(event.operation);
      this.#expect(
        isValid,
        `has the outcome of ${event.operation}, although the cancel aborted its handler`,
      );
    }
    if (event.kind === 'operationWithdrawn' && !run.isAbortedByCancel(event.target)) {
      this.#expectUnanswered(run, event.target, turn.seen);
    }
    const wrong = run.apply(event);
    if (wrong !== undefined) this.#expect(false, wrong);
  }

  /** Every message in the history was delivered, in this order. */
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
      return this.#expect(false, `has ${what}, which no commit delivered`);
    }
    const overtaken = this.#delivered
      .slice(0, index)
      .find((one) => one !== undefined && matters(run, one));
    this.#delivered[index] = undefined;
    if (overtaken !== undefined && !inPlace) {
      this.#expect(false, `has ${what} ahead of ${JSON.stringify(overtaken)}`);
    }
  }

  /** An operation is not withdrawn in a turn that has its outcome. */
  #expectUnanswered(run: ScriptRun, operation: number, seen: number): void {
    const isAnswered = this.#delivered
      .slice(0, seen)
      .some(
        (one) =>
          one?.operation === operation &&
          one.execution === run.executionId &&
          finished.has(one.kind),
      );
    this.#expect(!isAnswered, `withdrew ${operation}, although its outcome was delivered`);
  }

  /** Every message of a turn is in the history, unless it could not change anything. */
  #expectNothingLost(run: ScriptRun, seen: number): void {
    for (const one of this.#delivered.slice(0, seen)) {
      if (one !== undefined && matters(run, one))
        this.#expect(false, `lost ${JSON.stringify(one)}`);
    }
  }

  /** Events that arrived with the continue-as-new turn are only in the carried-over events. */
  #findCarried(count: number): void {
    this.#expect(count >= 0, 'lost an event when it continued as new');
    for (let found = 0; found < count; found++) {
      const index = this.#delivered.findIndex((one) => one?.kind === 'event');
      this.#expect(index >= 0, 'carried over an event that was not raised');
      this.#delivered[index] = undefined;
    }
  }

  /** It is unknown whether the pruned execution had received the cancel. */
  #forgetCancel(): void {
    const index = this.#delivered.findIndex((one) => one?.kind === 'cancel');
    if (index >= 0) this.#delivered[index] = undefined;
  }

  #checkEnd(run: ScriptRun, event: HistoryEvent): void {
    const { cancel, terminated } = this.#life;
    if (event.kind === 'executionTerminated') {
      return this.#expect(event.reason === terminated, 'was terminated without a request');
    }
    if (event.kind === 'executionContinuedAsNew') {
      return this.#expect(run.isContinuing, 'continued as new, although its code did not');
    }
    if (event.kind === 'executionCanceled') {
      this.#expect(event.reason === cancel?.reason, `was canceled because of ${event.reason}`);
      if (event.cleanupSkipped === true) {
        return this.#expect((cancel?.cleanUpBy ?? Infinity) <= event.at, 'was cut off early');
      }
    }
    const expected = `execution${run.end?.status ?? 'StillRuns'}`.toLowerCase();
    // The code continued as new, and a cancel arrived before the next execution: both ends are valid.
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
