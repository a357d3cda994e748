import { relative } from 'node:path';
import type { Terminal } from '../command.ts';
import { SourceWatch } from './source-watch.ts';
import type { ToWorker } from './worker-messages.ts';
import { WorkerProcess, type WorkerExit } from './worker-process.ts';

interface SupervisorParams {
  readonly start: Extract<ToWorker, { readonly kind: 'start' }>;
  readonly terminal: Pick<Terminal, 'stderr' | 'cwd' | 'interrupted'>;
  /** Called when a worker has started. */
  readonly onReady: (summary: string, pid: number) => void;
}

const graceMs = 4_000;
const firstDelayMs = 200;
const maxDelayMs = 5_000;
/** A worker that ran this long resets the delay before a restart. */
const healthyMs = 10_000;

/** Runs the worker process: restarts it when a file changes or it dies, and waits for a change after an error in the file. */
export async function superviseWorker(params: SupervisorParams): Promise<void> {
  const { terminal, start } = params;
  const { interrupted } = terminal;
  const changes = new Changes();
  const watch = new SourceWatch((path) => changes.add(path));
  watch.add(start.file);
  interrupted.addEventListener('abort', () => changes.wake(), { once: true });
  let delayMs = firstDelayMs;
  try {
    while (!interrupted.aborted) {
      changes.clear();
      const startedAt = performance.now();
      const worker = new WorkerProcess(start, {
        onLoaded: (path) => watch.add(path),
        onReady: params.onReady,
      });
      const exit = await Promise.race([worker.exited, changes.next()]);
      if (exit === undefined) await worker.stop(graceMs);
      if (interrupted.aborted) break;
      if (exit === undefined) {
        say(params, `${changes.names(terminal.cwd)} changed, restarting the worker`);
        continue;
      }
      if (performance.now() - startedAt > healthyMs) delayMs = firstDelayMs;
      await afterExit(params, { exit, watch, changes, delayMs });
      delayMs = Math.min(delayMs * 2, maxDelayMs);
    }
  } finally {
    watch.close();
  }
}

async function afterExit(
  params: SupervisorParams,
  given: {
    readonly exit: WorkerExit;
    readonly watch: SourceWatch;
    readonly changes: Changes;
    readonly delayMs: number;
  },
): Promise<void> {
  const { exit, watch, changes, delayMs } = given;
  const { stderr, cwd } = params.terminal;
  if (exit.wasReady) {
    const how = exit.signal ?? `exit code ${exit.code}`;
    say(params, `the worker ended (${how}), restarting it`);
    await changes.next(delayMs);
    return;
  }
  const text = exit.failure ?? `the worker ended before it was ready (exit code ${exit.code})`;
  stderr.write(`${stderr.style('red', 'error:')} ${params.start.name} cannot run.\n${text}\n`);
  say(params, 'waiting for a change');
  watch.takeAny(true);
  await changes.next();
  watch.takeAny(false);
  if (!params.terminal.interrupted.aborted) {
    say(params, `${changes.names(cwd)} changed, starting the worker`);
  }
}

function say({ terminal: { stderr } }: SupervisorParams, text: string): void {
  stderr.write(`${stderr.style('dim', text)}\n`);
}

/** The files that changed since the last start. */
class Changes {
  readonly #paths = new Set<string>();
  #onChange: (() => void) | undefined;
  #isWoken = false;

  add(path: string): void {
    this.#paths.add(path);
    this.#onChange?.();
  }

  /** Ends the current wait and all later ones. */
  wake(): void {
    this.#isWoken = true;
    this.#onChange?.();
  }

  clear(): void {
    this.#paths.clear();
  }

  names(cwd: string): string {
    return [...this.#paths].map((path) => relative(cwd, path)).join(', ');
  }

  /** Resolves after a change, or after the time. */
  next(timeoutMs?: number): Promise<undefined> {
    if (this.#paths.size > 0 || this.#isWoken) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const timer =
        timeoutMs === undefined ? undefined : setTimeout(() => this.#onChange?.(), timeoutMs);
      this.#onChange = () => {
        clearTimeout(timer);
        this.#onChange = undefined;
        resolve(undefined);
      };
    });
  }
}
