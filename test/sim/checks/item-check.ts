import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { WorkItem } from '../../../src/providers/contract/work-queue.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { World } from '../engine/scheduler.ts';

/** What the store must know of a work item. */
interface ItemState {
  claims: number;
  failures: number;
  /** The latest heartbeat. */
  heartbeat: unknown;
  /** By the store's clock: not claimed before, unless it is flagged. */
  dueAt: number;
}

interface InstanceState {
  claims: number;
  dueAt: number;
}

interface RunTimes {
  readonly startsAt: number;
  readonly expiresAt: number;
}

interface NamedLease {
  readonly owner: string;
  readonly until: number;
}

type Call<M extends keyof Provider> = Provider[M] extends (
  ...args: infer Args
) => Promise<infer Result>
  ? { readonly args: Args; readonly result: Result }
  : never;

type ClaimedTurn = Pick<WorkItem, 'lockToken' | 'operation'>;

/**
 * Compares each claim with the history of its item: claims without an outcome, failures, heartbeat and delay.
 * Also checks that a claim has the code of its worker, that a task run starts at its time, and that a named lease has one
 * owner.
 */
export class ItemCheck {
  readonly #world: World;
  readonly #now: () => number;
  /** Whether the store's clock steps, so that times of its rows do not tell when they are due. */
  readonly #hasSteps: boolean;
  readonly #items = new Map<string, ItemState>();
  readonly #itemOf = new Map<string, ItemState>();
  /** By execution: a retry after a terminate begins with no claim. */
  readonly #instances = new Map<string, InstanceState>();
  readonly #ids = new Map<string, string>();
  readonly #instanceOf = new Map<string, InstanceState>();
  readonly #executionOf = new Map<string, string>();
  /** The times of task runs before their first claim, by incarnation. */
  readonly #runs = new Map<string, RunTimes>();
  readonly #leases = new Map<string, NamedLease>();
  readonly #records = new Map<string, string | null>();

  constructor(params: {
    readonly world: World;
    readonly now: () => number;
    readonly hasSteps: boolean;
  }) {
    this.#world = params.world;
    this.#now = params.now;
    this.#hasSteps = params.hasSteps;
  }

  /** Observes a committed call. */
  observe({ process, method, args, result }: ObservedCall): void {
    const call = { args, result } as never;
    switch (method as keyof Provider) {
      case 'fetchWorkItems':
        return this.#fetched(call, process.name);
      case 'fetchOrchestrationItems':
        return this.#fetchedInstances(call, process.name);
      case 'createInstances':
        return this.#created(call);
      case 'createTasks':
        return this.#createdTasks(call);
      case 'ackTurns':
        return this.#ackedTurns(call);
      case 'ackOrchestrationItems':
        return this.#ackedInstances(call);
      case 'renewWorkItemLocks':
        return this.#renewed(call);
      case 'retryWorkItems':
        return this.#retried(call);
      case 'abandonWorkItems':
        return this.#abandoned(call);
      case 'abandonOrchestrationItems':
        return this.#abandonedInstances(call);
      case 'takeLease':
        return this.#tookLease(call);
      case 'releaseLease': {
        const { name, owner } = args[0] as { readonly name: string; readonly owner: string };
        if (this.#leases.get(name)?.owner === owner) this.#leases.delete(name);
        return;
      }
      case 'writeRecord':
        this.#records.set(String(args[0]), args[1] as string | null);
        return;
      case 'readRecord': {
        const name = String(args[0]);
        if (this.#records.has(name))
          this.#expect(`record ${name}`, result, this.#records.get(name));
        return;
      }
      default:
    }
  }

  #expect(what: string, actual: unknown, expected: unknown): void {
    if (actual === expected) return;
    const texts = [actual, expected].map((value) => JSON.stringify(value));
    this.#world.violate(`${what} is ${texts[0]}, not ${texts[1]}`);
  }

  #fetched({ args, result }: Call<'fetchWorkItems'>, worker: string): void {
    const [{ names, tasks, max }] = args;
    if (result.length > max) this.#world.violate(`${result.length} items were claimed, not ${max}`);
    for (const item of result) {
      const known = item.kind === 'activity' ? names : tasks;
      const { instanceId, incarnation, executionId, operation, kind, name } = item;
      const key = `${kind} ${instanceId}/${incarnation}/${executionId}.${operation}`;
      if (known?.includes(name) === false && item.cancel === null) {
        this.#world.violate(`${worker} claims ${key} of ${name}, which it does not have`);
      }
      const state = this.#items.get(key) ?? newItem();
      this.#items.set(key, state);
      this.#itemOf.set(item.lockToken, state);
      state.claims += 1;
      this.#expect(`the number of claims of ${key}`, item.claims, state.claims);
      this.#expect(`the number of failures of ${key}`, item.failures, state.failures);
      this.#expect(`the heartbeat of ${key}`, dataOf(item.heartbeat), dataOf(state.heartbeat));
      if (item.cancel === null) this.#expectDue(key, state.dueAt);
      if (kind === 'task' && item.cancel === null) this.#expectRunTimes(key, incarnation);
    }
  }

  /** A run is first claimed after its delay, and before it expires. */
  #expectRunTimes(key: string, incarnation: string): void {
    const times = this.#runs.get(incarnation);
    this.#runs.delete(incarnation);
    if (times === undefined || this.#hasSteps) return;
    this.#expectDue(key, times.startsAt);
    if (times.expiresAt <= this.#now()) this.#world.violate(`${key} is claimed after it expired`);
  }

  #expectDue(key: string, dueAt: number): void {
    const earlyMs = dueAt - this.#now();
    if (earlyMs > 0 && !this.#hasSteps)
      this.#world.violate(`${key} is claimed ${earlyMs} ms before the end of its delay`);
  }

  #fetchedInstances({ args, result }: Call<'fetchOrchestrationItems'>, worker: string): void {
    const [{ runnable, max }] = args;
    if (result.length > max)
      this.#world.violate(`${result.length} instances were claimed, not ${max}`);
    for (const one of result) {
      const { instanceId, incarnation, executionId, lockToken } = one;
      const key = `${instanceId}/${incarnation}`;
      const execution = `${incarnation}/${executionId}`;
      const state = this.#instances.get(execution) ?? { claims: 0, dueAt: 0 };
      this.#instances.set(execution, state);
      this.#ids.set(incarnation, instanceId);
      this.#instanceOf.set(lockToken, state);
      this.#executionOf.set(lockToken, `${key}/${executionId}`);
      state.claims += 1;
      this.#expect(`the number of claims of ${key}`, one.claims, state.claims);
      // A cancel ends the delay, and so does the end of the clean-up limit.
      const endsDelay = one.messages.some(
        ({ kind }) => kind === 'cancel' || kind === 'cleanupExpired',
      );
      if (!endsDelay) this.#expectDue(key, state.dueAt);
      const isKnown = runnable?.some(({ name }) => name === one.name) ?? true;
      const hasCancel = one.messages.some(({ kind }) => kind !== 'start');
      if (!isKnown && !hasCancel)
        this.#world.violate(`${worker} claims ${key} of ${one.name}, which it does not have`);
    }
  }

  /** The activities that a turn claims for its process have their first claim. */
  #claimed(execution: string, claimed: readonly ClaimedTurn[]): void {
    for (const { lockToken, operation } of claimed) {
      const key = `activity ${execution}.${operation}`;
      const state = this.#items.get(key) ?? newItem();
      state.claims += 1;
      this.#items.set(key, state);
      this.#itemOf.set(lockToken, state);
    }
  }

  #created({ args, result }: Call<'createInstances'>): void {
    for (const [index, { instanceId, incarnation }] of args[0].entries()) {
      const created = result[index];
      this.#ids.set(incarnation, instanceId);
      if (created?.kind === 'created')
        this.#claimed(`${instanceId}/${incarnation}/1`, created.claimed);
    }
  }

  #createdTasks({ args: [tasks], result }: Call<'createTasks'>): void {
    const now = this.#now();
    for (const [index, task] of tasks.entries()) {
      // Another start may move a run with a debounce key.
      if (result[index]?.kind !== 'created' || task.debounce !== undefined) continue;
      const startsAt = Math.max(now, task.runAt ?? now + (task.delayMs ?? 0));
      const expiresAt = task.expiresAt ?? startsAt + (task.expiresInMs ?? Infinity);
      this.#runs.set(task.incarnation, { startsAt, expiresAt });
    }
  }

  #ackedTurns({ args, result }: Call<'ackTurns'>): void {
    for (const [index, { instanceId, incarnation, executionId }] of args[0].entries()) {
      const acked = result[index];
      if (acked?.ok !== true) continue;
      const id = instanceId ?? this.#ids.get(incarnation);
      this.#claimed(`${id}/${incarnation}/${executionId}`, acked.claimed);
      const state = this.#instances.get(`${incarnation}/${executionId}`);
      if (state !== undefined) Object.assign(state, { claims: 0, dueAt: 0 });
    }
  }

  #ackedInstances({ args, result }: Call<'ackOrchestrationItems'>): void {
    for (const [index, { lockToken }] of args[0].entries()) {
      const acked = result[index];
      if (acked?.ok !== true) continue;
      const execution = this.#executionOf.get(lockToken);
      if (execution !== undefined) this.#claimed(execution, acked.claimed);
      const state = this.#instanceOf.get(lockToken);
      if (state !== undefined) Object.assign(state, { claims: 0, dueAt: 0 });
    }
  }

  #renewed({ args, result }: Call<'renewWorkItemLocks'>): void {
    for (const [index, { lockToken, heartbeat }] of args[0].entries()) {
      const renewed = result[index];
      const state = this.#itemOf.get(lockToken);
      if (renewed?.held !== true || state === undefined) continue;
      if (heartbeat !== undefined) state.heartbeat = heartbeat;
    }
  }

  #retried({ args, result }: Call<'retryWorkItems'>): void {
    for (const [index, { lockToken, delayMs }] of args[0].entries()) {
      const state = this.#itemOf.get(lockToken);
      if (result[index] !== true || state === undefined) continue;
      state.claims = 0;
      state.failures += 1;
      state.dueAt = this.#now() + delayMs;
    }
  }

  #abandoned({ args, result }: Call<'abandonWorkItems'>): void {
    for (const [index, { lockToken, delayMs, giveBackClaim }] of args[0].entries()) {
      const state = this.#itemOf.get(lockToken);
      if (result[index] !== true || state === undefined) continue;
      if (giveBackClaim) state.claims = Math.max(0, state.claims - 1);
      state.dueAt = this.#now() + delayMs;
    }
  }

  #abandonedInstances({ args, result }: Call<'abandonOrchestrationItems'>): void {
    for (const [index, { lockToken, delayMs, giveBackClaim, blocked }] of args[0].entries()) {
      const state = this.#instanceOf.get(lockToken);
      if (result[index] !== true || state === undefined) continue;
      if (giveBackClaim) state.claims = Math.max(0, state.claims - 1);
      // Another build may claim a blocked instance earlier.
      if (blocked === undefined) state.dueAt = this.#now() + delayMs;
    }
  }

  #tookLease({ args: [{ name, owner, leaseMs }], result }: Call<'takeLease'>): void {
    const now = this.#now();
    const lease = this.#leases.get(name);
    const isFree = lease === undefined || lease.owner === owner || lease.until <= now;
    this.#expect(`whether ${owner} gets the lease ${name}`, result, isFree);
    if (isFree) this.#leases.set(name, { owner, until: now + leaseMs });
  }
}

function newItem(): ItemState {
  return { claims: 0, failures: 0, heartbeat: null, dueAt: 0 };
}

/** The text of a payload. */
function dataOf(payload: unknown): string {
  return JSON.stringify(payload ?? null);
}
