import { systemClock } from '../../src/model/clock.ts';
import { isPerdureError, ProviderError } from '../../src/model/failures/errors.ts';
import type { LocalClient } from '../../src/client/local-client.ts';
import { prepareSqliteInvariants } from '../limits/sqlite-invariants.ts';
import { ClaimCheck } from './checks/claim-check.ts';
import { ItemCheck } from './checks/item-check.ts';
import { RequestCheck } from './checks/request-check.ts';
import { TakeoverCheck } from './checks/takeover-check.ts';
import { ModelCheck } from './checks/model-check.ts';
import { checkEnd } from './checks/end-check.ts';
import { Network, type ObservedCall } from './engine/connection.ts';
import { Fleet, type Member } from './engine/fleet.ts';
import { World, type SimProcess } from './engine/scheduler.ts';
import { openSimStore, type SimStore } from './engine/sim-store.ts';
import { chooseWeather, type Weather } from './engine/weather.ts';
import { reachedBy, reachedByWeather } from './coverage.ts';
import { describeCall } from './engine/describe-call.ts';
import { createWorkload, type Workload } from './programs/workload.ts';
import type { PlantedBug } from './planted-bugs/planted-bug.ts';

export interface SimulationOptions {
  readonly seed: number;
  /** Only these decisions may differ from their default. */
  readonly allowed?: ReadonlySet<string> | undefined;
  readonly keepTrace?: boolean;
  /** Called with each committed call and the store's time. */
  readonly onCommitted?: ((call: ObservedCall, nowMs: number) => void) | undefined;
  /** A guard to remove. */
  readonly bug?: PlantedBug | undefined;
}

export interface SimulationReport {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly hash: string;
  readonly decisions: readonly string[];
  readonly trace: readonly string[];
  readonly steps: number;
  readonly commits: number;
  readonly starts: number;
  readonly virtualMs: number;
  readonly weather: Weather;
  /** The faults, programs and operations that it reached. */
  readonly reached: ReadonlySet<string>;
}

/** How long faults happen, and how long everything may take after that. In virtual milliseconds. */
const faultsMs = 2_500;
const healMs = 60_000;
const weatherEveryMs = 20;
const commitsPerLimitCheck = 5;

/** A store, its processes and their work, for one seed. */
export class Simulation {
  readonly world: World;
  readonly weather: Weather;
  readonly store: SimStore;
  readonly fleet: Fleet;
  readonly claims: ClaimCheck;
  readonly model: ModelCheck;
  readonly items: ItemCheck;
  readonly requests: RequestCheck;
  readonly takeovers: TakeoverCheck;
  readonly workload: Workload;
  commits = 0;
  /** Calls of clients that have not settled. */
  #pending = 0;

  private constructor(
    world: World,
    store: SimStore,
    { bug, onCommitted }: Pick<SimulationOptions, 'bug' | 'onCommitted'>,
  ) {
    this.world = world;
    this.store = store;
    const { provider } = store;
    const now = (): number => provider.clock?.now() ?? 0;
    world.storeNow = now;
    // Other faults than those that were chosen may end more attempts.
    const changed = bug?.weather && { maxClaims: 25, ...bug.weather };
    this.weather = { ...chooseWeather(world.decisions), ...changed };
    world.canStall = this.weather.stalls;
    for (const name of reachedByWeather(this.weather)) world.reached.add(name);
    this.claims = new ClaimCheck(world, now, this.weather.maxClaims);
    this.model = new ModelCheck(world, provider, now);
    const hasSteps = this.weather.rates.storeStep !== undefined;
    this.items = new ItemCheck({ world, now, hasSteps });
    this.requests = new RequestCheck(world);
    const { claims, model } = this;
    this.takeovers = new TakeoverCheck({ world, claims, model, db: store.db, now });
    const network = new Network({
      world,
      store: {
        ...provider,
        ...bug?.breakStore?.({ ...store, clock: provider.clock ?? systemClock }),
      },
      weather: this.weather,
      observer: {
        committed: (call) => {
          this.commits += 1;
          world.explain(() => describeCall(call));
          const { length } = JSON.stringify(call.result) ?? '';
          world.note(`commits ${call.method}: ${length} characters`);
          onCommitted?.(call, now());
          for (const name of reachedBy(call)) world.reached.add(name);
          this.claims.observe(call);
          this.items.observe(call);
          this.requests.observe(call);
          this.takeovers.observe(call);
          this.model.observe(call);
          this.workload.observe(call);
        },
        settled: () => {
          this.takeovers.settled();
          this.model.compare();
          this.#expectLimitInvariants();
        },
        delivered: (call) => this.claims.delivered(call),
        hinted: (process, hint) => this.claims.hinted(process, hint),
      },
    });
    this.#network = network;
    this.workload = createWorkload(this);
    this.fleet = new Fleet({
      world,
      network,
      weather: this.weather,
      breakClock: bug?.breakClock,
      onKilled: (process) => {
        for (const repeat of this.#open.get(process) ?? []) repeat();
        this.#open.delete(process);
      },
      define: (process, isOldBuild) => this.workload.define(process, isOldBuild),
    });
  }

  /** Checks the rows of limits every few commits from now on. */
  checkLimits(): void {
    this.#limitInvariants ??= prepareSqliteInvariants(this.store.db);
  }

  #expectLimitInvariants(): void {
    if (this.#limitInvariants === undefined || this.commits < this.#nextLimitCheck) return;
    this.#nextLimitCheck = this.commits + commitsPerLimitCheck;
    try {
      this.#limitInvariants(this.world.storeNow?.() ?? 0);
    } catch (error) {
      this.world.violate(error instanceof Error ? error.message : String(error));
    }
  }

  #limitInvariants: ((now: number) => void) | undefined;
  #nextLimitCheck = 0;
  readonly #network: Network;
  /** Repeats the open calls of a process in another one. */
  readonly #open = new Map<SimProcess, readonly (() => void)[]>();

  static async open(
    world: World,
    options: Pick<SimulationOptions, 'bug' | 'onCommitted'>,
  ): Promise<Simulation> {
    // Broken stores change the schema. Some seeds begin with the schema of a new store, which has no triggers for limits.
    const isNew = options.bug !== undefined || world.seed % 4 === 0;
    const { clock } = world.store;
    const opened = await openSimStore({
      clock: options.bug?.breakStoreClock?.(clock) ?? clock,
      isNew,
    });
    return new Simulation(world, opened, options);
  }

  async run(): Promise<void> {
    const { world, weather, fleet } = this;
    for (let count = 0; count < weather.workers; count++) {
      fleet.joinWorker(weather.mixedBuilds && count === 0);
    }
    for (let count = 0; count < 2; count++) fleet.joinClient();
    this.workload.begin();
    this.#passWeather();
    await world.run(() => this.#isOver(), faultsMs);
    if (world.violations.length > 0) return;
    this.#heal();
    const isOver = await world.run(() => this.#isOver(), healMs);
    if (world.violations.length > 0) return;
    if (!isOver) {
      for (const what of this.workload.unfinished()) world.violate(`${what} is stuck`);
      if (this.#pending > 0) world.violate(`${this.#pending} calls of clients never settle`);
      return;
    }
    await checkEnd(this);
  }

  /** Calls the client of a process in one of its steps. Repeats the call while the store cannot be reached. */
  act(
    member: () => Member | undefined,
    delayMs: number,
    label: string,
    call: (client: LocalClient) => Promise<unknown>,
  ): void {
    const { world } = this;
    this.#pending += 1;
    const attempt = (waitMs: number): void => {
      const wanted = member();
      const chosen = wanted?.process.isDead === false ? wanted : this.fleet.clients[0];
      const process = chosen?.process ?? world.store;
      const repeat = (): void => attempt(20);
      world.add(
        world.store,
        `asks ${process.name}: ${label}`,
        () => {
          if (chosen?.perdure === undefined || process.isDead) return repeat();
          const { client } = chosen.perdure;
          // The calls of a killed process never settle: another process repeats them.
          this.#open.set(process, [...(this.#open.get(process) ?? []), repeat]);
          world.add(process, label, () => {
            call(client)
              .then(
                () => void (this.#pending -= 1),
                (error: unknown) => {
                  world.note(`${label}: ${isPerdureError(error) ? error.code : String(error)}`);
                  if (error instanceof ProviderError) attempt(50);
                  else this.#pending -= 1;
                },
              )
              .finally(() => {
                const open = this.#open.get(process) ?? [];
                this.#open.set(
                  process,
                  open.filter((one) => one !== repeat),
                );
              });
          });
        },
        waitMs,
      );
    };
    attempt(delayMs);
  }

  #isOver(): boolean {
    return this.#pending === 0 && this.workload.unfinished().length === 0;
  }

  /** Injects the faults of processes. */
  #passWeather(): void {
    const { world, fleet, weather } = this;
    if (world.isHealing) return;
    for (const member of fleet.workers.slice()) {
      const { process } = member;
      const { name } = process;
      if (this.#network.fault('kill', name)) {
        fleet.kill(member);
        fleet.joinWorker();
      } else if (this.#network.fault('stop', name)) {
        const ms = 50 + Math.floor(world.decisions.draw('stop ms') * 900);
        world.note(`pause ${process.name} for ${ms} ms`);
        process.stop(ms);
      } else if (this.#network.fault('gracefulStop', name)) {
        fleet.stop(member);
        fleet.joinWorker();
      } else if (weather.skewMs > 0 && this.#network.fault('step', name)) {
        process.skewMs += Math.floor((world.decisions.draw('step ms') - 0.5) * 4_000);
        world.note(`the clock of ${process.name} is ${process.skewMs} ms ahead`);
      }
    }
    for (const member of fleet.clients.slice()) {
      if (!this.#network.fault('killClient', member.process.name)) continue;
      fleet.kill(member);
      fleet.joinClient();
    }
    if (weather.skewMs === 0 && this.#network.fault('storeStep', 'store')) {
      world.store.skewMs += Math.floor((world.decisions.draw('store step ms') - 0.5) * 20_000);
      world.note(`the wall clock of the store is ${world.store.skewMs} ms ahead`);
    }
    world.add(world.store, 'weather', () => this.#passWeather(), weatherEveryMs);
  }

  /** No more faults: all work must end. */
  #heal(): void {
    const { world, fleet, weather } = this;
    world.note('heal');
    world.isHealing = true;
    // The first fetch of a new worker would hide a lost wake-up.
    const isLiving = ({ isStopping, isOldBuild }: Member): boolean => !isStopping && !isOldBuild;
    if (!fleet.workers.some(isLiving) || weather.pollMs <= 250) fleet.joinWorker();
    this.workload.heal();
  }
}

/** Runs one seed. */
export async function simulate(options: SimulationOptions): Promise<SimulationReport> {
  const { seed, allowed, keepTrace = false, bug } = options;
  const world = new World({ seed, allowed, keepTrace });
  world.begin();
  let simulation: Simulation | undefined;
  // Ignores rejections in a killed process: none of its code runs again.
  const onUnhandled = (error: unknown): void => {
    if (!world.current.isDead) world.violate(`unhandled rejection: ${String(error)}`);
  };
  process.on('unhandledRejection', onUnhandled);
  const undo = bug?.breakEngine?.();
  try {
    simulation = await Simulation.open(world, options);
    await simulation.run();
  } catch (error) {
    world.violate(`the simulation failed: ${error instanceof Error ? error.stack : String(error)}`);
  } finally {
    undo?.();
    process.off('unhandledRejection', onUnhandled);
    world.end();
    simulation?.store.db.close();
  }
  return {
    seed,
    violations: world.violations,
    hash: world.digest(),
    decisions: world.decisions.taken,
    trace: world.trace,
    steps: world.steps,
    commits: simulation?.commits ?? 0,
    starts: [...(simulation?.claims.starts.values() ?? [])].reduce((sum, count) => sum + count, 0),
    virtualMs: Math.round(world.now),
    weather: simulation?.weather ?? chooseWeather(world.decisions),
    reached: world.reached,
  };
}
