/** Process with a worker that handles updates. Argument: the store. Runs until it is killed. */
import { Perdure } from '../../../src/index.ts';
import { openStore } from '../helpers/open-store.ts';
import { definitions } from './update-definitions.ts';

const [store] = process.argv.slice(2);
if (store === undefined) throw new Error('Give the store.');
const perdure = await Perdure.open(await openStore(store));
// One instance gets all updates, so every kill hits it: without this limit it would count as poison.
const maxClaims = 1_000;
const leases = { orchestrationLease: 1_000, activityLease: 1_000 };
await perdure.startWorker({ ...definitions, ...leases, maxClaims });
process.once('disconnect', () => process.exit(0));
process.send?.('ready');
