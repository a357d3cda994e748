import { ProviderError } from '../../../src/model/failures/errors.ts';
import { StoreClock } from '../../../src/providers/postgres/driver/store-clock.ts';
import type { Topic } from '../../../src/providers/shared/effects.ts';
import type { Hint, Provider } from '../../../src/providers/contract/provider.ts';
import type { TransactRequest } from '../../../src/providers/contract/transactional.ts';
import { joined, sendBadItem } from './bad-item.ts';
import { repeatOf } from './repeats.ts';
import type { SimProcess, World } from './scheduler.ts';
import { callAs, takeDue } from './store-hooks.ts';
import type { Fault, Weather } from './weather.ts';

/** Observes the calls of all processes in the order of their commits. */
export interface Observer {
  /** A call has committed. */
  committed(call: ObservedCall): void;
  /** All commits of a step were observed. */
  settled(): void;
  /** The response of a call has reached its process. */
  delivered(call: ObservedCall): void;
  hinted(process: SimProcess, hint: Hint): void;
}

export interface ObservedCall {
  readonly process: SimProcess;
  readonly method: string;
  readonly args: readonly unknown[];
  readonly result: unknown;
}

interface FetchParams {
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

type Method = (...args: readonly unknown[]) => Promise<unknown>;

/** What each fetch waits for. */
const fetches: ReadonlyMap<string, Topic> = new Map<string, Topic>([
  ['fetchOrchestrationItems', 'orchestrations'],
  ['fetchWorkItems', 'work'],
]);

/**
 * The network between the processes and the store. Each call is a request, a commit and a response: three steps, between
 * which anything can happen.
 */
export class Network {
  readonly #world: World;
  readonly #store: Provider;
  readonly #weather: Weather;
  readonly #observer: Observer;
  /** The clocks of processes that estimate the store's clock, as those of a PostgreSQL server do. */
  readonly #estimates = new Map<SimProcess, StoreClock>();
  readonly #inFlight = new Map<SimProcess, Set<{ isLost: boolean; abort: () => void }>>();
  readonly #listeners = new Map<SimProcess, Set<(hint: Hint) => void>>();
  readonly #waiting = new Set<{
    readonly process: SimProcess;
    readonly topic: Topic | undefined;
    readonly wake: () => void;
  }>();
  /** Responses of this step. They are observed in the order of the calls. */
  #answered: { readonly order: number; readonly observe: () => void }[] = [];
  #calls = 0;

  constructor(params: {
    readonly world: World;
    readonly store: Provider;
    readonly weather: Weather;
    readonly observer: Observer;
  }) {
    this.#world = params.world;
    this.#store = params.store;
    this.#weather = params.weather;
    this.#observer = params.observer;
    params.world.afterStep = () => this.#observeAnswers();
  }

  /** Whether a fault happens here. */
  fault(fault: Fault, where: string): boolean {
    const world = this.#world;
    const isLoss = fault === 'wakeLost' || fault === 'hintLost';
    if (world.isHealing) return isLoss && this.#weather.deafEnd;
    const happens = world.decisions.happens(`${fault}:${where}`, this.#weather.rates[fault] ?? 0);
    if (happens) world.reached.add(`fault ${fault}`);
    return happens;
  }

  /** A killed process: some of its requests never reach the store. */
  cut(process: SimProcess): void {
    for (const request of this.#inFlight.get(process) ?? []) {
      if (this.#world.decisions.happens(`lostAtKill:${process.name}`, 0.5)) {
        request.isLost = true;
        this.#world.reached.add('fault lostAtKill');
        request.abort();
      }
    }
    for (const waiter of this.#waiting)
      if (waiter.process === process) this.#waiting.delete(waiter);
  }

  /** The store, as one process sees it. Call it in a step of the process. */
  connect(process: SimProcess): Provider {
    const estimate = this.#weather.skewMs > 0 ? new StoreClock() : undefined;
    if (estimate !== undefined) {
      // The process has asked for the time when it opened the store.
      estimate.observe(this.#world.storeNow?.() ?? 0, process.clock.monotonic());
      this.#estimates.set(process, estimate);
    }
    return new Proxy(this.#store, {
      get: (store, key) => {
        if (key === 'clock') return estimate;
        if (key === 'reopening' || typeof key === 'symbol') return undefined;
        if (key === 'clockIsEstimate') return estimate !== undefined;
        if (key === 'close') return () => Promise.resolve();
        if (key === 'hints')
          return (listener: (hint: Hint) => void) => this.#listen(process, listener);
        const value: unknown = Reflect.get(store, key);
        if (typeof value !== 'function') return value;
        if (fetches.has(key)) {
          return (params: FetchParams) =>
            this.#weather.storeWakes
              ? this.#call(process, key, [params])
              : this.#fetch(process, key, params);
        }
        return (...args: readonly unknown[]) => this.#call(process, key, args);
      },
    });
  }

  #latency(where: string): number {
    const { decisions } = this.#world;
    if (this.fault('slow', where)) return 50 + Math.floor(decisions.draw('slow ms') * 900);
    return decisions.pick(`latency:${where}`, 4);
  }

  #call(process: SimProcess, method: string, args: readonly unknown[]): Promise<unknown> {
    const world = this.#world;
    const where = `${process.name} ${method}`;
    return new Promise((resolve, reject) => {
      if (process.isDead) return;
      const respond = (label: string, run: () => void): void => {
        const delayMs = Math.max(0, world.now - process.at) + this.#latency(where);
        world.add(process, `gets ${label}`, run, delayMs);
      };
      const sentAt = process.clock.monotonic();
      if (this.fault('failBefore', where)) {
        const isUnknown = world.decisions.pick(`unknown outcome:${where}`, 2) === 1;
        return respond(`${method} failed`, () => reject(unavailable(method, isUnknown)));
      }
      const failsAfter = this.fault('failAfter', where);
      const controller = new AbortController();
      const request = { isLost: false, abort: () => controller.abort() };
      const inFlight = this.#inFlight.get(process) ?? new Set();
      this.#inFlight.set(process, inFlight.add(request));
      const commit = (): void => {
        if (request.isLost) return;
        // The claim of a woken fetch has no order of its own. No call joins its group, so it is the last of each.
        if (this.#weather.storeWakes && world.store.immediates.length > 0) {
          world.add(world.store, `waits for ${process.name} ${method}`, commit);
          return;
        }
        const order = ++this.#calls;
        const answer = (observe: () => void): void => {
          inFlight.delete(request);
          const isWoken = this.#weather.storeWakes && fetches.has(method);
          this.#answered.push({ order: isWoken ? Infinity : order, observe });
        };
        const sent = this.#sent(process, method, args, controller);
        const call = Reflect.get(this.#store, method) as Method;
        callAs(process, () => call(...sent.args)).then(
          (result) =>
            answer(() => {
              const committedAt = world.storeNow?.() ?? 0;
              const call = { process, method, args: sent.observed?.() ?? args, result };
              this.#observer.committed(call);
              this.#repeat(call);
              if (failsAfter) {
                return respond(`${method} failed`, () => reject(unavailable(method, true)));
              }
              respond(method, () => {
                this.#estimates.get(process)?.observe(committedAt, sentAt);
                this.#observer.delivered(call);
                resolve(result);
              });
            }),
          (error: Error) => answer(() => respond(`${method} ${error.name}`, () => reject(error))),
        );
        if (joined.has(method) && this.fault('badItem', 'store'))
          sendBadItem(world, this.#store, order);
      };
      const delayMs = Math.max(0, process.at - world.now) + this.#latency(where);
      world.add(world.store, `${process.name} ${method}`, commit, delayMs);
    });
  }

  /**
   * Sends a committed call again, up to two seconds later. The checks do not see the repeat: whatever it changes
   * contradicts them.
   */
  #repeat({ process, method, args, result }: ObservedCall): void {
    const world = this.#world;
    const again = repeatOf(method, args, result);
    if (again === undefined || !this.fault('repeat', `${process.name} ${method}`)) return;
    const call = Reflect.get(this.#store, method) as Method;
    const run = (): void => {
      world.note(`repeats ${process.name} ${method}`);
      callAs(process, () => call(...again)).catch((error: unknown) => {
        world.violate(`a repeat of ${method} rejects: ${String(error)}`);
      });
    };
    const where = `repeat:${process.name}`;
    const isSoon = world.decisions.draw(where) < 0.5;
    const delayMs = (isSoon ? 1 : 40) * world.decisions.pick(where, 50);
    world.add(world.store, `repeats ${process.name} ${method}`, run, delayMs);
  }

  /** The arguments as the store gets them: the abort of a fetch reaches it later. */
  #sent(
    process: SimProcess,
    method: string,
    args: readonly unknown[],
    controller: AbortController,
  ): { readonly args: readonly unknown[]; readonly observed?: () => readonly unknown[] } {
    if (method === 'transact') {
      const request = args[0] as TransactRequest;
      let ack: unknown;
      const write: TransactRequest['write'] = async (tx) => {
        const written = await request.write(tx);
        ack = written;
        return written;
      };
      return { args: [{ ...request, write }], observed: () => [ack] };
    }
    if (!fetches.has(method)) return { args };
    const { signal, ...params } = args[0] as FetchParams;
    if (signal?.aborted === true) controller.abort();
    const world = this.#world;
    signal?.addEventListener('abort', () => {
      world.add(
        world.store,
        `${process.name} aborts`,
        () => controller.abort(),
        this.#latency(process.name),
      );
    });
    return { args: [{ ...params, signal: controller.signal }] };
  }

  #observeAnswers(): void {
    if (this.#answered.length === 0) return;
    const answered = this.#answered.sort((a, b) => (a.order === b.order ? 0 : a.order - b.order));
    this.#answered = [];
    if (answered.length > 1) this.#world.reached.add('fault groupCommit');
    for (const { observe } of answered) observe();
    for (const topic of takeDue()) this.#wake(topic);
    this.#observer.settled();
  }

  /** Waits at the process instead of the store, where a wake-up can get lost. */
  async #fetch(process: SimProcess, method: string, params: FetchParams): Promise<unknown> {
    const { clock } = process;
    const deadline = clock.monotonic() + params.waitMs;
    const isAborted = (): boolean => params.signal?.aborted === true;
    for (;;) {
      if (isAborted()) return [];
      let isWoken = false;
      let wake = (): void => void (isWoken = true);
      const waiter = { process, topic: fetches.get(method), wake: () => wake() };
      this.#waiting.add(waiter);
      const sent = { ...params, waitMs: 0 };
      const items = (await this.#call(process, method, [sent])) as readonly unknown[];
      const leftMs = deadline - clock.monotonic();
      if (items.length > 0 || isAborted() || leftMs <= 0) {
        this.#waiting.delete(waiter);
        return items;
      }
      await new Promise<void>((resolve) => {
        if (isWoken) return resolve();
        const cancel = clock.setTimer(leftMs, resolve);
        wake = () => {
          cancel();
          resolve();
        };
        params.signal?.addEventListener('abort', wake, { once: true });
      });
      this.#waiting.delete(waiter);
    }
  }

  /** Wakes the fetches for which a commit brought work. */
  #wake(topic: Topic): void {
    const world = this.#world;
    for (const waiter of this.#waiting) {
      if (waiter.topic !== topic) continue;
      const { name } = waiter.process;
      if (this.fault('wakeLost', name)) continue;
      this.#waiting.delete(waiter);
      world.add(waiter.process, 'wakes', waiter.wake, world.decisions.pick(`wake:${name}`, 3));
    }
  }

  /** Adds a listener of a process. A hint reaches all listeners of a process in one step, or none. */
  #listen(process: SimProcess, listener: (hint: Hint) => void): () => void {
    const listeners = this.#listeners.get(process) ?? this.#subscribe(process);
    // Wrapped, so that one function can listen twice.
    const entry = (hint: Hint): void => listener(hint);
    listeners.add(entry);
    return () => void listeners.delete(entry);
  }

  #subscribe(process: SimProcess): Set<(hint: Hint) => void> {
    const world = this.#world;
    const listeners = new Set<(hint: Hint) => void>();
    this.#listeners.set(process, listeners);
    let isPending = false;
    let sent = 0;
    let newest = 0;
    this.#store.hints((hint) => {
      const where = `${process.name} ${hint.kind}`;
      if (process.isDead || listeners.size === 0) return;
      // One hint announces all commits that came before it.
      const isCommit = hint.kind === 'committed';
      if ((isCommit && isPending) || this.fault('hintLost', where)) return;
      if (isCommit) isPending = true;
      const times = this.fault('hintTwice', where) ? 2 : 1;
      const number = ++sent;
      for (let time = 0; time < times; time++) {
        const delayMs = this.fault('hintLate', where) ? 400 : this.#latency(where);
        const run = (): void => {
          if (isCommit) isPending = false;
          if (number < newest) world.reached.add('fault hintReordered');
          newest = Math.max(newest, number);
          if (listeners.size > 0) this.#observer.hinted(process, hint);
          for (const listener of listeners) listener(hint);
        };
        world.add(process, `hint ${hint.kind}`, run, Math.max(0, world.now - process.at) + delayMs);
      }
    });
    return listeners;
  }
}

function unavailable(method: string, outcomeUnknown: boolean): ProviderError {
  const message = `${method}: the store cannot be reached`;
  return new ProviderError({ operation: method, message, retryable: true, outcomeUnknown });
}
