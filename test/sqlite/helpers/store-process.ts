import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Command, Report } from './store-program.ts';

type Kind = Report['kind'];
type Of<K extends Kind> = Extract<Report, { kind: K }>;

/** A child process that runs `store-program.ts` on a file. */
export class StoreProcess {
  readonly #process: ChildProcess;
  readonly exited: Promise<void>;
  errors = '';

  constructor(path: string, name: string) {
    this.#process = fork(join(import.meta.dirname, 'store-program.ts'), [path, name], {
      execPath: process.execPath,
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
    });
    this.#process.stderr?.on('data', (chunk: Buffer) => (this.errors += chunk.toString()));
    this.exited = once(this.#process, 'exit').then(() => undefined);
  }

  send(command: Command): void {
    this.#process.send(command);
  }

  /** The next report of a kind; rejects when the process exits without it. */
  waitFor<K extends Kind>(kind: K): Promise<Of<K>> {
    return new Promise((resolve, reject) => {
      const listen = (report: Report): void => {
        if (report.kind !== kind) return;
        this.#process.off('message', listen);
        resolve(report as Of<K>);
      };
      this.#process.on('message', listen);
      void this.exited.then(() => reject(new Error(`No '${kind}'. ${this.errors}`)));
    });
  }

  async stop(): Promise<Of<'done'>> {
    const done = this.waitFor('done');
    this.send({ kind: 'stop' });
    const report = await done;
    await this.exited;
    return report;
  }

  /** Kills the process after a failed test. */
  kill(): void {
    this.#process.kill('SIGKILL');
  }
}
