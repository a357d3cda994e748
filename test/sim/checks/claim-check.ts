import type { Hint, Provider } from '../../../src/providers/contract/provider.ts';
import type { TransactionAck } from '../../../src/providers/contract/transactional.ts';
import type { CommitResult, Turn } from '../../../src/providers/contract/turn.ts';
import type { WorkItem } from '../../../src/providers/contract/work-queue.ts';
import type { NewInstance } from '../../../src/providers/contract/instances.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { SimProcess, World } from '../engine/scheduler.ts';
import { TimerCheck } from './timer-check.ts';

/** A lease on a work item or an instance. */
interface Claim {
  readonly process: SimProcess;
  /** The item or instance. */
  readonly key: string;
  readonly token: string;
  until: number;
  isFree: boolean;
  /** It was claimed with a cancel request. */
  readonly cancel: boolean;
  /** The definition of a work item. Absent: an instance. */
  readonly name?: string | undefined;
}

interface Definition {
  readonly kind: string;
  readonly name: string;
}

/** A claimed instance, or the messages of one. */
interface Delivered {
  readonly lockToken?: string;
  readonly messages: readonly { readonly kind: string }[];
}

type Call<M extends keyof Provider> = Provider[M] extends (
  ...args: infer Args
) => Promise<infer Result>
  ? { readonly args: Args; readonly result: Result }
  : never;

/** How long handlers of one event loop iteration may start. A cancel cannot arrive meanwhile. */
const startSliceMs = 2;
/** By when a worker notices that a lease has ended. */
const noticeMs = 50;

/** The key of a work item, as handlers see it in their idempotency key. */
function itemKey(
  item: Pick<WorkItem, 'instanceId' | 'incarnation' | 'executionId' | 'operation'>,
): string {
  const { instanceId, incarnation, executionId, operation } = item;
  return `${instanceId}/${incarnation}/${executionId}.${operation}`;
}

/**
 * Checks the claims of all processes: at most one holder, no write after a lease, one outcome per item, and no start of a
 * handler after its cancel was delivered or its lease ended.
 */
export class ClaimCheck {
  readonly starts = new Map<string, number>();
  /** The signals of handlers that are at work. */
  readonly working = new Set<AbortSignal>();
  readonly #world: World;
  readonly #now: () => number;
  readonly #maxClaims: number;
  readonly #timers: TimerCheck;
  readonly #byToken = new Map<string, Claim>();
  readonly #holders = new Map<string, Claim>();
  readonly #settled = new Set<string>();
  readonly #claimedBy = new WeakMap<SimProcess, Map<string, Claim>>();
  readonly #toldToStop = new WeakMap<SimProcess, Set<string>>();
  readonly #instances = new Map<string, string>();
  /** The signals of the handlers that were started, by lock token. */
  readonly #signals = new Map<string, AbortSignal>();

  /** `maxClaims`: the claims without an outcome after which an item is poison. */
  constructor(world: World, now: () => number, maxClaims: number) {
    this.#world = world;
    this.#now = now;
    this.#maxClaims = maxClaims;
    this.#timers = new TimerCheck(world, now);
  }

  /** Observes a committed call. */
  observe({ process, method, args, result }: ObservedCall): void {
    const call = { args, result } as never;
    switch (method as keyof Provider) {
      case 'createInstances':
        return this.#created(process, call);
      case 'fetchWorkItems':
        return this.#fetchedItems(process, call);
      case 'fetchOrchestrationItems':
        return this.#fetchedInstances(process, call);
      case 'ackOrchestrationItems':
        return this.#ackedInstances(process, call);
      case 'ackTurns':
        return this.#ackedTurns(process, call);
      case 'ackWorkItems':
        return this.#ackedItems(call);
      case 'renewWorkItemLocks':
      case 'renewOrchestrationLocks':
        return this.#renewed(call);
      case 'abandonWorkItems':
      case 'retryWorkItems':
      case 'abandonOrchestrationItems':
        return this.#handedBack(call);
      case 'retryInstances':
        return this.#retried(call);
      case 'pauseDefinitions':
        for (const { kind, name } of args[0] as readonly Definition[]) {
          this.#paused.add(`${kind} ${name}`);
        }
        return;
      case 'resumeDefinitions':
        for (const { kind, name } of args[0] as readonly Definition[]) {
          this.#paused.delete(`${kind} ${name}`);
        }
        return;
      case 'transact':
        return this.#transacted({ process, method, args, result });
      default:
    }
  }

  /** A transaction of the application commits one ack. */
  #transacted({ process, args, result }: ObservedCall): void {
    const one = args[0] as TransactionAck | undefined;
    const commit = result as CommitResult;
    if (one === undefined || !commit.ok) return;
    const observe = (
      method: keyof Provider,
      acks: readonly unknown[],
      results: readonly unknown[],
    ) => this.observe({ process, method, args: [acks], result: results });
    if (one.kind === 'workItem') observe('ackWorkItems', [one.ack], [commit]);
    else if (one.kind === 'workItems') {
      const acks = one.acks.map(({ ack }) => ack);
      observe('ackWorkItems', acks, commit.items ?? acks.map(() => commit));
    } else if (one.kind === 'turn') observe('ackTurns', [one.ack], [commit]);
    else if (one.kind === 'orchestration') observe('ackOrchestrationItems', [one.ack], [commit]);
  }

  /** Observes a response that reaches its process. */
  delivered({ process, method, args, result }: ObservedCall): void {
    if (method === 'readHeldMessages' || method === 'fetchOrchestrationItems') {
      const tokens = method === 'readHeldMessages' ? (args[0] as readonly string[]) : [];
      for (const [index, one] of (result as readonly (Delivered | undefined)[]).entries()) {
        const claim = this.#byToken.get(one?.lockToken ?? tokens[index] ?? '');
        const isCanceled = one?.messages.some(({ kind }) => kind === 'cancel') === true;
        if (isCanceled && claim !== undefined) this.#canceledIn(process).add(claim.key);
      }
      return;
    }
    if (method !== 'renewWorkItemLocks') return;
    const call = { args, result } as Call<'renewWorkItemLocks'>;
    for (const [index, { lockToken }] of call.args[0].entries()) {
      const renewal = call.result[index];
      if (renewal?.held === true && renewal.cancel !== null) this.#tell(process, lockToken);
    }
  }

  hinted(process: SimProcess, hint: Hint): void {
    if (hint.kind !== 'cancelRequested') return;
    for (const token of hint.lockTokens) {
      const claim = this.#byToken.get(token);
      // A hint can be earlier than the response with the claim; the worker then has no claim with this token.
      if (hint.cancels?.has(token) === true && claim?.process === process && this.#isKnown(claim)) {
        this.#tell(process, token);
      }
    }
  }

  /** The handler of an item blocks the event loop of its process past its lease. */
  blocks(process: SimProcess, key: string): void {
    const keys = this.#blockedIn.get(process) ?? new Set();
    this.#blockedIn.set(process, keys.add(key));
    this.#blocked.add(key);
  }

  /** Whether a handler of an instance, or of one whose id begins with it, blocked an event loop past its lease. */
  hasBlocked(instanceId: string): boolean {
    return [...this.#blocked].some((key) => key.startsWith(instanceId));
  }

  /** A handler starts. */
  started(process: SimProcess, key: string, signal: AbortSignal): void {
    const world = this.#world;
    this.starts.set(key, (this.starts.get(key) ?? 0) + 1);
    world.note(`${process.name} starts ${key}`);
    const own = this.#claimedBy.get(process)?.get(key);
    if (own === undefined) return world.violate(`${process.name} starts ${key} without a claim`);
    this.#known.add(own);
    this.#signals.set(own.token, signal);
    if (this.#toldToStop.get(process)?.has(own.token) === true) {
      return world.violate(`${process.name} starts ${key} after its cancel was delivered`);
    }
    if (this.#blockedIn.get(process)?.has(key) === true) {
      return world.violate(`${process.name} starts ${key} again, which blocked its event loop`);
    }
    if (own.cancel) return world.violate(`${process.name} starts ${key}, which it got as canceled`);
    // It cannot check its lease after it was stopped in the middle of a step.
    if (process.stalledIn === world.steps) return;
    if (process.iterationMs > startSliceMs) {
      const ms = Math.round(process.iterationMs);
      return world.violate(`${process.name} starts ${key} after ${ms} ms without the event loop`);
    }
    if (own.isFree && !this.#settled.has(key)) {
      return world.violate(`${process.name} starts ${key} after it gave up its claim`);
    }
    const lateMs = this.#now() + (process.at - world.now) - own.until;
    if (lateMs >= 0) {
      world.violate(`${process.name} starts ${key} ${Math.round(lateMs)} ms after its lease ended`);
    } else if (this.#settled.has(key)) {
      world.violate(`${process.name} starts ${key}, whose outcome is recorded`);
    }
  }

  /**
   * A step of `ctx.run` or a transaction of an orchestration starts. Its process holds the instance. A transaction starts
   * when the store begins it, which can be after the lease or a cancel: the store then rolls it back.
   */
  startedStep(process: SimProcess, key: string, kind: 'step' | 'transaction' = 'step'): void {
    const world = this.#world;
    this.starts.set(key, (this.starts.get(key) ?? 0) + 1);
    world.note(`${process.name} starts step ${key}`);
    const own = this.#claimedBy.get(process)?.get(key.slice(0, key.lastIndexOf('/')));
    if (own === undefined)
      return world.violate(`${process.name} starts step ${key} without a claim`);
    if (kind === 'transaction') return;
    if (this.#canceledIn(process).has(own.key)) {
      return world.violate(`${process.name} starts step ${key} after its cancel was delivered`);
    }
    if (process.stalledIn === world.steps) return;
    const lateMs = this.#now() + (process.at - world.now) - own.until;
    if (lateMs >= 0) {
      world.violate(`${process.name} starts step ${key} ${Math.round(lateMs)} ms after its lease`);
    }
  }

  /** All leases of a process end now. */
  takenOver(process: SimProcess): void {
    const now = this.#now();
    for (const claim of this.#byToken.values()) {
      if (claim.process === process) claim.until = Math.min(claim.until, now);
    }
  }

  /** The key of a known claim whose lease has ended. */
  endedClaim(token: string): string | undefined {
    const claim = this.#byToken.get(token);
    return claim !== undefined && claim.until <= this.#now() ? claim.key : undefined;
  }

  /** The ids of the instances of all work items that are claimed. */
  heldInstances(): readonly string[] {
    const now = this.#now();
    const held: string[] = [];
    for (const { key, isFree, until } of this.#holders.values()) {
      if (!isFree && until > now) held.push(key.slice(0, key.indexOf('/')));
    }
    return held;
  }

  /** The work items that are claimed, with the names of their definitions. */
  *heldItems(): Generator<{ readonly name: string; readonly token: string }> {
    const now = this.#now();
    for (const { name, token, isFree, until } of this.#holders.values()) {
      if (name !== undefined && !isFree && until > now) yield { name, token };
    }
  }

  readonly #known = new WeakSet<Claim>();
  readonly #blocked = new Set<string>();
  /** The paused definitions. */
  readonly #paused = new Set<string>();
  readonly #blockedIn = new WeakMap<SimProcess, Set<string>>();

  /** The instances whose cancel request has reached a process. */
  #canceledIn(process: SimProcess): Set<string> {
    const keys = this.#canceledInstances.get(process) ?? new Set<string>();
    this.#canceledInstances.set(process, keys);
    return keys;
  }

  readonly #canceledInstances = new WeakMap<SimProcess, Set<string>>();

  #isKnown(claim: Claim): boolean {
    return this.#known.has(claim);
  }

  #tell(process: SimProcess, token: string): void {
    const tokens = this.#toldToStop.get(process) ?? new Set();
    this.#toldToStop.set(process, tokens.add(token));
    const signal = this.#signals.get(token);
    if (signal === undefined) return;
    this.#world.add(process, 'has got a cancel', () => {
      const claim = this.#byToken.get(token);
      if (claim !== undefined && this.working.has(signal) && !signal.aborted) {
        this.#world.violate(`${process.name} does not abort ${claim.key} after its cancel arrived`);
      }
    });
  }

  /** The lease of a claim has ended, and the item has a new holder. The worker must abort the handler of the old claim. */
  #expectAborted({ process, key, token }: Claim): void {
    const signal = this.#signals.get(token);
    if (signal === undefined) return;
    const world = this.#world;
    const check = (): void => {
      const beganAt = process.at;
      const dueAt = beganAt + noticeMs;
      world.add(
        process,
        'has lost a lease',
        () => {
          if (!this.working.has(signal) || signal.aborted) return;
          // It was stopped, stalled or computed meanwhile, so its timers are as late as this step.
          // If it resumes exactly now, they may come after this step.
          const resumedAt = Math.max(process.stalledUntil, process.stoppedUntil);
          if (world.now > dueAt || resumedAt > beganAt) check();
          else world.violate(`${process.name} does not abort ${key} after its lease ended`);
        },
        noticeMs,
      );
    };
    check();
  }

  /** The new execution has a lock of its own: a claim from before the end is over. */
  #retried({ args, result }: Call<'retryInstances'>): void {
    for (const [index, { source }] of args[0].entries()) {
      if (result[index]?.kind !== 'retried') continue;
      for (const [incarnation, instanceId] of this.#instances) {
        const claim = this.#holders.get(`${instanceId}/${incarnation}`);
        if (instanceId === source.instanceId && claim !== undefined) claim.isFree = true;
      }
    }
  }

  #claim(process: SimProcess, claim: Omit<Claim, 'process' | 'isFree'>): void {
    const { key } = claim;
    const holder = this.#holders.get(key);
    if (holder !== undefined && !holder.isFree && holder.until > this.#now()) {
      this.#world.violate(`${process.name} claims ${key} while ${holder.process.name} holds it`);
    }
    const hasExpired = holder !== undefined && !holder.isFree && holder.until <= this.#now();
    if (hasExpired) {
      this.#world.reached.add('fault leaseExpired');
      this.#expectAborted(holder);
    }
    const held: Claim = { ...claim, process, isFree: false };
    this.#holders.set(key, held);
    this.#byToken.set(claim.token, held);
    const own = this.#claimedBy.get(process) ?? new Map<string, Claim>();
    this.#claimedBy.set(process, own.set(key, held));
  }

  /** A turn of an execution was committed. Some of its work items are claimed by its process. */
  #committedTurn(
    process: SimProcess,
    execution: string,
    turn: Pick<Turn, 'workItems' | 'events'>,
    claimed: readonly { readonly operation: number; readonly lockToken: string }[],
  ): void {
    this.#timers.committed(execution, turn.events);
    for (const { operation, lockToken: token } of claimed) {
      const item = turn.workItems.find((one) => one.operation === operation);
      const until = this.#now() + (item?.claimMs ?? 0);
      if (item !== undefined) this.#expectNotPaused({ kind: 'activity', name: item.name });
      const key = `${execution}.${operation}`;
      this.#claim(process, { key, token, until, cancel: false, name: item?.name });
    }
  }

  #expectNotPaused({ kind, name }: Definition): void {
    if (!this.#paused.has(`${kind} ${name}`)) return;
    this.#world.violate(`${kind} ${name} was claimed while its definition is paused`);
  }

  #created(process: SimProcess, { args, result }: Call<'createInstances'>): void {
    for (const [index, one] of args[0].entries()) {
      const created = result[index];
      if (created?.kind !== 'created') continue;
      const { instanceId, incarnation, firstTurn }: NewInstance = one;
      this.#instances.set(incarnation, instanceId);
      if (firstTurn === undefined) continue;
      this.#committedTurn(process, `${instanceId}/${incarnation}/1`, firstTurn, created.claimed);
    }
  }

  #fetchedItems(process: SimProcess, { args, result }: Call<'fetchWorkItems'>): void {
    for (const item of result) {
      const until = this.#now() + args[0].lockMs;
      const cancel = item.cancel !== null;
      if (!cancel) this.#expectNotPaused(item);
      const { name, lockToken: token } = item;
      this.#claim(process, { key: itemKey(item), token, until, cancel, name });
    }
  }

  #fetchedInstances(process: SimProcess, { args, result }: Call<'fetchOrchestrationItems'>): void {
    for (const { instanceId, incarnation, executionId, lockToken: token } of result) {
      this.#instances.set(incarnation, instanceId);
      const key = `${instanceId}/${incarnation}`;
      const until = this.#now() + args[0].lockMs;
      this.#claim(process, { key, token, until, cancel: false });
      this.#executions.set(token, `${key}/${executionId}`);
    }
  }

  readonly #executions = new Map<string, string>();

  #ackedInstances(process: SimProcess, { args, result }: Call<'ackOrchestrationItems'>): void {
    for (const [index, { lockToken, turn, keep }] of args[0].entries()) {
      const acked = result[index];
      if (acked?.ok !== true) continue;
      const claim = this.#write(lockToken, 'a turn was acked');
      if (claim !== undefined && !(keep === true && acked.kept === true)) claim.isFree = true;
      const execution = this.#executions.get(lockToken);
      if (execution !== undefined) this.#committedTurn(process, execution, turn, acked.claimed);
    }
  }

  #ackedTurns(process: SimProcess, { args, result }: Call<'ackTurns'>): void {
    for (const [index, ack] of args[0].entries()) {
      const acked = result[index];
      if (acked?.ok !== true) continue;
      for (const token of ack.lockTokens) this.#settle(token, acked);
      const { incarnation, executionId, turn } = ack;
      const instanceId = ack.instanceId ?? this.#instances.get(incarnation);
      const execution = `${instanceId}/${incarnation}/${executionId}`;
      this.#committedTurn(process, execution, turn, acked.claimed);
    }
  }

  #ackedItems({ args, result }: Call<'ackWorkItems'>): void {
    for (const [index, { lockToken, outcome }] of args[0].entries()) {
      const acked = result[index];
      if (acked?.ok !== true) continue;
      if (outcome.kind === 'failed') this.#expectPoison(lockToken, outcome.failure);
      if (outcome.kind === 'failed') this.#expectBlocked(lockToken, outcome.failure);
      if (outcome.kind !== 'skipped') this.#settle(lockToken, acked);
    }
  }

  /** Only an item whose handler started at each of its claims, and did not end, is poison. */
  #expectPoison(lockToken: string, failure: string): void {
    const key = this.#byToken.get(lockToken)?.key;
    if (key === undefined || !failure.includes('"POISON"')) return;
    if ((this.starts.get(key) ?? 0) >= this.#maxClaims) return;
    this.#world.violate(`${key} is poison, although its code is not`);
  }

  /** Only a handler that blocked the event loop fails for it: a suspended process does not. */
  #expectBlocked(lockToken: string, failure: string): void {
    const key = this.#byToken.get(lockToken)?.key;
    if (key === undefined || this.#blocked.has(key) || !failure.includes('"EVENT_LOOP_BLOCKED"'))
      return;
    this.#world.violate(`${key} failed as if it had blocked the event loop`);
  }

  #renewed({ args, result }: Call<'renewWorkItemLocks'> | Call<'renewOrchestrationLocks'>): void {
    const [renewals, extendMs] = args;
    for (const [index, renewal] of renewals.entries()) {
      const renewed = result[index];
      const isHeld = typeof renewed === 'boolean' ? renewed : renewed?.held === true;
      if (!isHeld) continue;
      const token = typeof renewal === 'string' ? renewal : renewal.lockToken;
      const claim = this.#write(token, 'a lease was renewed');
      if (claim !== undefined) claim.until = this.#now() + extendMs;
    }
  }

  #handedBack({
    args,
    result,
  }: Call<'abandonWorkItems'> | Call<'retryWorkItems'> | Call<'abandonOrchestrationItems'>): void {
    for (const [index, { lockToken }] of args[0].entries()) {
      const claim = this.#byToken.get(lockToken);
      if (result[index] !== false && claim !== undefined) claim.isFree = true;
    }
  }

  #settle(token: string, _result: CommitResult): void {
    const claim = this.#write(token, 'an outcome was recorded');
    if (claim === undefined) return;
    if (this.#settled.has(claim.key)) {
      this.#world.violate(`${claim.key} has two recorded outcomes`);
    }
    this.#settled.add(claim.key);
    claim.isFree = true;
  }

  /** A write with a token was accepted: it must hold its item. */
  #write(token: string, what: string): Claim | undefined {
    const claim = this.#byToken.get(token);
    if (claim === undefined) return undefined;
    const isHeld = !claim.isFree && claim.until > this.#now();
    if (!isHeld || this.#holders.get(claim.key) !== claim) {
      const { name } = claim.process;
      this.#world.violate(`${what} for ${claim.key} with a token of ${name} that holds nothing`);
    }
    return claim;
  }
}
