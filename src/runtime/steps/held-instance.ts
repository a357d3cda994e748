import type { FetchedMessage } from '../../providers/contract/orchestration-queue.ts';
import type { Lease } from '../leases/leases.ts';
import type { WarmInstance } from '../turns/warm-instance.ts';
import type { StepMessage, StepRun } from './step-run.ts';

/** An instance whose claim this worker keeps while it runs its steps. */
export class HeldInstance implements Lease {
  readonly instance: WarmInstance;
  readonly lockToken: string;
  /** The attempts that run, by operation. */
  readonly runs = new Map<number, StepRun>();
  /** Operations that wait for a slot. */
  readonly waiting = new Set<number>();
  /** Operations whose outcome is a message of the store: they must not run again. */
  readonly recorded = new Set<number>();
  /** Outcomes that wait for a turn. */
  settled: StepMessage[] = [];
  /** Messages of the store that wait for a turn. */
  messages: readonly FetchedMessage[] = [];
  /** Whether a turn runs or is being committed. */
  isInTurn = false;
  /** Whether the store may have messages that this worker has not read. */
  mayHaveMessages = true;
  isReading = false;
  /** Whether the store asked not to start more steps. */
  isPaused = false;
  /** Whether the claim is lost or released. */
  isOver = false;
  cancelAlarm: (() => void) | undefined;
  readonly #onLost: (held: HeldInstance) => void;

  constructor(instance: WarmInstance, lockToken: string, onLost: (held: HeldInstance) => void) {
    this.instance = instance;
    this.lockToken = lockToken;
    this.#onLost = onLost;
  }

  onLost(): void {
    this.#onLost(this);
  }

  get hasTurn(): boolean {
    return this.settled.length > 0 || this.messages.length > 0;
  }
}
