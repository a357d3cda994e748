/** Process with a worker of limited definitions. Arguments: the store, its ledger, `strict` or `loose`. Runs until it is killed. */
import { Perdure } from '../../../src/index.ts';
import { openStore } from '../helpers/open-store.ts';
import { limitDefinitions, recordClaims } from './limit-definitions.ts';

const [store, ledger, figures] = process.argv.slice(2);
if (store === undefined || ledger === undefined) throw new Error('Give the store and the ledger.');
const perdure = await Perdure.open(recordClaims(await openStore(store), ledger));
await perdure.startWorker({
  ...limitDefinitions(ledger, figures === 'loose' ? 'loose' : 'strict'),
  orchestrationLease: 2_000,
  activityLease: 2_000,
  maxClaims: 1_000,
});
process.once('disconnect', () => process.exit(0));
process.send?.('ready');
