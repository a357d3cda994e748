import { createHash } from 'node:crypto';
import type { Clock } from '../../../src/model/clock.ts';
import { platform, replacePlatform, type Platform } from '../../../src/model/platform.ts';
import { resetRandomPool } from '../../../src/model/values/random-id.ts';
import { Decisions, seededRandom } from './decisions.ts';
import { callerId, hookStore } from './store-hooks.ts';

/** A step that waits for its time. */
interface Task {
  readonly process: SimProcess;
  readonly label: string;
  readonly run: () => void;
  /** When it is due, in time of the world. */
  readonly at: number;
  isDone: boolean;
}

const realSetImmediate = globalThis.setImmediate;
/** The functions of production, before a world replaces them. */
const system: Platform = { ...platform };
const startAt = Date.UTC(2030, 0, 1);
const stallChance = 0.0004;
/** About a hundred times the steps of most seeds. */
const maxSteps = 150_000;

/**
 * A simulated process: a queue of steps and a clock. A stopped process runs no step. A killed one loses all of them.
 * While its code uses the CPU, its time runs ahead of the world.
 */
export class SimProcess {
  readonly name: string;
  readonly clock: Clock;
  /** The first characters of its lock tokens. */
  readonly processId: string;
  readonly immediates: (() => void)[] = [];
  /** The lead of its wall clock. */
  skewMs = 0;
  isDead = false;
  /** The step in which it last stalled between two readings of its clock. */
  stalledIn = -1;
  /** Its time when its last stall ended. */
  stalledUntil = -1;
  readonly #world: World;
  #busyUntil = 0;
  #stoppedUntil = 0;
  #stalledMs = 0;
  #iterationAt = 0;

  constructor(world: World, name: string) {
    this.#world = world;
    this.name = name;
    this.processId = name.padEnd(8, '_');
    this.clock = {
      now: () => Math.floor(world.wallMs(this, this.#read()) + this.skewMs),
      monotonic: () => this.#read(),
      setTimer: (delayMs, callback) => {
        const task = world.add(this, 'timer', callback, Math.ceil(Math.max(delayMs, 0)));
        return () => void (task.isDone = true);
      },
    };
  }

  /** Its monotonic time. */
  get at(): number {
    return Math.max(this.#world.now, this.#busyUntil);
  }

  /** When its next step can run. */
  get readyAt(): number {
    return Math.max(this.#busyUntil, this.#stoppedUntil);
  }

  /** Its time without the stalls inside steps, as its watchdog measures it. */
  get awakeMs(): number {
    return this.at - this.#stalledMs;
  }

  /** For how long its current step has used the CPU. */
  get iterationMs(): number {
    return this.awakeMs - this.#iterationAt;
  }

  /** A step begins. */
  beginIteration(): void {
    this.#iterationAt = this.awakeMs;
  }

  /** Uses the CPU. */
  burn(ms: number): void {
    this.#busyUntil = this.at + ms;
  }

  /** Stops it, as SIGSTOP does, and continues it later. */
  stop(ms: number): void {
    this.#stoppedUntil = Math.max(this.#stoppedUntil, this.#world.now + ms);
  }

  /** Until when it does nothing. In the past: it runs. */
  get stoppedUntil(): number {
    return this.#stoppedUntil;
  }

  /** Reads the clock. The process may be stopped just before. */
  #read(): number {
    const world = this.#world;
    if (
      !world.isHealing &&
      this.canStall &&
      world.decisions.happens(`stall:${this.name}`, stallChance)
    ) {
      this.stalledIn = world.steps;
      const ms = Math.round(20 + world.decisions.draw('stall ms') * 800);
      world.note(`${this.name} stalls for ${ms} ms`);
      world.reached.add('fault stall');
      this.#stalledMs += ms;
      this.burn(ms);
      this.stalledUntil = this.at;
    }
    return this.at;
  }

  get canStall(): boolean {
    return this.#world.canStall && this !== this.#world.store;
  }
}

interface WorldOptions {
  readonly seed: number;
  readonly allowed?: ReadonlySet<string> | undefined;
  readonly keepTrace: boolean;
}

/** One time, one queue of steps and one source of decisions. The same seed gives the same steps. */
export class World {
  readonly seed: number;
  readonly decisions: Decisions;
  readonly trace: string[] = [];
  readonly violations: string[] = [];
  /** All processes that ever ran, by the first characters of their lock tokens. */
  readonly processes = new Map<string, SimProcess>();
  readonly store: SimProcess;
  /** The process whose step runs. */
  current: SimProcess;
  now = 0;
  steps = 0;
  /** Faults have ended. */
  isHealing = false;
  canStall = false;
  /** The faults, programs and operations that this seed has reached. */
  readonly reached = new Set<string>();
  /** Called after each step. */
  afterStep: () => void = () => undefined;
  /** The store's wall clock at the current time of the world, once the store is open. */
  storeNow: (() => number) | undefined;
  readonly #keepTrace: boolean;
  readonly #hash = createHash('sha1');
  #lines = '';
  #tasks: Task[] = [];
  #processes: SimProcess[] = [];
  #ended: (() => void) | undefined;

  constructor({ seed, allowed, keepTrace }: WorldOptions) {
    this.seed = seed;
    this.decisions = new Decisions(seed, allowed);
    this.#keepTrace = keepTrace;
    this.store = this.createProcess('store');
    this.current = this.store;
  }

  createProcess(name: string): SimProcess {
    const process = new SimProcess(this, name);
    this.#processes.push(process);
    this.processes.set(process.processId, process);
    return process;
  }

  /** The time of a process without its skew: the machine's for the store, the store's for all others. */
  wallMs(process: SimProcess, at: number): number {
    if (process === this.store || this.storeNow === undefined) return startAt + at;
    return this.storeNow() + (at - this.now);
  }

  note(line: string): void {
    const text = `${Math.round(this.now)} ${line}\n`;
    if (this.#keepTrace) this.trace.push(text.slice(0, -1));
    this.#lines += text;
    if (this.#lines.length > 16_384) this.#flushHash();
  }

  /** Adds details to a kept trace. They are no part of the hash. */
  explain(describe: () => string): void {
    if (this.#keepTrace) this.trace.push(`${Math.round(this.now)}   ${describe()}`);
  }

  violate(what: string): void {
    this.note(`VIOLATION ${what}`);
    this.violations.push(what);
  }

  /** The hash of all notes. Call it once, at the end. */
  digest(): string {
    this.#flushHash();
    return this.#hash.digest('hex').slice(0, 16);
  }

  #flushHash(): void {
    this.#hash.update(this.#lines);
    this.#lines = '';
  }

  /** Adds a step of a process, `delayMs` after its current time. */
  add(process: SimProcess, label: string, run: () => void, delayMs = 0): Task {
    const task = { process, label, run, at: process.at + delayMs, isDone: process.isDead };
    if (!process.isDead) this.#tasks.push(task);
    return task;
  }

  /** Kills a process: its steps are lost. */
  kill(process: SimProcess): void {
    process.isDead = true;
    process.immediates.length = 0;
    this.#processes = this.#processes.filter((one) => one !== process);
    for (const task of this.#tasks) if (task.process === process) task.isDone = true;
  }

  /** Makes this world the platform of the engine until `end` is called. */
  begin(): void {
    const random = seededRandom(this.seed ^ 0x5bd1_e995);
    const handles = new Map<object, Task>();
    const setTimeout = (callback: () => void, ms: number): NodeJS.Timeout => {
      const handle = { unref: () => handle, ref: () => handle };
      handles.set(handle, this.add(this.current, 'timeout', callback, Math.max(ms, 0)));
      return handle as unknown as NodeJS.Timeout;
    };
    const clearTimeout = (handle: NodeJS.Timeout | undefined): void => {
      const task = handle && handles.get(handle);
      if (task !== undefined) task.isDone = true;
    };
    const unhook = hookStore();
    const restore = replacePlatform({
      now: () => this.current.clock.now(),
      monotonic: () => this.current.clock.monotonic(),
      awake: () => this.current.awakeMs,
      processId: callerId,
      random: () => {
        system.random();
        return random();
      },
      fillRandom: (bytes) => {
        // Throws where the patched globals would make production throw.
        system.fillRandom(new Uint8Array(1));
        for (let index = 0; index < bytes.length; index++) bytes[index] = random() * 256;
      },
      setImmediate: (callback) => {
        if (!this.current.isDead) this.current.immediates.push(callback);
      },
      setTimeout,
      clearTimeout,
      setInterval: (callback, ms) => {
        const repeat = (): void => {
          callback();
          const next = handles.get(interval);
          if (next !== undefined)
            handles.set(interval, this.add(this.current, 'interval', repeat, ms));
        };
        const interval = setTimeout(repeat, ms);
        return interval;
      },
      clearInterval: (handle) => {
        clearTimeout(handle);
        if (handle !== undefined) handles.delete(handle);
      },
    });
    this.#ended = () => {
      unhook();
      restore();
    };
    resetRandomPool();
  }

  end(): void {
    for (const process of this.#processes) this.kill(process);
    this.#ended?.();
    resetRandomPool();
  }

  /** Runs `work` as a step of the store, and all steps until it has settled. */
  async settle<T>(work: () => Promise<T>, maxMs = 60_000): Promise<T | undefined> {
    let result: { readonly value: T } | undefined;
    this.add(this.store, 'settle', () => {
      work().then(
        (value) => void (result = { value }),
        (error: unknown) => this.violate(`a read failed: ${String(error)}`),
      );
    });
    await this.run(() => result !== undefined, maxMs);
    return result?.value;
  }

  /**
   * Runs steps until `isDone`, or for `maxMs`. Each step is one iteration of the real event loop, so all microtasks and ticks
   * of a step have run before the next one.
   */
  run(isDone: () => boolean, maxMs: number): Promise<boolean> {
    const until = this.now + maxMs;
    return new Promise((resolve) => {
      const iterate = (): void => {
        this.current = this.store;
        this.afterStep();
        if (this.violations.length > 0) return resolve(false);
        if (isDone()) return resolve(true);
        if (!this.#step(until)) return resolve(false);
        realSetImmediate(iterate);
      };
      realSetImmediate(iterate);
    });
  }

  #step(until: number): boolean {
    const next = this.#next(until);
    if (next === undefined) return false;
    this.steps += 1;
    if (this.steps > maxSteps) this.violate(`it does not end within ${maxSteps} steps`);
    const process = next instanceof SimProcess ? next : next.process;
    this.current = process;
    process.beginIteration();
    try {
      if (next instanceof SimProcess) {
        this.note(`${process.name} immediate`);
        next.immediates.shift()?.();
      } else {
        next.isDone = true;
        this.note(`${process.name} ${next.label}`);
        next.run();
      }
    } catch (error) {
      this.violate(`a step threw ${error instanceof Error ? (error.stack ?? '') : String(error)}`);
    }
    return true;
  }

  /** Chooses one of the due steps. Without one, advances the time to the next. */
  #next(until: number): SimProcess | Task | undefined {
    for (;;) {
      const ready: (SimProcess | Task)[] = [];
      let soonest = Infinity;
      for (const process of this.#processes) {
        if (process.immediates.length === 0) continue;
        if (process.readyAt <= this.now) ready.push(process);
        else soonest = Math.min(soonest, process.readyAt);
      }
      let left = 0;
      for (const task of this.#tasks) {
        if (task.isDone) continue;
        this.#tasks[left++] = task;
        const at = Math.max(task.at, task.process.readyAt);
        if (at <= this.now) ready.push(task);
        else if (at < soonest) soonest = at;
      }
      this.#tasks.length = left;
      if (ready.length > 0) {
        return ready[ready.length === 1 ? 0 : this.decisions.pick('order', ready.length)];
      }
      if (soonest === Infinity || soonest > until) return undefined;
      this.now = soonest;
    }
  }
}
