/** Cancel tasks: one that is queued, one that is running, and one that cancels itself. */
import { isPerdureError, Perdure, task } from 'perdure';

const begun = Promise.withResolvers<void>();

const importFile = task('importFile', async (ctx, file: string) => {
  if (file === 'empty.csv') {
    await ctx.cancel('the file is empty');
    return;
  }
  begun.resolve();
  const { reason, trigger } = await ctx.canceled();
  console.log(`${ctx.runId} stops: ${reason} (${trigger})`);
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;
await perdure.startWorker({ tasks: [importFile] });

const running = await client.runTask(importFile, 'large.csv', { id: 'running' });
const waiting = await client.runTask(importFile, 'later.csv', { id: 'waiting', delay: '1h' });
const stopping = await client.runTask(importFile, 'empty.csv', { id: 'stopping' });
await begun.promise;

// Queued, so it is canceled immediately; its handler never runs.
console.log(await waiting.cancel({ reason: 'not needed' }));
// Running, so it is canceled once its handler has stopped; `wait` resolves then.
console.log(await running.cancel({ reason: 'wrong file', wait: true }));

for (const handle of [waiting, running, stopping]) {
  const error: unknown = await handle.result().catch((thrown: unknown) => thrown);
  if (isPerdureError(error, 'OPERATION_CANCELED')) console.log(handle.id, error.message);
}
await perdure.close();

// Output:
// { found: true, changed: true, status: 'canceled' }
// running stops: wrong file (cancel)
// { found: true, changed: true, status: 'canceled' }
// waiting Canceled (cancel): not needed
// running Canceled (cancel): wrong file
// stopping Canceled (cancel): the file is empty
