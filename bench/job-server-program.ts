/** The server process of attached work: a store with a server and a worker, which reports what its handlers observe. */
import { Perdure, task } from 'perdure';
import { serve } from 'perdure/server';
import { sharedNow } from './cancel-latencies.ts';

const [, , store = '', slots = ''] = process.argv;

const reports: { readonly key: string; readonly at: number }[] = [];

/** Records the time and sends it later, so that a report does not delay the next handler. */
function report(key: string): void {
  reports.push({ key, at: sharedNow() });
  if (reports.length === 1) setImmediate(() => process.send?.(reports.splice(0)));
}

const hold = task('hold', async (ctx) => {
  const told = new Promise<void>((resolve) => {
    const hear = (): void => {
      report(`told ${ctx.runId}`);
      resolve();
    };
    ctx.signal.addEventListener('abort', hear, { once: true });
  });
  report(`started ${ctx.runId}`);
  await told;
  ctx.throwIfCanceled();
});

const perdure = await Perdure.open(store);
await perdure.startWorker({ tasks: [hold], activityConcurrency: Number(slots) });
const server = await serve(perdure, { port: 0 });
process.once('disconnect', () => void server.close().then(() => perdure.close()));
report(server.url);
