/** Starts instances and takes their results from a process that runs none of them. */
import { Perdure } from '../../../src/index.ts';
import { InstanceStarter } from '../instance-starter.ts';
import { Ledger } from '../oracles/ledger.ts';
import { openStore } from '../open-store.ts';
import { leave, onCommand, readOptions, reportReady } from './program-io.ts';
import { kindOf } from '../scenarios.ts';

const { store, ledger: path, name, inFlight, outages } = readOptions();
const ledger = new Ledger(path);
const perdure = await Perdure.open(await openStore(store));
const starter = new InstanceStarter({
  perdure,
  ledger,
  name,
  inFlight,
  outages,
  // Nobody knows whether an event was raised when the answer to that is lost.
  kindOf: (n) => kindOf(n, { events: !outages }),
});

async function end(): Promise<void> {
  await starter.finish();
  await perdure.close();
  leave();
}

onCommand((command) => {
  if (command === 'startNoMore') void end();
});
reportReady();
