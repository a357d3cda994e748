import type { ParentRef } from '../../model/event.ts';
import type { Execution } from '../../replay/execution.ts';
import type { LoopHold, LoopHolder } from '../watchdog/loop-holder.ts';
import type { LiveCode } from './program-factory.ts';
import type { SettledActivity } from './settled-activity.ts';
import type { TurnSubject } from './turn-effects.ts';

/** An instance whose function is alive in this process, standing exactly where `lastTurn` left it. */
export class LiveInstance implements TurnSubject, LoopHolder {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly parent: ParentRef | null;
  /** Replaced only by an equal one that was replayed from the store. */
  code: LiveCode;
  /** Activities that have settled here and wait for a turn of their own. */
  readonly settled: SettledActivity[] = [];
  /** Activities that were left in the queue and have not answered: later ones do not overtake them. */
  readonly queued = new Set<number>();
  /** Timers that this process has set and that have not fired, with when they are due by the store's whole milliseconds. */
  readonly timers = new Map<number, number>();
  /** The last turn that committed; `null` before the first. */
  lastTurn: string | null;
  /** The claim under which its turn runs; absent while it runs in memory. */
  claim: string | undefined;
  /** The claims on the work whose outcomes its turn in memory applies. */
  items: readonly string[] | undefined;
  /** What lists hold that outlast the instance: empty once it is gone, so that they keep nothing alive. */
  readonly handle: { live: LiveInstance | undefined } = { live: this };
  #busy = false;
  readonly #waiting: (() => void)[] = [];

  constructor(fields: {
    readonly instanceKey: number;
    readonly subject: TurnSubject;
    readonly incarnation: string;
    readonly code: LiveCode;
    readonly lastTurn: string | null;
  }) {
    this.instanceKey = fields.instanceKey;
    this.instanceId = fields.subject.instanceId;
    this.incarnation = fields.incarnation;
    this.executionId = fields.subject.executionId;
    this.name = fields.subject.name;
    this.version = fields.subject.version;
    this.parent = fields.subject.parent;
    this.code = fields.code;
    this.lastTurn = fields.lastTurn;
    fields.code.execution.holder = this;
  }

  describeHold(): LoopHold {
    const { instanceKey, instanceId, incarnation, executionId, name, lastTurn, claim, items } =
      this;
    return {
      kind: 'turn',
      watched: this.code.watched,
      what: `a turn of orchestration ${JSON.stringify(name)}`,
      instanceId,
      orchestration: name,
      ...(claim !== undefined && { lockToken: claim }),
      ...(items !== undefined && { items }),
      ...(lastTurn !== null && { fences: { instanceKey, incarnation, executionId, lastTurn } }),
    };
  }

  /** Turns of one instance run one after the other: resolves once this caller may run one. */
  async acquire(): Promise<void> {
    if (!this.tryAcquire()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Takes the instance if it is free. */
  tryAcquire(): boolean {
    if (this.#busy) return false;
    this.#busy = true;
    return true;
  }

  /** Lets the next one in. */
  release(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#busy = false;
    else next();
  }

  /** Evicted: what it knows can no longer be trusted. */
  get gone(): boolean {
    return this.handle.live === undefined;
  }

  /** Lets go of the function. */
  discard(): void {
    this.handle.live = undefined;
    this.execution.dispose();
  }

  get execution(): Execution {
    return this.code.execution;
  }

  get busy(): boolean {
    return this.#busy;
  }
}
