/** Process with a worker that handles updates. Argument: the store. Runs until it is killed. */
import { Perdure } from '../../../src/index.ts';
import { openStore } from '../helpers/open-store.ts';
import { definitions } from './update-definitions.ts';

const [store] = process.argv.slice(2);
if (store === undefined) throw new Error('Give the store.');
const perdure = await Perdure.open(await openStore(store));
await perdure.startWorker({ ...definitions, orchestrationLease: 1_000, activityLease: 1_000 });
process.once('disconnect', () => process.exit(0));
process.send?.('ready');
