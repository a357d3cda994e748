/** `node steps-program.ts <store> <ledger>`: a worker that runs steps and writes each attempt to a ledger. */
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { orchestration, Perdure } from '../../../src/index.ts';

const [store = '', ledger = ''] = process.argv.slice(2);

const chain = orchestration('chain', async (ctx, length: number) => {
  let value = 0;
  for (let index = 0; index < length; index++) {
    const before = value;
    value = await ctx.run(`step ${index}`, async (step) => {
      // Differs in every attempt, so that a result of a lost attempt would show.
      const after = Math.floor(Math.random() * 1_000_000);
      const { idempotencyKey } = step;
      const line = { id: ctx.instanceId, index, before, after, idempotencyKey };
      appendFileSync(ledger, `${JSON.stringify(line)}\n`);
      await delay(Math.random() * 3);
      return after;
    });
  }
  return value;
});

const perdure = await Perdure.open(store);
await perdure.startWorker({
  orchestrations: [chain],
  orchestrationLease: 300,
  pollInterval: 50,
  // A kill during a step counts as a claim without an outcome.
  maxClaims: 1_000,
});
process.send?.('ready');
