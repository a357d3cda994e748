/** `node batches-program.ts <store> <ledger>`: a worker that settles runs in batches and writes a ledger. */
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Perdure, task, type BatchRun } from '../../../src/index.ts';

const [store = '', ledger = ''] = process.argv.slice(2);

const insert = task(
  'insert',
  async (_ctx, runs: readonly BatchRun<number, string>[]) => {
    const tokens = new Map<string, string>();
    for (const [index, run] of runs.entries()) {
      await delay(Math.random() * 2);
      const token = `${run.id}:${Math.floor(Math.random() * 1_000_000_000)}`;
      const { id, idempotencyKey } = run;
      const line = { id, idempotencyKey, token, size: runs.length };
      appendFileSync(ledger, `${JSON.stringify(line)}\n`);
      // The first half is settled while the handler goes on; the rest is returned.
      if (index < runs.length / 2) run.complete(token);
      else tokens.set(run.id, token);
    }
    return runs.map(({ id }) => tokens.get(id) ?? '');
  },
  { batch: { max: 20, wait: 10 } },
);

const perdure = await Perdure.open(store);
await perdure.startWorker({
  tasks: [insert],
  activityConcurrency: 2,
  activityLease: 300,
  pollInterval: 50,
  maxClaims: 1_000,
});
process.send?.('ready');
