/** Runs a worker whose task emits numbers, on the store given as argument, until it is killed. */
import { setTimeout as delay } from 'node:timers/promises';
import { Perdure, silentLogger, task } from '../../../src/index.ts';

const [, , store] = process.argv;
if (store === undefined) throw new Error('Give the path or URL of the store.');

// Emits after a cancel too: the store must reject the chunks of a lost claim, not the signal.
const numbers = task('numbers', async (ctx, count: number) => {
  for (let n = 0; n < count; n += 1) {
    await ctx.emit({ n, pid: process.pid }).catch(() => undefined);
    await delay(2);
    // A process that is stopped within a transaction keeps its locks, so the test stops it here.
    if (n === 20) {
      process.send?.('idle');
      await delay(500);
    }
  }
});

const perdure = await Perdure.open(store, { logger: silentLogger });
await perdure.startWorker({ tasks: [numbers], activityLease: 600, cancelGrace: 2_000 });
process.once('disconnect', () => process.exit());
process.send?.('ready');
