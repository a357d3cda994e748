/** The worker process of `perdure dev`. Its parent sends the file and the store, and starts it again when a file changes. */
import '../../require-node.ts';
import module from 'node:module';
import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { CliError } from '../cli-error.ts';
import { Perdure } from '../../index.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { loadWorkerModule } from '../running/worker-module.ts';
import type { FromWorker, ToWorker } from './worker-messages.ts';

const packageFolder = fileURLToPath(new URL('../../../', import.meta.url));
let perdure: Perdure | undefined;
let stopping: Promise<void> | undefined;

function report(message: FromWorker): void {
  if (process.connected) process.send?.(message);
}

/** Reports the source files as they are loaded, so that a change of an imported file is noticed too. */
function reportLoads(): void {
  // Since Node.js 22.15. Without it, only the folder of the file is watched.
  const register = (module as { readonly registerHooks?: typeof module.registerHooks })
    .registerHooks;
  register?.({
    load(url, context, nextLoad) {
      const path = url.startsWith('file:') ? fileURLToPath(url) : undefined;
      const isSource =
        path !== undefined &&
        !path.startsWith(packageFolder) &&
        !path.includes(`${sep}node_modules${sep}`);
      if (isSource) report({ kind: 'loaded', path });
      return nextLoad(url, context);
    },
  });
}

async function start({ file, name, choice }: Extract<ToWorker, { kind: 'start' }>): Promise<void> {
  try {
    reportLoads();
    const { options, summary } = await loadWorkerModule(file, name);
    const { store, schema } = choice;
    perdure = await Perdure.open(store, {
      migrate: false,
      ...(schema !== undefined && { schema }),
    });
    // A restart on change should not wait for slow handlers.
    const worker = await perdure.startWorker({ shutdownGrace: '2s', ...options });
    report({ kind: 'ready', summary });
    // Without a call of `stop`, the database file was replaced: the parent starts a worker for the new one.
    void worker.stopped.then(stop);
  } catch (error) {
    report({ kind: 'failed', text: describe(error) });
    await stop();
  }
}

function describe(error: unknown): string {
  if (error instanceof CliError) return [error.message, error.next ?? ''].join('\n').trim();
  if (PerdureError.is(error)) return error.message;
  return inspect(error, { colors: false });
}

function stop(): Promise<void> {
  stopping ??= (async () => {
    await perdure?.close();
    // Sent messages are flushed before the channel closes.
    if (process.connected) process.disconnect();
    process.exit();
  })();
  return stopping;
}

process.on('message', (message: ToWorker) => {
  if (message.kind === 'start') void start(message);
  else void stop();
});
// The parent has ended, however it did.
process.on('disconnect', () => void stop());
// Ctrl-C reaches the whole process group: the parent decides when this process stops.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => void stop());
