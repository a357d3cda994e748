/** A worker or an operator of the operators test, until it is killed. Exits with its parent. */
import { activity, orchestration, Perdure } from '../../../src/index.ts';
import { Ledger } from '../oracles/ledger.ts';
import { runBulk, type BulkRole } from '../helpers/operator-bulk.ts';

/** The settings of one program, passed on its command line. */
export interface OperatorsOptions {
  readonly store: string;
  readonly ledger: string;
  /**
   * `faulty`: a worker whose activity fails. `fixed`: a worker whose activity completes. Others: an operator that runs
   * this bulk operation and reports its progress.
   */
  readonly role: 'faulty' | 'fixed' | BulkRole;
}

const { store, ledger, role } = JSON.parse(process.argv[2] ?? '') as OperatorsOptions;
process.on('disconnect', () => process.exit(1));

// Thousands of instances fail on purpose.
const ignore = (): void => undefined;
const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
const perdure = await Perdure.open(store, { logger });
const { client } = perdure;
if (role !== 'faulty' && role !== 'fixed') {
  await runBulk(client, role, { onProgress: (progress) => process.send?.(progress) });
} else {
  const lines = new Ledger(ledger);
  let runs = 0;
  const ship = activity(
    'ship',
    async (ctx) => {
      const { idempotencyKey: key, attempt } = ctx;
      lines.write({ line: 'begin', key, attempt, run: `${process.pid}-${++runs}`, at: Date.now() });
      if (role === 'faulty') throw new Error('The address is unknown.');
      return 'shipped';
    },
    { retry: { maxAttempts: 1 } },
  );
  const ships = orchestration('ships', async (ctx) => {
    await ctx.call(ship);
    await ctx.waitFor('delivered');
  });
  await perdure.startWorker({ orchestrations: [ships], activities: [ship] });
  process.send?.('started');
}
