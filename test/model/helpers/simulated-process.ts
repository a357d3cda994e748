import type { Clock } from '../../../src/model/clock.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { testOptions } from '../../../src/runtime/test-options.ts';
import type { ActivityContext } from '../../../src/orchestration/activity-context.ts';
import { Perdure } from '../../../src/perdure.ts';
import type { Worker } from '../../../src/runtime/worker.ts';
import { createDefinitions, type WorkInput } from './script.ts';
import type { Connection, StoreBoundary } from './store-boundary.ts';

export interface ProcessParams {
  readonly boundary: StoreBoundary;
  /** Its own provider. Absent: that of the boundary. */
  readonly store?: Provider | undefined;
  readonly pid: number;
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

/** Times of the workers of a scenario, in milliseconds of the fake clock. */
const workerTimes = {
  activityLease: 300,
  orchestrationLease: 200,
  cancelGrace: 120,
  cleanupTimeout: 1_500,
  shutdownGrace: 100,
  // The boundary wakes fetches on every change and every step of the clock.
  pollInterval: '30d',
} as const;

/** Concurrent activities per worker. */
export const slotsPerWorker = 2;

/** A simulated process with a client and a worker. It can be stopped or crash. */
export class SimulatedProcess {
  readonly name: string;
  readonly pid: number;
  readonly connection: Connection;
  readonly perdure: Perdure;
  readonly #alarms = new Set<() => void>();
  #worker: Worker | undefined;
  /** It is stopping: it claims no more work. */
  isStopping = false;

  private constructor(
    { name, pid }: Pick<ProcessParams, 'name' | 'pid'>,
    connection: Connection,
    perdure: Perdure,
    alarms: Set<() => void>,
  ) {
    this.name = name;
    this.pid = pid;
    this.connection = connection;
    this.perdure = perdure;
    this.#alarms = alarms;
  }

  static async start(params: ProcessParams): Promise<SimulatedProcess> {
    const { pid, store } = params;
    const connection = params.boundary.connect({ pid, ...(store !== undefined && { store }) });
    const alarms = new Set<() => void>();
    const clock = cuttableClock(params.clock, connection, alarms);
    const perdure = await Perdure.open(connection.provider, { clock });
    const process = new SimulatedProcess(params, connection, perdure, alarms);
    process.#worker = await perdure.startWorker({
      ...createDefinitions((ctx, input) => params.handle(ctx, input, process)),
      ...workerTimes,
      activityConcurrency: slotsPerWorker,
      maxClaims: 1_000,
      ...testOptions({ fastPaths: params.fastPaths }),
      ...(!params.warm && { warmCacheBytes: 0 }),
      // The scripts need no patched globals, and random numbers are seeded.
      deterministicGlobals: false,
      hooks: { instanceBlocked: ({ reason }) => params.onBlocked(reason) },
    });
    return process;
  }

  get isGone(): boolean {
    return this.connection.isCut;
  }

  /** As a SIGTERM: stops gracefully. */
  stop(): Promise<void> {
    this.isStopping = true;
    return this.#worker?.stop() ?? Promise.resolve();
  }

  /** As a SIGKILL: its leases expire, or another process takes them over. */
  crash({ inFlight = false } = {}): void {
    this.connection.cut({ inFlight });
    for (const cancel of this.#alarms) cancel();
  }

  close(): Promise<void> {
    return this.perdure.close();
  }
}

/** A clock whose alarms are canceled with their process. */
function cuttableClock(clock: Clock, connection: Connection, alarms: Set<() => void>): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    setTimer(delayMs, callback) {
      if (connection.isCut) return () => undefined;
      // Whole milliseconds, as in the store.
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
