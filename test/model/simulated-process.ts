import type { Clock } from '../../src/model/clock.ts';
import { testOptions } from '../../src/runtime/test-options.ts';
import type { ActivityContext } from '../../src/orchestration/activity-context.ts';
import { Perdure } from '../../src/perdure.ts';
import type { Worker } from '../../src/runtime/worker.ts';
import { createDefinitions, type WorkInput } from './script.ts';
import type { Connection, StoreBoundary } from './store-boundary.ts';

export interface ProcessParams {
  readonly boundary: StoreBoundary;
  readonly clock: Clock;
  readonly name: string;
  readonly fastPaths: boolean;
  readonly warm: boolean;
  readonly handle: (
    ctx: ActivityContext,
    input: WorkInput,
    process: SimulatedProcess,
  ) => Promise<string>;
  readonly onBlocked: (reason: string) => void;
}

/** Times of the workers of a scenario, in the clock's milliseconds. */
const workerTimes = {
  activityLease: 300,
  orchestrationLease: 200,
  cancelGrace: 120,
  cleanupTimeout: 1_500,
  shutdownGrace: 100,
  // Looks come with every change and every step of the clock.
  pollInterval: '30d',
} as const;

/** Activities that one worker runs at once. */
export const slotsPerWorker = 2;

/** A process with a client and a worker, as far as a store can tell. It can be stopped, or be gone from one moment to the next. */
export class SimulatedProcess {
  readonly name: string;
  readonly connection: Connection;
  readonly perdure: Perdure;
  readonly #alarms = new Set<() => void>();
  #worker: Worker | undefined;
  /** It was told to stop: no work comes to it any more. */
  isStopping = false;

  private constructor(
    name: string,
    connection: Connection,
    perdure: Perdure,
    alarms: Set<() => void>,
  ) {
    this.name = name;
    this.connection = connection;
    this.perdure = perdure;
    this.#alarms = alarms;
  }

  static async start(params: ProcessParams): Promise<SimulatedProcess> {
    const connection = params.boundary.connect();
    const alarms = new Set<() => void>();
    const clock = cuttableClock(params.clock, connection, alarms);
    const perdure = await Perdure.open(connection.provider, { clock });
    const process = new SimulatedProcess(params.name, connection, perdure, alarms);
    process.#worker = await perdure.startWorker({
      ...createDefinitions((ctx, input) => params.handle(ctx, input, process)),
      ...workerTimes,
      activityConcurrency: slotsPerWorker,
      maxClaims: 1_000,
      ...testOptions({ fastPaths: params.fastPaths }),
      ...(!params.warm && { warmCacheBytes: 0 }),
      // The scripts ask for nothing that would have to be patched, and draws here are seeded.
      deterministicGlobals: false,
      hooks: { instanceBlocked: ({ reason }) => params.onBlocked(reason) },
    });
    return process;
  }

  get isGone(): boolean {
    return this.connection.isCut;
  }

  /** As a SIGTERM would: stops in peace. */
  stop(): Promise<void> {
    this.isStopping = true;
    return this.#worker?.stop() ?? Promise.resolve();
  }

  /** As a SIGKILL would: its leases run out. */
  crash(): void {
    this.connection.cut();
    for (const cancel of this.#alarms) cancel();
  }

  close(): Promise<void> {
    return this.perdure.close();
  }
}

/** A clock whose alarms go with their process. */
function cuttableClock(clock: Clock, connection: Connection, alarms: Set<() => void>): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    setTimer(delayMs, callback) {
      if (connection.isCut) return () => undefined;
      // Whole milliseconds, as the store counts them.
      const cancelAlarm = clock.setTimer(Math.ceil(delayMs), () => {
        alarms.delete(cancel);
        callback();
      });
      const cancel = (): void => {
        alarms.delete(cancel);
        cancelAlarm();
      };
      alarms.add(cancel);
      return cancel;
    },
  };
}
