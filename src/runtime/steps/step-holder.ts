/**
 * Runs the steps of instances. A worker that commits a turn with pending steps keeps the claim on the instance.
 *
 * H1. A closure starts only for a committed turn, under a claim that is held, and while no message of the store waits.
 * H2. The outcome of a closure is a message in memory. Its turn is committed in one transaction, fenced by the claim.
 * H3. While steps are pending, the store has a timer of operation 0 that is due. If the worker dies, the claim expires and
 *     that timer makes the instance claimable. The next worker replays the history and runs the steps without an outcome.
 * H4. Messages of the store are read under the claim, after a hint, when the next timer is due, and at each poll.
 * H5. A closure whose claim is lost, whose step was withdrawn, or whose worker stops gets its signal and its grace.
 * H6. The outcome of a transaction is a message of the store, committed together with the writes of its closure. If it is
 *     unknown whether it was committed, the claim is given back: the next one finds the message or runs the closure again.
 *     If the codec cannot encode it, the instance is blocked, and the closure runs again after a delay.
 */
import type { Clock } from '../../model/clock.ts';
import type { HistoryEvent } from '../../model/event.ts';
import { isPerdureError, type PerdureError } from '../../model/failures/errors.ts';
import { decodeMessage } from '../../model/message.ts';
import type { OrchestrationAbandon } from '../../providers/contract/orchestration-queue.ts';
import type { CommitResult, Turn } from '../../providers/contract/turn.ts';
import type { Hint, Provider } from '../../providers/contract/provider.ts';
import type { TurnResult } from '../../replay/execution.ts';
import { Slots, type LeakedHandlers } from '../activities/concurrency.ts';
import { Emitter, type StreamBackpressure } from '../activities/emitter.ts';
import { IndexedList } from '../activities/indexed-list.ts';
import { Leases } from '../leases/leases.ts';
import { PendingWork } from '../maintenance/pending-work.ts';
import { withRetries } from '../maintenance/provider-retry.ts';
import type { ResolvedOptions } from '../options.ts';
import { toBlocked } from '../turns/blocked-turn.ts';
import type { TurnLifecycle } from '../turns/turn-lifecycle.ts';
import { causesOf } from '../turns/turn-trace.ts';
import type { WarmCache } from '../turns/warm-cache.ts';
import type { WarmInstance } from '../turns/warm-instance.ts';
import { HeldInstance } from './held-instance.ts';
import { StepRun, type StepMessage, type StepTransactionEnd } from './step-run.ts';
import { platform } from '../../model/platform.ts';

/** The delay after which a turn or transaction runs again that the codec could not encode. */
const codecRetryMs = 5_000;

export interface StepHolderParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly cache: WarmCache;
  readonly turns: TurnLifecycle;
  readonly leaked: LeakedHandlers;
  readonly backpressure: StreamBackpressure;
  /** Releases an instance, and runs a turn for outcomes that arrived meanwhile. */
  readonly release: (instance: WarmInstance) => void;
}

/** Keeps claims on instances and runs their steps. */
export class StepHolder {
  readonly #params: StepHolderParams;
  readonly #leases: Leases<HeldInstance>;
  readonly #slots: Slots;
  readonly #held = new Map<number, HeldInstance>();
  /** Instances with steps that wait for a slot, in order. */
  readonly #waiting = new Set<HeldInstance>();
  /** Attempts that run, also those whose claim is over. */
  readonly #runs = new IndexedList<StepRun>();
  readonly #pending = new PendingWork();
  #cancelPoll: (() => void) | undefined;
  #isStopping = false;
  #onIdle: (() => void) | undefined;

  constructor(params: StepHolderParams) {
    this.#params = params;
    const { provider, clock, options } = params;
    this.#slots = new Slots(options.stepConcurrency);
    this.#leases = new Leases<HeldInstance>({
      clock,
      leaseMs: options.orchestrationLeaseMs,
      logger: options.logger,
      renew: (claims) =>
        provider.renewOrchestrationLocks(
          claims.map(({ lockToken }) => lockToken),
          options.orchestrationLeaseMs,
        ),
    });
  }

  /** Takes over the claim on an instance with pending steps. `claimedAt`: the monotonic time of its lease. */
  hold(instance: WarmInstance, lockToken: string, claimedAt: number): void {
    const earlier = this.#held.get(instance.instanceKey);
    if (earlier !== undefined) this.#lose(earlier);
    const held = new HeldInstance(instance, lockToken, (lost) => this.#lose(lost));
    instance.hold = held;
    this.#held.set(instance.instanceKey, held);
    this.#leases.add(held, claimedAt);
    this.#schedulePoll();
    this.#continue(held);
  }

  onHint(hint: Hint): void {
    if (this.#held.size === 0) return;
    switch (hint.kind) {
      case 'messages':
        for (const key of hint.instanceKeys) this.#readSoon(this.#held.get(key));
        break;
      case 'changed':
      case 'missed':
        for (const held of this.#held.values()) this.#readSoon(held);
        break;
      case 'finished': {
        const ended = new Set(hint.instanceIds);
        const tokens = [...this.#held.values()]
          .filter(({ instance, isInTurn }) => !isInTurn && ended.has(instance.instanceId))
          .map(({ lockToken }) => lockToken);
        if (tokens.length > 0) void this.#leases.renewNow(tokens);
        break;
      }
      default:
        break;
    }
  }

  /**
   * Stops: no step starts. Running ones have `shutdownGrace` to end and are recorded; then their signals are aborted and
   * their instances are released.
   */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#cancelPoll?.();
    const { clock, options } = this.#params;
    for (const held of this.#held.values()) {
      held.waiting.clear();
      this.#continue(held);
    }
    this.#waiting.clear();
    const cancel = clock.setTimer(options.shutdownGraceMs, () => {
      for (const run of this.#runs.values()) run.abort('shutdown', 'the worker stops');
    });
    while (this.#runs.size > 0 || this.#pending.size > 0) {
      if (this.#pending.size > 0) await this.#pending.idle();
      else await new Promise<void>((resolve) => (this.#onIdle = resolve));
    }
    cancel();
    await Promise.all([...this.#held.values()].map((held) => this.#giveBack(held)));
    this.#leases.stop();
  }

  /** Starts what can start: a turn, or steps. */
  #continue(held: HeldInstance): void {
    if (held.isOver || held.isInTurn) return;
    if (held.hasTurn) this.#track(this.#runTurns(held));
    else if (held.mayHaveMessages) this.#track(this.#read(held));
    else if (!held.isReading) this.#launch(held);
  }

  #launch(held: HeldInstance): void {
    const now = this.#params.clock.now();
    for (const [id, { step }] of held.instance.execution.pendingSteps) {
      if (this.#isStopping || held.isPaused) break;
      if (held.runs.has(id) || held.waiting.has(id) || held.recorded.has(id)) continue;
      if (step?.retryAt !== undefined && step.retryAt > now) continue;
      if (this.#slots.free > 0) this.#start(held, id);
      else {
        held.waiting.add(id);
        this.#waiting.add(held);
      }
    }
    const isBusy = held.runs.size > 0 || held.waiting.size > 0 || held.isInTurn || held.hasTurn;
    if (!isBusy && !held.isOver) this.#track(this.#giveBack(held));
  }

  #start(held: HeldInstance, id: number): void {
    const operation = held.instance.execution.pendingSteps.get(id);
    if (operation === undefined) return;
    // The process was suspended or blocked: another worker may hold the instance.
    if (!this.#leases.isHeld(held.lockToken)) {
      this.#lose(held);
      return;
    }
    const { provider, clock, options, leaked } = this.#params;
    const run = new StepRun(operation, held.instance, {
      clock,
      options,
      leaked,
      store: provider,
      lockToken: held.lockToken,
      newEmitter: (step) => this.#newEmitter(held, step),
      onEnd: (ended, message, transacted) => this.#onEnd(held, ended, message, transacted),
    });
    held.runs.set(id, run);
    this.#runs.add(run);
    this.#slots.take(1);
    run.start();
  }

  #newEmitter({ instance, lockToken }: HeldInstance, step: StepRun): Emitter {
    const { provider: store, clock, options, backpressure } = this.#params;
    const { instanceId, executionId } = instance;
    const { name, operation, attempt } = step;
    return new Emitter({
      item: { instanceId, executionId, name, operation, failures: attempt - 1, lockToken },
      claim: 'instance',
      context: step,
      store,
      clock,
      options,
      backpressure,
      renewNow: () => this.#leases.renewNow([lockToken]),
    });
  }

  #onEnd(
    held: HeldInstance,
    run: StepRun,
    message: StepMessage | undefined,
    transacted: StepTransactionEnd | undefined,
  ): void {
    this.#runs.delete(run);
    this.#slots.release(1);
    if (held.runs.get(run.operation) === run) {
      held.runs.delete(run.operation);
      if (message !== undefined && !held.isOver) held.settled.push(message);
    }
    if (transacted !== undefined && !held.isOver) this.#onTransacted(held, run, transacted);
    if (!held.isOver) this.#continue(held);
    if (this.#waiting.size > 0) this.#startWaiting();
    if (this.#runs.size === 0) this.#onIdle?.();
  }

  /** The closure of a transaction must not run again, unless it was rolled back. */
  #onTransacted(held: HeldInstance, run: StepRun, transacted: StepTransactionEnd): void {
    if (transacted === 'committed') {
      held.recorded.add(run.operation);
      held.mayHaveMessages = true;
    } else if (transacted === 'lost') this.#lose(held);
    // The next claim finds the message, if it was committed.
    else if (transacted === 'unknown') this.#track(this.#giveBack(held, 'evict'));
    else this.#track(this.#giveBack(held, 'evict', transacted.unencoded));
  }

  #startWaiting(): void {
    for (const held of this.#waiting) {
      if (held.isOver || held.waiting.size === 0) {
        this.#waiting.delete(held);
        continue;
      }
      // A message may withdraw its steps: `#launch` follows the turn.
      if (held.isInTurn || held.hasTurn || held.mayHaveMessages || held.isReading) continue;
      for (const id of held.waiting) {
        if (this.#slots.free === 0) return;
        held.waiting.delete(id);
        this.#start(held, id);
      }
    }
  }

  async #runTurns(held: HeldInstance): Promise<void> {
    const { instance } = held;
    held.isInTurn = true;
    if (!instance.tryAcquire()) await instance.acquire();
    while (held.hasTurn && !held.isOver) await this.#runTurn(held);
    held.isInTurn = false;
    this.#params.release(instance);
    this.#continue(held);
    if (this.#waiting.size > 0) this.#startWaiting();
  }

  async #runTurn(held: HeldInstance): Promise<void> {
    const { clock, turns, options } = this.#params;
    const { instance, settled, messages: stored } = held;
    held.settled = [];
    held.messages = [];
    const beganAt = platform.monotonic();
    const nowMs = Math.floor(clock.now());
    let result: TurnResult;
    let turn: Turn;
    try {
      const messages = stored.length === 0 ? settled : [...settled, ...stored.map(decodeMessage)];
      const { version } = instance;
      instance.claim = held.lockToken;
      result = await instance.execution.turn({ messages, nowMs, version });
      if (options.alwaysReplay) await turns.replay(instance, result);
      turn = turns.plan(instance, result, { path: 'fast', nowMs });
    } catch (error) {
      // The next claim gets the same error, and handles it.
      options.logger.debug(
        { error, instanceId: instance.instanceId },
        'turn of a step failed, using the slow path',
      );
      await this.#giveBack(held, 'evict');
      return;
    } finally {
      instance.claim = undefined;
    }
    this.#abortWithdrawn(held, result.events);
    if (turn.outcome.status === 'canceled') await this.#ended(held);
    const keep = result.dueSteps === true;
    const sentAt = clock.monotonic();
    const commit = await this.#commit(held, turn, keep, stored);
    if (!commit.ok) {
      turns.rejected(instance, turn);
      if (isPerdureError(commit.error, 'CODEC_FAILED')) await this.#block(held, commit.error);
      this.#lose(held);
      options.logger.debug(
        { error: commit.error, instanceId: instance.instanceId },
        'turn of a step was not committed, it will run again',
      );
      return;
    }
    const { claimed, kept = false, paused = false } = commit;
    turns.committed(instance, turn, {
      claimed,
      path: 'fast',
      nowMs,
      sentAt,
      beganAt,
      kept,
      ...(options.telemetry !== undefined &&
        stored.length > 0 && { causes: causesOf(stored.map(decodeMessage)) }),
    });
    held.isPaused = paused;
    if (!kept) this.#end(held);
    else if (mayMessageItself(turn)) held.mayHaveMessages = true;
  }

  async #commit(
    { lockToken, instance: { instanceId } }: HeldInstance,
    turn: Turn,
    keep: boolean,
    stored: HeldInstance['messages'],
  ): Promise<CommitResult> {
    const { provider, clock, options } = this.#params;
    const messageKeys = stored.map(({ messageKey }) => messageKey);
    const acks = [{ instanceId, lockToken, messageKeys, turn, ...(keep && { keep }) }];
    try {
      const deadline = clock.monotonic() + options.orchestrationLeaseMs;
      const retry = { clock, logger: options.logger, deadline };
      const [result] = await withRetries(retry, () => provider.ackOrchestrationItems(acks));
      return result ?? { ok: false, error: new Error('The store returned no result.') };
    } catch (error) {
      return { ok: false, error: error as Error };
    }
  }

  /** Releases the claim of an instance whose turn the codec cannot encode, with the reason. The claim does not count. */
  async #block(held: HeldInstance, error: PerdureError): Promise<void> {
    const { provider, options } = this.#params;
    const { instanceId } = held.instance;
    try {
      await provider.abandonOrchestrationItems([this.#toBlockedAbandon(held, error)]);
    } catch (cause) {
      options.logger.warn({ error: cause, instanceId }, 'releasing a blocked instance failed');
    }
  }

  #toBlockedAbandon(
    { lockToken, instance: { instanceId } }: HeldInstance,
    error: PerdureError,
  ): OrchestrationAbandon {
    const { name: worker, buildId } = this.#params.options;
    const blocked = toBlocked(error, { worker, buildId });
    return { instanceId, lockToken, giveBackClaim: true, delayMs: codecRetryMs, blocked };
  }

  /** Aborts the attempts of steps that are no longer pending. They keep their slots until they end. */
  #abortWithdrawn(
    { runs, waiting, instance }: HeldInstance,
    events: readonly HistoryEvent[],
  ): void {
    if (runs.size === 0 && waiting.size === 0) return;
    const { pendingSteps } = instance.execution;
    for (const id of waiting) if (!pendingSteps.has(id)) waiting.delete(id);
    for (const event of events) {
      if (event.kind === 'operationWithdrawn')
        runs.get(event.target)?.abort(event.trigger, event.reason);
    }
    for (const [id, run] of runs)
      if (!pendingSteps.has(id)) run.abort('cancel', 'its execution has ended');
  }

  /** Resolves when all attempts of an instance have ended, at the latest after their grace. */
  async #ended(held: HeldInstance): Promise<void> {
    for (const run of held.runs.values()) run.abort('cancel', 'the instance was canceled');
    while (held.runs.size > 0 && !held.isOver) {
      await new Promise<void>((resolve) => this.#params.clock.setTimer(1, resolve));
    }
  }

  #readSoon(held: HeldInstance | undefined): void {
    if (held === undefined) return;
    held.mayHaveMessages = true;
    this.#continue(held);
  }

  async #read(held: HeldInstance): Promise<void> {
    if (held.isReading) return;
    held.isReading = true;
    held.mayHaveMessages = false;
    const { provider, clock, options } = this.#params;
    try {
      const [found] = await provider.readHeldMessages([held.lockToken]);
      if (found === undefined) this.#lose(held);
      else {
        held.messages = found.messages;
        held.cancelAlarm?.();
        held.cancelAlarm =
          found.nextInMs === null
            ? undefined
            : clock.setTimer(Math.max(found.nextInMs, 1), () => this.#readSoon(held));
      }
    } catch (error) {
      options.logger.warn({ error }, 'reading messages of a running instance failed, will retry');
    }
    held.isReading = false;
    this.#continue(held);
  }

  #schedulePoll(): void {
    if (this.#cancelPoll !== undefined || this.#isStopping) return;
    const { clock, options } = this.#params;
    this.#cancelPoll = clock.setTimer(options.pollIntervalMs, () => {
      this.#cancelPoll = undefined;
      for (const held of this.#held.values()) this.#readSoon(held);
      if (this.#held.size > 0) this.#schedulePoll();
    });
  }

  /**
   * Releases a claim without a turn: the timer of operation 0 makes the instance claimable. With `unencoded`, the error of
   * the codec, it is blocked until then.
   */
  async #giveBack(
    held: HeldInstance,
    then: 'keep' | 'evict' = 'keep',
    unencoded?: PerdureError,
  ): Promise<void> {
    const { provider, clock, options, cache } = this.#params;
    const { lockToken, instance } = held;
    if (held.isOver) return;
    this.#end(held);
    for (const run of held.runs.values()) run.abort('shutdown', 'the instance was released');
    if (then === 'evict') cache.evict(instance);
    try {
      const deadline = clock.monotonic() + options.orchestrationLeaseMs;
      const retry = { clock, logger: options.logger, deadline };
      const abandon =
        unencoded === undefined
          ? { lockToken, delayMs: 0, giveBackClaim: true }
          : this.#toBlockedAbandon(held, unencoded);
      await withRetries(retry, () => provider.abandonOrchestrationItems([abandon]));
    } catch (error) {
      options.logger.error({ error }, 'releasing instances failed, their leases will expire');
    }
  }

  /** The claim is lost: another worker may run the same steps. */
  #lose(held: HeldInstance): void {
    if (held.isOver) return;
    this.#end(held);
    for (const run of held.runs.values())
      run.abort('lease_lost', 'the claim on the instance was lost');
    this.#params.cache.evict(held.instance);
  }

  #end(held: HeldInstance): void {
    const { instance, lockToken } = held;
    held.isOver = true;
    held.cancelAlarm?.();
    held.waiting.clear();
    this.#waiting.delete(held);
    this.#leases.remove(lockToken);
    if (instance.hold === held) instance.hold = undefined;
    if (this.#held.get(instance.instanceKey) === held) this.#held.delete(instance.instanceKey);
  }

  #track(work: Promise<void>): void {
    this.#pending.watch(work);
    work.catch((error: unknown) => {
      this.#params.options.logger.error({ error }, 'running steps failed');
    });
  }
}

/** Whether the commit of a turn may send messages to its own instance. */
function mayMessageItself(turn: Turn): boolean {
  return (
    turn.timers.length > 0 ||
    turn.children.length > 0 ||
    turn.messages.length > 0 ||
    turn.activityCancels.length > 0 ||
    turn.childCancels.length > 0 ||
    turn.workItems.length > 0
  );
}
