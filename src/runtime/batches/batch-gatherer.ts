import { taskActivityName } from '../../model/task-call.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { Slots } from '../activities/concurrency.ts';
import type { WorkSource, WorkSourceListener } from '../activities/work-source.ts';
import type { BatchedAttempt, BatchMember } from './batch-member.ts';
import { Batch, type BatchEnvironment, type WorkBatch } from './batch.ts';

/** From this claim on, the store hands an item out alone: its earlier workers may have crashed because of it. */
const firstSuspectClaim = 3;
/** The delay of an item that has no place: a gathering batch keeps on claiming. */
const noPlaceDelayMs = 200;

/** Groups the claimed runs of a task into batches, at most one at a time. */
export class BatchGatherer implements WorkSource {
  readonly isBatch = true;
  readonly task: string;
  readonly names: readonly string[];
  readonly tasks: readonly string[];
  readonly #batch: WorkBatch;
  readonly #environment: BatchEnvironment;
  readonly #slots: Slots;
  #gathering: Batch | undefined;
  #cancelWait: (() => void) | undefined;
  /** The batches that hold a slot. */
  #count = 0;
  #listener: WorkSourceListener | undefined;

  constructor(batch: WorkBatch, environment: BatchEnvironment, slots: Slots) {
    this.#batch = batch;
    this.#environment = environment;
    this.#slots = slots;
    this.task = batch.task;
    this.tasks = [batch.task];
    this.names = [taskActivityName(batch.task)];
  }

  /** Whether a batch gathers runs. It has its slot already. */
  get isGathering(): boolean {
    return this.#gathering !== undefined;
  }

  get availableAt(): number | undefined {
    return this.#batch.breaker?.availableAt;
  }

  observe(listener: WorkSourceListener): void {
    this.#listener = listener;
  }

  /** How many runs can be claimed now: the places of the batch that gathers, or of a new one. */
  claimable(nowMs: number, freeSlots: number): number {
    const places = this.#gathering?.places ?? (this.#mayOpen(freeSlots) ? this.#batch.max : 0);
    return Math.min(places, this.#batch.breaker?.capacity(nowMs) ?? Infinity);
  }

  /** Whether a claimed run joins the batch that gathers. */
  hasPlace(item: WorkItem): boolean {
    return this.isGathering && !isSuspect(item);
  }

  /** Whether a claimed run joins the batch that gathers, or begins another one. */
  mayAdd(item: WorkItem): boolean {
    return this.hasPlace(item) || this.#mayOpen(this.#slots.free);
  }

  /** How an item is handed back that has no place. A batch that gathers would claim it again immediately. */
  get noPlace(): { readonly delayMs: number } {
    return { delayMs: this.isGathering ? noPlaceDelayMs : 0 };
  }

  /** Adds a run to the batch that gathers, or to a new one. */
  add(attempt: BatchedAttempt): BatchMember {
    if (isSuspect(attempt.item)) return this.#addAlone(attempt);
    this.#gathering ??= this.#openGathering();
    const batch = this.#gathering;
    const member = batch.add(attempt);
    if (batch.places < 1) this.#close(batch);
    return member;
  }

  /** Hands the gathered runs back: the worker stops. */
  stop(): void {
    this.#gathering?.handBack();
  }

  #mayOpen(freeSlots: number): boolean {
    return freeSlots > 0 && this.#count < this.#batch.concurrency;
  }

  #addAlone(attempt: BatchedAttempt): BatchMember {
    const batch = this.#open();
    const member = batch.add(attempt);
    batch.close();
    return member;
  }

  #openGathering(): Batch {
    const batch = this.#open();
    const { clock } = this.#environment;
    this.#cancelWait = clock.setTimer(this.#batch.waitMs, () => this.#close(batch));
    this.#listener?.opened();
    return batch;
  }

  #open(): Batch {
    this.#slots.take(1);
    this.#count += 1;
    const batch = new Batch(this.#batch, this.#environment, () => {
      this.#forget(batch);
      this.#count -= 1;
      this.#slots.release(1);
    });
    return batch;
  }

  #close(batch: Batch): void {
    this.#forget(batch);
    batch.close();
  }

  #forget(batch: Batch): void {
    if (this.#gathering !== batch) return;
    this.#gathering = undefined;
    this.#cancelWait?.();
    this.#listener?.closed();
  }
}

function isSuspect({ claims }: WorkItem): boolean {
  return claims >= firstSuspectClaim;
}
