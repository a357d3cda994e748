/** Runs a worker whose task and step emit numbers, on the store given as argument, until it is killed. */
import { setTimeout as delay } from 'node:timers/promises';
import { orchestration, Perdure, silentLogger, task } from '../../../src/index.ts';

const [, , store] = process.argv;
if (store === undefined) throw new Error('Give the path or URL of the store.');

// Emits after a cancel too: the store must reject the chunks of a lost claim, not the signal.
async function emitNumbers(
  { emit }: { readonly emit: (chunk: unknown) => Promise<boolean> },
  count: number,
): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    await emit({ n, pid: process.pid }).catch(() => undefined);
    await delay(2);
    // A process that is stopped within a transaction keeps its locks, so the test stops it here.
    if (n === 20) {
      process.send?.('idle');
      await delay(500);
    }
  }
}

const numbers = task('numbers', (ctx, count: number) =>
  emitNumbers({ emit: (chunk) => ctx.emit(chunk) }, count),
);
const numbersOfStep = orchestration('numbersOfStep', (ctx, count: number) =>
  ctx.run('numbers', (step) => emitNumbers({ emit: (chunk) => step.emit(chunk) }, count)),
);

const perdure = await Perdure.open(store, { logger: silentLogger });
await perdure.startWorker({
  tasks: [numbers],
  orchestrations: [numbersOfStep],
  // Long enough for a busy machine: a worker that loses its lease by itself would emit again.
  activityLease: 2_000,
  orchestrationLease: 2_000,
  cancelGrace: 2_000,
});
process.once('disconnect', () => process.exit());
process.send?.('ready');
