import { Perdure, type StartWorkerOptions } from '../perdure.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { FakeClock } from './fake-clock.ts';
import { SimulatedProcess, type OnWrite } from './simulated-process.ts';
import { watchClaims, type WatchedProvider } from './watch-claims.ts';

/** A worker in a process of its own, which can crash and is then replaced by another. */
export class CrashingWorker {
  readonly #store: Provider;
  readonly #clock: FakeClock;
  readonly #options: StartWorkerOptions;
  #process: SimulatedProcess | undefined;
  #watched: WatchedProvider | undefined;
  #perdure: Perdure | undefined;
  #starting: Promise<void> | undefined;
  #crashed = Promise.withResolvers<void>();
  /** Called around each write of the worker. */
  onWrite: OnWrite = () => Promise.resolve();

  constructor(store: Provider, clock: FakeClock, options: StartWorkerOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#options = options;
  }

  async start(): Promise<void> {
    const process = new SimulatedProcess(this.#store, this.#clock, (moment) =>
      process.isKilled ? Promise.resolve() : this.onWrite(moment),
    );
    this.#process = process;
    const watched = watchClaims(process.provider);
    this.#watched = watched;
    this.#perdure = await Perdure.open(watched.provider, { clock: process.clock });
    await this.#perdure.startWorker(this.#options);
  }

  /** Kills the process and starts another. */
  crash(): void {
    this.#process?.kill();
    this.#crashed.resolve();
    this.#crashed = Promise.withResolvers<void>();
    this.#starting = this.start().finally(() => (this.#starting = undefined));
  }

  isBusy(): boolean {
    return this.#starting !== undefined || this.#watched?.isBusy() === true;
  }

  async whenQuiet(): Promise<void> {
    while (this.isBusy()) {
      await this.#starting;
      // Calls of a crashed process never settle.
      await Promise.race([this.#watched?.whenQuiet(), this.#crashed.promise]);
    }
  }

  async stop(): Promise<void> {
    await this.#starting;
    await this.#perdure?.close();
  }
}
