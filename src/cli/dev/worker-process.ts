import { fork, type ChildProcess } from 'node:child_process';
import type { FromWorker, ToWorker } from './worker-messages.ts';

/** How a worker process ended. */
export interface WorkerExit {
  /** The error of the module; absent if the process started its worker. */
  readonly failure?: string;
  readonly wasReady: boolean;
  readonly signal: NodeJS.Signals | null;
  readonly code: number | null;
}

/** One run of the worker program in a child process. */
export class WorkerProcess {
  readonly exited: Promise<WorkerExit>;
  readonly #child: ChildProcess;

  constructor(
    start: Extract<ToWorker, { readonly kind: 'start' }>,
    events: {
      readonly onLoaded: (path: string) => void;
      readonly onReady: (summary: string, pid: number) => void;
    },
  ) {
    // The extension of this file: .ts from the sources, .js in the package.
    const program = new URL(`./worker-program${import.meta.url.slice(-3)}`, import.meta.url);
    this.#child = fork(program, {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      execArgv: [...flags()],
    });
    let failure: string | undefined;
    let wasReady = false;
    this.#child.on('message', (message: FromWorker) => {
      if (message.kind === 'loaded') events.onLoaded(message.path);
      if (message.kind === 'failed') failure = message.text;
      if (message.kind === 'ready') {
        wasReady = true;
        events.onReady(message.summary, this.#child.pid ?? 0);
      }
    });
    this.exited = new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null): void =>
        resolve({ ...(failure !== undefined && { failure }), wasReady, code, signal });
      this.#child.once('exit', end);
      this.#child.once('error', (error) => {
        failure ??= error.message;
        end(1, null);
      });
    });
    this.#send(start);
  }

  /** Asks the process to stop, and kills it after the grace. Resolves when it has ended. */
  async stop(graceMs: number): Promise<void> {
    this.#send({ kind: 'stop' });
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), graceMs);
    await this.exited;
    clearTimeout(timer);
  }

  #send(message: ToWorker): void {
    // A process that ends meanwhile reports its exit.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }
}

/** Node.js before 22.18 needs a flag to run TypeScript files. */
function flags(): readonly string[] {
  const { typescript } = process.features as { readonly typescript?: string | false };
  const given = process.execArgv;
  if (typescript !== false && typescript !== undefined) return given;
  return [...given, '--experimental-strip-types', '--disable-warning=ExperimentalWarning'];
}
