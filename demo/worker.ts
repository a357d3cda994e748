/** The worker process of the demo: runs the orders in the store, starts missing ones, and reports progress. */
import { setTimeout as pause } from 'node:timers/promises';
import { Perdure } from 'perdure';
import { writeLedger } from './ledger.ts';
import { defineOrder, orders, type Step } from './order.ts';

/** A message from the worker process to the demo. */
export type WorkerReport =
  | { readonly kind: 'begun' | 'done' | 'recorded'; readonly order: string; readonly step: Step }
  | { readonly kind: 'finished'; readonly order: string; readonly result: string };

const [storePath = '', ledgerPath = '', mode = ''] = process.argv.slice(2);
const report = (message: WorkerReport): void => void process.send?.(message);

// The parent process has exited.
process.once('disconnect', () => process.exit());

const unrecorded = new Map<string, Step>();
const { order, activities } = defineOrder((what, id, step) => {
  // The ledger proves the outcome of the first orders. New orders would let it grow forever.
  if (mode === '') writeLedger(ledgerPath, { order: id, step, what, pid: process.pid });
  if (what === 'done') unrecorded.set(id, step);
  report({ kind: what, order: id, step });
});

const perdure = await Perdure.open(storePath);
await perdure.startWorker({
  orchestrations: [order],
  activities,
  // On Linux, the next worker takes over immediately. Elsewhere it waits for these leases.
  activityLease: '1s',
  orchestrationLease: '1s',
  hooks: {
    turnCommitted({ instanceId }) {
      const step = unrecorded.get(instanceId);
      if (step === undefined) return;
      unrecorded.delete(instanceId);
      report({ kind: 'recorded', order: instanceId, step });
    },
  },
});

if (mode === 'new-orders') {
  for (;;) {
    const [newest] = (await perdure.client.list({ name: order.name }, { limit: 1 })).items;
    const number = Number(newest?.id.replace('order-', '') ?? 0) + 1;
    await perdure.client.start(order, 200, { id: `order-${number}` });
    await pause(700);
  }
}

// The id deduplicates starts: after a restart, this finds the existing orders.
await Promise.all(
  orders.map(async ({ id, delayMs }) => {
    const handle = await perdure.client.start(order, delayMs, { id });
    report({ kind: 'finished', order: id, result: await handle.result() });
  }),
);
await perdure.close();
process.disconnect?.();
