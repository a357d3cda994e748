import { Perdure, type StartWorkerOptions } from '../../../src/perdure.ts';
import type { Clock } from '../../../src/model/clock.ts';
import { silentLogger } from '../../../src/model/logger.ts';
import { testOptions } from '../../../src/runtime/test-options.ts';
import type { Worker } from '../../../src/runtime/worker.ts';
import type { Network } from './connection.ts';
import type { SimProcess, World } from './scheduler.ts';
import { SimHost } from './sim-host.ts';
import type { Weather } from './weather.ts';

/** A process with a client, and with a worker unless it only calls. */
export interface Member {
  readonly process: SimProcess;
  perdure?: Perdure;
  worker?: Worker;
  isStopping: boolean;
  /** It lacks some definitions. */
  readonly isOldBuild: boolean;
  /** The host of a worker. */
  readonly host?: SimHost | undefined;
}

export type Definitions = Pick<
  StartWorkerOptions,
  'orchestrations' | 'activities' | 'tasks' | 'flows' | 'retention'
>;

interface FleetParams {
  readonly world: World;
  readonly network: Network;
  readonly weather: Weather;
  readonly breakClock?: ((clock: Clock, wall: Clock) => Clock) | undefined;
  readonly onKilled: (process: SimProcess) => void;
  /** The definitions of a worker: an old build lacks some of them. */
  readonly define: (process: SimProcess, isOldBuild: boolean) => Definitions;
}

/** Times of the workers, in milliseconds. */
const workerTimes = {
  cancelGrace: 120,
  cleanupTimeout: 1_500,
  shutdownGrace: 100,
} as const;

/** Concurrent activities per worker. */
const slotsPerWorker = 4;

/** All processes of a simulation. */
export class Fleet {
  readonly workers: Member[] = [];
  readonly clients: Member[] = [];
  readonly #params: FleetParams;
  readonly #hosts: readonly SimHost[];
  #count = 0;

  constructor(params: FleetParams) {
    this.#params = params;
    const { world, weather } = params;
    this.#hosts = Array.from(
      { length: weather.hosts },
      (_, index) => new SimHost(world, `host${index}`),
    );
  }

  /** Starts a process with a worker. */
  joinWorker(isOldBuild = false): Member {
    const { world } = this.#params;
    const process = world.createProcess(`w${this.#count++}`);
    this.#skew(process);
    const { length } = this.#hosts;
    const host = length === 0 ? undefined : this.#hosts[world.decisions.pick('host', length)];
    host?.add(process);
    const member: Member = { process, isStopping: false, isOldBuild, host };
    this.workers.push(member);
    world.add(process, 'boots', () => {
      this.#startWorker(member, isOldBuild).catch((error: unknown) => {
        // A declaration of limits can fail with the store. Its supervisor starts the process again.
        if (process.isDead) return;
        world.note(`${process.name} does not start: ${String(error)}`);
        this.kill(member);
        this.joinWorker(isOldBuild);
      });
    });
    return member;
  }

  async #startWorker(member: Member, isOldBuild: boolean): Promise<void> {
    const { world, network, weather, define } = this.#params;
    const { process } = member;
    const perdure = await this.#open(member, network);
    member.worker = await perdure.startWorker({
      ...define(process, isOldBuild),
      ...workerTimes,
      activityLease: weather.activityLeaseMs,
      orchestrationLease: weather.orchestrationLeaseMs,
      name: process.name,
      pollInterval: weather.pollMs,
      activityConcurrency: slotsPerWorker,
      stepConcurrency: slotsPerWorker,
      maxClaims: weather.maxClaims,
      logger: silentLogger,
      heartbeat: member.host === undefined ? 1_000 : 200,
      ...(isOldBuild && { buildId: 'old' }),
      ...testOptions({
        fastPaths: weather.fastPaths,
        host: member.host?.seenBy(process) ?? null,
      }),
      ...(!weather.warm && { warmCacheBytes: 0 }),
      hooks: {
        instanceBlocked: ({ instanceId, reason }) =>
          world.violate(`${instanceId} is blocked: ${reason}`),
      },
    });
  }

  joinClient(): Member {
    const { world, network } = this.#params;
    const process = world.createProcess(`c${this.#count++}`);
    this.#skew(process);
    const member: Member = { process, isStopping: false, isOldBuild: false };
    this.clients.push(member);
    world.add(process, 'boots', () => void this.#open(member, network));
    return member;
  }

  /** As SIGKILL. */
  kill(member: Member): void {
    const { world, network } = this.#params;
    world.note(`kill ${member.process.name}`);
    network.cut(member.process);
    world.kill(member.process);
    this.#params.onKilled(member.process);
    for (const list of [this.workers, this.clients]) {
      const index = list.indexOf(member);
      if (index >= 0) list.splice(index, 1);
    }
  }

  /** As SIGTERM: the worker stops gracefully, and its process exits. */
  stop(member: Member): void {
    const { world } = this.#params;
    if (member.isStopping || member.worker === undefined) return;
    member.isStopping = true;
    const { process, worker } = member;
    world.note(`stop ${process.name}`);
    world.add(process, 'stops', () => {
      void worker.stop().then(() => this.kill(member));
    });
  }

  async #open(member: Member, network: Network): Promise<Perdure> {
    const { process } = member;
    const { weather, breakClock = (clock) => clock } = this.#params;
    const provider = network.connect(process);
    member.perdure = await Perdure.open(provider, {
      // Not the provider's own clock: with that, a worker starts a real watchdog.
      clock: breakClock(withoutWatchdog(provider.clock ?? process.clock), process.clock),
      pollInterval: weather.pollMs,
      logger: silentLogger,
    });
    return member.perdure;
  }

  #skew(process: SimProcess): void {
    const { world, weather } = this.#params;
    if (weather.skewMs === 0) return;
    process.skewMs = Math.floor((world.decisions.draw('skew') - 0.5) * 2 * weather.skewMs);
  }
}

function withoutWatchdog(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    setTimer: (delayMs, callback) => clock.setTimer(delayMs, callback),
  };
}
