import { fork, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { WorkerReport } from './worker.ts';

interface WorkerProcessParams {
  readonly storePath: string;
  readonly ledgerPath: string;
  /** Starts new orders until it is killed. Default: false, it exits when the orders of the demo have completed. */
  readonly takesNewOrders?: boolean;
}

/** A worker in a separate process, which the demo can kill. */
export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #listeners = new Set<(report: WorkerReport) => void>();
  /** Resolves when the process has exited. */
  readonly exited: Promise<void>;

  constructor({ storePath, ledgerPath, takesNewOrders = false }: WorkerProcessParams) {
    const program = join(import.meta.dirname, 'worker.ts');
    const newOrders = takesNewOrders ? ['new-orders'] : [];
    this.#child = fork(program, [storePath, ledgerPath, ...newOrders]);
    this.exited = new Promise((resolve) => this.#child.once('exit', () => resolve()));
    this.#child.on('message', (message) => {
      for (const listener of this.#listeners) listener(message as WorkerReport);
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  onReport(listener: (report: WorkerReport) => void): void {
    this.#listeners.add(listener);
  }

  /** Waits until a report makes the condition true; throws if the process exits first. */
  async until(condition: () => boolean): Promise<void> {
    const reached = new Promise<boolean>((resolve) => {
      this.onReport(() => {
        if (condition()) resolve(true);
      });
    });
    const isReached = await Promise.race([reached, this.exited.then(() => condition())]);
    if (!isReached) throw new Error(`Process ${this.pid} ended too early.`);
  }

  /** Waits for a time; throws if the process exits first. */
  async runFor(ms: number): Promise<void> {
    const hasExited = await Promise.race([pause(ms), this.exited.then(() => true)]);
    if (hasExited === true) throw new Error(`Process ${this.pid} ended too early.`);
  }

  /** Kills the process with SIGKILL and waits until it has exited. */
  async kill(): Promise<void> {
    this.destroy();
    await this.exited;
  }

  destroy(): void {
    this.#child.kill('SIGKILL');
  }
}
